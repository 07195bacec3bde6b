"""DDL of the JSON dialect over raw gRPC: exact answers, exact codes, and repeating what is safe."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pyarrow as pa
import pytest

import sparkport
from sparkport.protocol import flight_pb2 as pb
from tests.flight_client import Flight, path_descriptor, refusal, schema_in
from tests.json_client import INT, TEXT, JsonClient, table

ODD_NAMES = [
    "a.b",
    'say "hi"',
    "üñï☃",
    "with space",
    "select",
    "x'; DROP TABLE y; --",
    "a/b\\c",
    "\t\n",
    "{}",
]
DDL = [
    "CreateSchema",
    "DropSchema",
    "CreateTable",
    "DropTable",
    "AlterTableAddColumn",
    "AlterTableDropColumn",
]
JSON_ACTIONS = [
    *DDL,
    "delete",
    "create_transaction",
    "get_transaction_status",
    "commit_transaction",
    "rollback_transaction",
    "endpoints",
    "table_function_flight_info",
    "GetCatalogs",
    "GetDbSchemas",
    "GetTables",
    "GetTableTypes",
]


@pytest.fixture
def sales(plain: Flight) -> JsonClient:
    """Return a client of a server with a schema `sales` and a table `orders` of two columns."""
    json_client = JsonClient(plain)
    json_client.json("CreateSchema", schema_name="sales")
    json_client.create_table("sales", "orders", {**INT, "nullable": False}, TEXT)
    json_client.insert("sales", "orders", table([1, 2, 3], ["one", "two", None]))
    return json_client


def test_create_schema(sales: JsonClient) -> None:
    """CreateSchema answers with status and name, refuses a repetition, and forgives it if told to."""
    body = {"schema_name": "analytics", "comment": "Analytics data"}
    made = {"status": "success", "schema_name": "analytics"}

    assert sales.json("CreateSchema", **body) == made
    assert refusal(lambda: sales.json("CreateSchema", **body)) == (
        "ALREADY_EXISTS",
        "schema 'analytics' already exists",
    )
    for _ in range(3):
        assert sales.json("CreateSchema", **body, if_not_exists=True) == made
    assert sales.json("CreateSchema", schema_name="other", if_not_exists=True)["schema_name"] == "other"
    assert refusal(lambda: sales.json("CreateSchema", schema_name="")) == (
        "INVALID_ARGUMENT",
        "malformed JSON request: 'schema_name' must not be empty",
    )


def test_drop_schema(sales: JsonClient) -> None:
    """DropSchema wants an empty schema unless told to cascade, and counts the tables only then."""
    sales.json("CreateSchema", schema_name="empty")
    sales.create_table("sales", "more", INT)

    assert sales.json("DropSchema", schema_name="empty") == {"status": "success", "schema_name": "empty"}
    assert refusal(lambda: sales.json("DropSchema", schema_name="empty")) == (
        "NOT_FOUND",
        "schema 'empty' not found",
    )
    assert refusal(lambda: sales.json("DropSchema", schema_name="sales", if_exists=True)) == (
        "FAILED_PRECONDITION",
        "schema 'sales' contains tables (2 tables: 'more', 'orders'); drop them first or use cascade",
    )
    assert sales.json("DropSchema", schema_name="sales", cascade=True) == {
        "status": "success",
        "schema_name": "sales",
        "tables_dropped": 2,
    }
    for _ in range(2):
        assert sales.json("DropSchema", schema_name="sales", if_exists=True) == {
            "status": "success",
            "schema_name": "sales",
        }
    assert sales.json("DropSchema", schema_name="sales", if_exists=True, cascade=True)["tables_dropped"] == 0


def test_create_table(sales: JsonClient) -> None:
    """CreateTable answers with names and the count of columns, and its repetition depends on the flag."""
    made = {"status": "success", "schema_name": "sales", "table_name": "events", "columns": 2}

    assert sales.create_table("sales", "events", INT, TEXT, comment="what happened") == made
    assert refusal(lambda: sales.create_table("sales", "events", INT)) == (
        "ALREADY_EXISTS",
        "table 'sales.events' already exists",
    )
    for _ in range(2):
        assert sales.create_table("sales", "events", INT, if_not_exists=True) == made
    assert refusal(lambda: sales.create_table("nowhere", "events", INT, if_not_exists=True)) == (
        "NOT_FOUND",
        "schema 'nowhere' not found",
    )


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([], "a table needs at least one column"),
        ([INT, INT], "column 'id' is given twice"),
        ([INT, {"name": "ID", "type": "utf8"}], "column 'ID' is given twice"),
        ([{"name": "", "type": "utf8"}], "a column needs a name"),
        ([{"name": "n", "type": "int46"}], "unknown Arrow type 'int46'. Did you mean 'int64'?"),
    ],
)
def test_bad_table_is_invalid(sales: JsonClient, columns: list[dict[str, Any]], message: str) -> None:
    """Columns that cannot be are INVALID_ARGUMENT, and no table is made."""
    attempt = refusal(lambda: sales.create_table("sales", "bad", *columns))

    assert attempt == ("INVALID_ARGUMENT", message)
    assert refusal(lambda: sales.columns("sales", "bad"))[0] == "NOT_FOUND"


def test_table_comes_back_as_it_was_described(sales: JsonClient) -> None:
    """Types, nullability, schema metadata and comment are told by GetSchema and GetFlightInfo."""
    fields = [
        {"name": "id", "type": "int64", "nullable": False},
        {"name": "at", "type": "timestamp[us, tz=UTC]"},
        {"name": "tags", "type": "list<utf8>"},
        {"name": "p", "type": "struct", "fields": [{"name": "x", "type": "float64", "nullable": False}]},
        {"name": "m", "type": "map<utf8, int64>"},
        {"name": "d", "type": "dictionary<int32, utf8>"},
        {"name": "u", "type": "union", "fields": [INT, TEXT]},
        {"name": "e", "type": "decimal128(10, 2)"},
        {"name": "i", "type": "interval"},
    ]
    body = {"fields": fields, "metadata": {"owner": "ann", "ünï": "ö"}}
    answer = sales.json(
        "CreateTable", schema_name="sales", table_name="all", schema=body, comment="all of it"
    )
    wanted = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            ("at", pa.timestamp("us", "UTC")),
            ("tags", pa.list_(pa.string())),
            ("p", pa.struct([pa.field("x", pa.float64(), nullable=False)])),
            ("m", pa.map_(pa.string(), pa.int64())),
            ("d", pa.dictionary(pa.int32(), pa.string())),
            ("u", pa.sparse_union([pa.field("id", pa.int64()), pa.field("name", pa.string())])),
            ("e", pa.decimal128(10, 2)),
            ("i", pa.month_day_nano_interval()),
            pa.field("rowid", pa.int64(), nullable=False, metadata={"is_rowid": "1"}),
        ],
        {"owner": "ann", "ünï": "ö", "comment": "all of it"},
    )
    info = sales.info("sales", "all")

    assert answer["columns"] == 9
    assert sales.columns("sales", "all").equals(wanted, check_metadata=True)
    assert schema_in(info).equals(wanted, check_metadata=True)
    assert msgspec.msgpack.decode(info.app_metadata)["comment"] == "all of it"


def test_flight_info_names_what_it_describes(sales: JsonClient) -> None:
    """A FlightInfo echoes its descriptor and names catalog, schema and table."""
    info = sales.info("sales", "orders")
    named = msgspec.msgpack.decode(info.app_metadata)

    assert info.flight_descriptor.SerializeToString() == path_descriptor("sales", "orders")
    assert (named["catalog"], named["schema"], named["name"]) == ("db1", "sales", "orders")
    assert info.total_records == 3
    assert len(info.endpoint) == 1


def test_drop_table(sales: JsonClient) -> None:
    """DropTable answers with the names, refuses a repetition, and forgives it if told to."""
    dropped = {"status": "success", "schema_name": "sales", "table_name": "orders"}

    assert sales.json("DropTable", schema_name="sales", table_name="orders") == dropped
    assert refusal(lambda: sales.json("DropTable", schema_name="sales", table_name="orders")) == (
        "NOT_FOUND",
        "table 'sales.orders' not found",
    )
    for _ in range(2):
        assert sales.json("DropTable", schema_name="sales", table_name="orders", if_exists=True) == dropped
    assert (
        sales.json("DropTable", schema_name="nowhere", table_name="x", if_exists=True)["status"] == "success"
    )
    assert refusal(lambda: sales.json("DropTable", schema_name="nowhere", table_name="x"))[0] == "NOT_FOUND"


def test_add_column(sales: JsonClient) -> None:
    """A column is added with nulls; a second one of that name is refused whatever the flag says."""
    address = {"schema_name": "sales", "table_name": "orders"}
    column = {"name": "total", "type": "float64"}
    added = {"status": "success", **address, "column_name": "total"}

    assert sales.json("AlterTableAddColumn", **address, column=column) == added
    for flag in (False, True):
        attempt = refusal(
            lambda flag=flag: sales.json("AlterTableAddColumn", **address, column=column, if_exists=flag)  # type: ignore[misc]
        )
        assert attempt == ("ALREADY_EXISTS", "column 'total' already exists")
    assert sales.rows("sales", "orders")[0] == {"id": 1, "name": "one", "total": None}
    missing = {"schema_name": "sales", "table_name": "nothing", "column": column}
    assert refusal(lambda: sales.json("AlterTableAddColumn", **missing)) == (
        "NOT_FOUND",
        "table 'sales.nothing' not found",
    )
    for _ in range(2):
        assert sales.json("AlterTableAddColumn", **missing, if_exists=True)["status"] == "success"
    bad = {"name": "x", "type": "list"}
    code, message = refusal(lambda: sales.json("AlterTableAddColumn", **address, column=bad))
    assert code == "INVALID_ARGUMENT"
    assert "write 'list<int64>'" in message
    assert '"fields"' in message


def test_not_null_column_needs_an_empty_table(sales: JsonClient) -> None:
    """A NOT NULL column may be added to a table without rows only."""
    column = {"name": "must", "type": "int64", "nullable": False}
    sales.create_table("sales", "empty", INT)
    sales.json("AlterTableAddColumn", schema_name="sales", table_name="empty", column=column)
    attempt = refusal(
        lambda: sales.json("AlterTableAddColumn", schema_name="sales", table_name="orders", column=column)
    )

    assert not sales.columns("sales", "empty").field("must").nullable
    assert attempt == (
        "INVALID_ARGUMENT",
        "NOT NULL constraint of table 'orders' failed in column 'must'",
    )


def test_drop_column(sales: JsonClient) -> None:
    """A column is dropped; a missing one is forgiven if told to, the last one never goes."""
    address = {"schema_name": "sales", "table_name": "orders"}
    dropped = {"status": "success", **address, "column_name": "name"}

    assert sales.json("AlterTableDropColumn", **address, column_name="name") == dropped
    assert refusal(lambda: sales.json("AlterTableDropColumn", **address, column_name="name")) == (
        "NOT_FOUND",
        "column 'name' not found",
    )
    for _ in range(2):
        assert sales.json("AlterTableDropColumn", **address, column_name="name", if_exists=True) == dropped
    for flag in (False, True):
        attempt = refusal(
            lambda flag=flag: sales.json(  # type: ignore[misc]
                "AlterTableDropColumn", **address, column_name="id", if_exists=flag
            )
        )
        assert attempt == (
            "FAILED_PRECONDITION",
            "cannot drop column 'id': it is the last column of table 'orders'",
        )
    missing = {"schema_name": "sales", "table_name": "nothing", "column_name": "x"}
    assert refusal(lambda: sales.json("AlterTableDropColumn", **missing))[0] == "NOT_FOUND"
    assert sales.json("AlterTableDropColumn", **missing, if_exists=True)["status"] == "success"


def test_column_that_was_dropped_and_added_again_is_empty(sales: JsonClient) -> None:
    """The values of a dropped column do not come back with its name."""
    address = {"schema_name": "sales", "table_name": "orders"}
    sales.json("AlterTableDropColumn", **address, column_name="name")
    sales.json("AlterTableAddColumn", **address, column=TEXT)

    assert [row["name"] for row in sales.rows("sales", "orders")] == [None, None, None]


@pytest.mark.parametrize("action", [*DDL, "delete"])
@pytest.mark.parametrize("body", [b"", b"null", b"{}", b"{} {}", b"[]", b"\xff", b'{"schema_name": null}'])
def test_malformed_body_is_invalid(sales: JsonClient, action: str, body: bytes) -> None:
    """A body that is not one complete JSON object is INVALID_ARGUMENT."""
    code, message = refusal(lambda: sales.raw(action, body))

    assert code == "INVALID_ARGUMENT"
    assert message.startswith("malformed JSON request: ")


@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_names_work_everywhere(sales: JsonClient, name: str) -> None:
    """Any name of a schema, table or column is taken literally, on every way in and out."""
    row = pa.table({name: pa.array([1], pa.int64()), "id": pa.array([2], pa.int64())})
    other = {"name": f"{name}2", "type": "utf8"}
    address = {"schema_name": name, "table_name": name}

    assert sales.json("CreateSchema", schema_name=name)["schema_name"] == name
    assert sales.create_table(name, name, {"name": name, "type": "int64"}, INT)["table_name"] == name
    assert sales.insert(name, name, row)["affected_rows"] == 1
    assert sales.rows(name, name) == [{name: 1, "id": 2}]
    (row_id,) = sales.ids(name, name)
    assert sales.update(name, name, [row_id], row)["affected_rows"] == 1
    assert sales.json("AlterTableAddColumn", **address, column=other)["column_name"] == f"{name}2"
    assert sales.json("AlterTableDropColumn", **address, column_name=name)["column_name"] == name
    (endpoints,) = sales.flight.action("endpoints", {"schema": name, "table": name})
    assert endpoints
    found = [msgspec.msgpack.decode(info.app_metadata) for info in sales.flight.list_flights()]
    assert (name, name) in [(one["schema"], one["name"]) for one in found]
    assert sales.delete(name, name, [row_id])["affected_rows"] == 1
    assert sales.json("DropTable", **address)["table_name"] == name
    assert sales.json("DropSchema", schema_name=name)["schema_name"] == name


def test_names_that_fail_are_shown_literally(sales: JsonClient) -> None:
    """An odd name stands in the message as it was given, shortened only if it is enormous."""
    name = 'no\'such "☃"'
    code, message = refusal(lambda: sales.json("DropSchema", schema_name="x" * 10_000))

    assert refusal(lambda: sales.json("DropSchema", schema_name=name)) == (
        "NOT_FOUND",
        f"schema '{name}' not found",
    )
    assert code == "NOT_FOUND"
    assert len(message.encode()) == 1500
    assert message.endswith("x...")


def test_all_actions_are_listed(sales: JsonClient) -> None:
    """ListActions names every action of both dialects, each with a description."""
    answers = [pb.ActionType.FromString(data) for data in sales.flight.stream("ListActions", b"")]
    listed = {answer.type: answer.description for answer in answers}

    assert set(JSON_ACTIONS) <= set(listed)
    assert {"list_schemas", "create_schema", "add_column", "flight_info"} <= set(listed)
    assert all(listed.values())


@pytest.mark.parametrize("action", [*JSON_ACTIONS, "no_such_action"])
def test_token_is_asked_for_before_anything_is_read(server: sparkport.Server, action: str) -> None:
    """Without a token every action is UNAUTHENTICATED, also a malformed or unknown one."""
    with Flight(server.location, None, airport=False) as stranger:
        assert refusal(lambda: stranger.action(action, b"\xff{"))[0] == "UNAUTHENTICATED"


def test_unknown_action_is_unimplemented(sales: JsonClient) -> None:
    """Action names are taken letter by letter."""
    assert refusal(lambda: sales.raw("createSchema", b"{}")) == (
        "UNIMPLEMENTED",
        "unknown action 'createSchema'",
    )


def test_garbage_instead_of_a_message_is_invalid(sales: JsonClient) -> None:
    """Bytes that are no protobuf message are INVALID_ARGUMENT."""
    flight = sales.flight

    assert refusal(lambda: list(flight.stream("DoAction", b"\xff\xff"))) == (
        "INVALID_ARGUMENT",
        "malformed Action message",
    )
    assert refusal(lambda: sales.put_frames([b"\xff\xff"]))[0] == "INVALID_ARGUMENT"
    assert refusal(lambda: flight.unary("GetFlightInfo", b"\xff\xff"))[0] == "INVALID_ARGUMENT"


def test_half_a_character_in_a_descriptor_is_survived(sales: JsonClient) -> None:
    """JSON can spell what UTF-8 cannot; the refusal is an ordinary one."""
    command = json.dumps({"schema": "\ud800", "table": "x"}).encode()
    descriptor = pb.FlightDescriptor(type=pb.FlightDescriptor.CMD, cmd=command)

    assert refusal(lambda: sales.flight.flight_info(descriptor.SerializeToString())) == (
        "NOT_FOUND",
        "schema '?' not found",
    )


def test_read_only_catalog_refuses_ddl() -> None:
    """Where nothing can be made or changed, DDL is FAILED_PRECONDITION and says what is missing."""
    catalog = sparkport.CatalogBuilder().schema("s").table("t", pa.table({"n": [1]})).build()
    with (
        sparkport.Server(catalog, port=0, authenticate=False, grace_seconds=0.2) as server,
        Flight(server.location, None, airport=False) as flight,
    ):
        json_client = JsonClient(flight)

        assert refusal(lambda: json_client.json("CreateSchema", schema_name="x")) == (
            "FAILED_PRECONDITION",
            "catalog 'lakehouse' does not support CREATE SCHEMA",
        )
        assert refusal(lambda: json_client.create_table("s", "x", INT)) == (
            "FAILED_PRECONDITION",
            "schema 's' does not support CREATE TABLE",
        )
        column = {"schema_name": "s", "table_name": "t", "column": INT}
        assert refusal(lambda: json_client.json("AlterTableAddColumn", **column)) == (
            "FAILED_PRECONDITION",
            "table 't' does not support ALTER TABLE",
        )
