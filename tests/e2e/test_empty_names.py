"""Empty and missing names in every request of both dialects: INVALID_ARGUMENT, and nothing changed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial

import pyarrow as pa
import pytest

from sparkport.flight.sql_actions import SQL_ACTIONS
from sparkport.protocol import flight_pb2 as pb
from tests.flight_client import Flight, cmd_descriptor, path_descriptor, refusal
from tests.json_client import JsonClient

from .conftest import ROWS, TABLE

Body = dict[str, object]

ALTER: Body = {"catalog": "db1", "schema": "sales", "name": "orders", "ignore_not_found": True}
DROP: Body = {"catalog_name": "db1", "schema_name": "sales", "name": "orders", "ignore_not_found": True}
CREATE: Body = {
    "catalog_name": "db1",
    "schema_name": "sales",
    "table_name": "new",
    "arrow_schema": bytes(ROWS.schema.serialize()),
}
COLUMN = bytes(pa.schema([("n", pa.int64())]).serialize())
NAMELESS = bytes(pa.schema([("", pa.int64())]).serialize())

# Each action with a body that is right but for its names, and the fields that hold these.
AIRPORT: list[tuple[str, Body, list[str]]] = [
    ("create_schema", {"catalog_name": "db1", "schema": "new"}, ["schema"]),
    ("create_table", CREATE, ["schema_name", "table_name"]),
    ("drop_table", DROP, ["schema_name", "name"]),
    ("add_column", {**ALTER, "column_schema": COLUMN}, ["schema", "name"]),
    ("remove_column", {**ALTER, "removed_column": "id"}, ["schema", "name", "removed_column"]),
    (
        "rename_column",
        {**ALTER, "old_name": "id", "new_name": "n"},
        ["schema", "name", "old_name", "new_name"],
    ),
    ("rename_table", {**ALTER, "new_table_name": "new"}, ["schema", "name", "new_table_name"]),
    ("change_column_type", {**ALTER, "column_schema": COLUMN, "expression": ""}, ["schema", "name"]),
    (
        "set_default",
        {**ALTER, "column_name": "id", "expression": "1"},
        ["schema", "name", "column_name"],
    ),
    ("set_not_null", {**ALTER, "column_name": "id"}, ["schema", "name", "column_name"]),
    ("drop_not_null", {**ALTER, "column_name": "id"}, ["schema", "name", "column_name"]),
    ("add_field", {**ALTER, "column_path": ["s"], "column_schema": COLUMN}, ["schema", "name"]),
    (
        "rename_field",
        {**ALTER, "column_path": ["s", "a"], "new_name": "b"},
        ["schema", "name", "new_name"],
    ),
    ("remove_field", {**ALTER, "column_path": ["s", "a"]}, ["schema", "name"]),
    ("add_constraint", {**ALTER, "constraint": "CHECK (id > 0)"}, ["schema", "name"]),
    ("column_statistics", {"flight_descriptor": TABLE, "column_name": "id"}, ["column_name"]),
]

NAMES: Body = {"schema_name": "sales", "table_name": "orders"}
FIELDS = [{"name": "n", "type": "int64"}]
JSON: list[tuple[str, Body, list[str]]] = [
    ("CreateSchema", {"schema_name": "new"}, ["schema_name"]),
    ("DropSchema", {"schema_name": "new", "if_exists": True}, ["schema_name"]),
    ("CreateTable", {**NAMES, "schema": {"fields": FIELDS}}, ["schema_name", "table_name"]),
    ("DropTable", {**NAMES, "if_exists": True}, ["schema_name", "table_name"]),
    ("AlterTableAddColumn", {**NAMES, "column": FIELDS[0]}, ["schema_name", "table_name"]),
    (
        "AlterTableDropColumn",
        {**NAMES, "column_name": "id", "if_exists": True},
        ["schema_name", "table_name", "column_name"],
    ),
    ("delete", {**NAMES, "row_ids": [0]}, ["schema_name", "table_name"]),
    ("cancel_statement", {"statement_id": "s"}, ["statement_id"]),
    ("get_transaction_status", {"transaction_id": "t"}, ["transaction_id"]),
    ("commit_transaction", {"transaction_id": "t"}, ["transaction_id"]),
    ("rollback_transaction", {"transaction_id": "t"}, ["transaction_id"]),
]

# Actions of the JSON dialect whose body is, or may be, msgpack.
PACKED: list[tuple[str, Body, list[str]]] = [
    ("endpoints", {"schema": "sales", "table": "orders"}, ["schema", "table"]),
    ("table_function_flight_info", {"name": "range", "parameters": []}, ["name"]),
    ("get_transaction_status", {"transaction_id": "t"}, ["transaction_id"]),
    ("commit_transaction", {"transaction_id": "t"}, ["transaction_id"]),
    ("rollback_transaction", {"transaction_id": "t"}, ["transaction_id"]),
]

EMPTY_DESCRIPTORS = [
    path_descriptor("db1", "", "orders"),
    path_descriptor("db1", "sales", ""),
    path_descriptor("", "orders"),
    path_descriptor("sales", ""),
    cmd_descriptor(json.dumps({"catalog": "db1", "schema": "", "table": "orders"})),
    cmd_descriptor(json.dumps({"schema": "sales", "table": ""})),
]
NO_TABLE = ("INVALID_ARGUMENT", "the schema and table of a flight descriptor must not be empty")
NO_FUNCTION = ("INVALID_ARGUMENT", "the schema and function of a flight descriptor must not be empty")


def each_name(requests: list[tuple[str, Body, list[str]]]) -> list[tuple[str, Body, str]]:
    """Return one case for each field that holds a name."""
    return [(action, body, key) for action, body, keys in requests for key in keys]


def without(body: Mapping[str, object], key: str) -> Body:
    """Return the body without one of its fields."""
    return {name: value for name, value in body.items() if name != key}


@pytest.mark.parametrize(("action", "body", "key"), each_name(AIRPORT))
def test_msgpack_names_are_required(orders: Flight, action: str, body: Body, key: str) -> None:
    """An Airport action with an empty or missing name is refused, also where a missing table is forgiven."""
    assert refusal(lambda: orders.action(action, {**body, key: ""})) == (
        "INVALID_ARGUMENT",
        f"malformed request body: '{key}' must not be empty",
    )
    assert refusal(lambda: orders.action(action, without(body, key))) == (
        "INVALID_ARGUMENT",
        f"malformed request body: Object missing required field `{key}`",
    )


@pytest.mark.parametrize(("action", "body", "key"), each_name(JSON))
def test_json_names_are_required(orders: Flight, action: str, body: Body, key: str) -> None:
    """A JSON action with an empty or missing name is refused, also where a missing table is forgiven."""
    json_client = JsonClient(orders)

    assert refusal(lambda: json_client.json(action, **{**body, key: ""})) == (
        "INVALID_ARGUMENT",
        f"malformed JSON request: '{key}' must not be empty",
    )
    assert refusal(lambda: json_client.json(action, **without(body, key))) == (
        "INVALID_ARGUMENT",
        f"malformed JSON request: Object missing required field `{key}`",
    )


@pytest.mark.parametrize(("action", "body", "key"), each_name(PACKED))
def test_packed_names_are_required(orders: Flight, action: str, body: Body, key: str) -> None:
    """A msgpack body of the JSON dialect is held to the same rule."""
    assert refusal(lambda: orders.action(action, {**body, key: ""})) == (
        "INVALID_ARGUMENT",
        f"malformed request body: '{key}' must not be empty",
    )
    assert refusal(lambda: orders.action(action, without(body, key))) == (
        "INVALID_ARGUMENT",
        f"malformed request body: Object missing required field `{key}`",
    )


def test_drop_schema_takes_its_name_from_name(client: Flight) -> None:
    """The client's `drop_schema` has an empty `schema_name`; only without both names is it refused."""
    client.create_schema("db1", "old")
    body: Body = {"catalog_name": "db1", "schema_name": "", "ignore_not_found": True}

    assert client.action("drop_schema", {**body, "name": "old"}) == []
    assert refusal(lambda: client.action("drop_schema", {**body, "name": ""})) == (
        "INVALID_ARGUMENT",
        "malformed request body: 'name' must not be empty",
    )
    assert refusal(lambda: client.action("drop_schema", body)) == (
        "INVALID_ARGUMENT",
        "malformed request body: Object missing required field `name`",
    )


@pytest.mark.parametrize("operation", ["insert", "update"])
@pytest.mark.parametrize("key", ["schema_name", "table_name"])
def test_put_names_are_required(orders: Flight, operation: str, key: str) -> None:
    """A DoPut with an empty or missing name is refused."""
    json_client = JsonClient(orders)
    command = {"operation": operation, **NAMES, "row_ids": [0]}

    assert refusal(lambda: json_client.put({**command, key: ""}, ROWS)) == (
        "INVALID_ARGUMENT",
        f"malformed JSON request: '{key}' must not be empty",
    )
    assert refusal(lambda: json_client.put(without(command, key), ROWS)) == (
        "INVALID_ARGUMENT",
        f"malformed JSON request: Object missing required field `{key}`",
    )


@pytest.mark.parametrize("descriptor", EMPTY_DESCRIPTORS)
def test_descriptors_name_a_schema_and_a_table(orders: Flight, descriptor: bytes) -> None:
    """A descriptor with an empty name is refused wherever descriptors go."""
    assert refusal(lambda: orders.action("flight_info", {"descriptor": descriptor})) == NO_TABLE
    assert refusal(lambda: orders.scan(descriptor, [0])) == NO_TABLE
    statistics = {"flight_descriptor": descriptor, "column_name": "id"}
    assert refusal(lambda: orders.action("column_statistics", statistics)) == NO_TABLE
    assert refusal(lambda: orders.flight_info(descriptor)) == NO_TABLE
    assert refusal(lambda: orders.unary("GetSchema", descriptor)) == NO_TABLE
    for operation in ("insert", "update", "delete"):
        assert refusal(partial(orders.write, operation, descriptor, ROWS)) == NO_TABLE


@pytest.mark.parametrize(("schema", "function"), [("", "range"), ("sales", "")])
def test_descriptors_name_a_function(orders: Flight, schema: str, function: str) -> None:
    """A descriptor of a function with an empty name is refused wherever such descriptors go."""
    table_function = path_descriptor("db1", schema, "table_function", function, "form")
    scalar = path_descriptor("db1", schema, "scalar_function", function, "form")
    info = {"descriptor": table_function, "parameters": b""}

    assert refusal(lambda: orders.action("table_function_flight_info", info)) == NO_FUNCTION
    assert refusal(lambda: orders.scan(table_function, [0])) == NO_FUNCTION
    assert refusal(lambda: orders.write("scalar_function", scalar, ROWS)) == NO_FUNCTION
    assert refusal(lambda: orders.write("table_function_in_out", table_function, ROWS)) == NO_FUNCTION


@pytest.mark.parametrize(
    ("action", "body", "text"),
    [
        ("create_table", {**CREATE, "arrow_schema": NAMELESS}, "a column needs a name"),
        ("add_column", {**ALTER, "column_schema": NAMELESS}, "a column needs a name"),
        ("change_column_type", {**ALTER, "column_schema": NAMELESS}, "a column needs a name"),
        ("add_field", {**ALTER, "column_path": ["s"], "column_schema": NAMELESS}, "a field needs a name"),
    ],
)
def test_arrow_fields_need_names(orders: Flight, action: str, body: Body, text: str) -> None:
    """A column or field that comes as an Arrow schema has a name too, whether or not the table exists."""
    nowhere = {key: "nowhere" if key in {"schema", "schema_name"} else value for key, value in body.items()}

    assert refusal(lambda: orders.action(action, body)) == ("INVALID_ARGUMENT", text)
    assert refusal(lambda: orders.action(action, nowhere)) == ("INVALID_ARGUMENT", text)


@pytest.mark.parametrize("action", ["rename_field", "remove_field"])
def test_paths_of_fields_have_no_empty_names(orders: Flight, action: str) -> None:
    """Every name on the path to a field is needed."""
    body = {**ALTER, "column_path": ["s", ""], "new_name": "b"}

    assert refusal(lambda: orders.action(action, body)) == (
        "INVALID_ARGUMENT",
        "malformed request body: 'column_path[1]' must not be empty",
    )


@pytest.mark.parametrize("key", ["primary_key_columns", "unique_columns", "multi_key_primary_keys"])
def test_keys_have_no_empty_names(orders: Flight, key: str) -> None:
    """A key is made of named columns."""
    assert refusal(lambda: orders.action("create_table", {**CREATE, key: ["id", ""]})) == (
        "INVALID_ARGUMENT",
        f"malformed request body: '{key}[1]' must not be empty",
    )


def test_updated_columns_have_names(orders: Flight) -> None:
    """An UPDATE over DoExchange sets named columns."""
    rows = pa.table([pa.array(["x"]), pa.array([0])], names=["", "rowid"])

    assert refusal(lambda: orders.write("update", TABLE, rows)) == (
        "INVALID_ARGUMENT",
        "a column needs a name",
    )


def test_json_columns_need_names(orders: Flight) -> None:
    """A column of the JSON dialect has a name."""
    json_client = JsonClient(orders)
    column = {"name": "", "type": "int64"}
    expected = ("INVALID_ARGUMENT", "a column needs a name")

    assert refusal(lambda: json_client.create_table("sales", "new", column)) == expected
    assert refusal(lambda: json_client.json("AlterTableAddColumn", **NAMES, column=column)) == expected


def test_every_action_is_in_these_tables(orders: Flight) -> None:
    """A new action that names something has to be added above."""
    unnamed = {
        "list_schemas",
        "catalog_version",
        "create_transaction",
        "list_statements",
    }  # the empty catalog is the default
    filters = {"GetCatalogs", "GetDbSchemas", "GetTables", "GetTableTypes"}
    descriptors = {"flight_info", "endpoints", "table_function_flight_info", "drop_schema"}
    listed = {action for action, _, _ in [*AIRPORT, *JSON, *PACKED]} | unnamed | filters | descriptors
    offered = {pb.ActionType.FromString(data).type for data in orders.stream("ListActions", b"")}

    assert offered - SQL_ACTIONS.keys() == listed  # those have no names but in SQL
