"""JSON bodies of the JSON dialect: what is read, what is refused, what is answered."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from sparkport.catalog import ddl
from sparkport.catalog.scan import TimePoint, TimeUnit
from sparkport.errors import InvalidRequestError, LimitExceededError
from sparkport.protocol.json_dialect import requests as json_requests

Decode = Callable[[bytes], object]
Body = dict[str, Any]

TABLE: Body = {"schema_name": "s", "table_name": "t"}
FIELD: Body = {"name": "n", "type": "int64"}

# Each action with a body of its required keys and its optional flags.
ACTIONS: dict[str, tuple[Decode, Body, list[str]]] = {
    "CreateSchema": (json_requests.create_schema, {"schema_name": "s"}, ["if_not_exists"]),
    "DropSchema": (json_requests.drop_schema, {"schema_name": "s"}, ["if_exists", "cascade"]),
    "CreateTable": (json_requests.create_table, {**TABLE, "schema": {"fields": [FIELD]}}, ["if_not_exists"]),
    "DropTable": (json_requests.drop_table, TABLE, ["if_exists"]),
    "AlterTableAddColumn": (json_requests.add_column, {**TABLE, "column": FIELD}, ["if_exists"]),
    "AlterTableDropColumn": (json_requests.drop_column, {**TABLE, "column_name": "n"}, ["if_exists"]),
    "delete": (json_requests.delete, {**TABLE, "row_ids": [1]}, ["returning"]),
    "insert": (json_requests.put_command, {**TABLE, "operation": "insert"}, ["returning"]),
    "update": (json_requests.put_command, {**TABLE, "operation": "update", "row_ids": [1]}, ["returning"]),
    "get_transaction_status": (json_requests.transaction_id, {"transaction_id": "x"}, []),
}
REQUIRED = [(name, key) for name, (_, body, _) in ACTIONS.items() for key in body]
FLAGS = [(name, flag) for name, (_, _, flags) in ACTIONS.items() for flag in flags]


def encoded(body: object) -> bytes:
    """Return a body as JSON."""
    return json.dumps(body).encode()


def refusal(decode: Decode, body: bytes) -> str:
    """Return the message of a body that must be refused."""
    with pytest.raises(InvalidRequestError) as refused:
        decode(body)
    return str(refused.value)


def create(*fields: Body, **more: object) -> pa.Schema:
    """Return the columns of a CreateTable."""
    body = {**TABLE, "schema": {"fields": list(fields), **more}}
    return json_requests.create_table(encoded(body)).arrow_schema


@pytest.mark.parametrize("name", ACTIONS)
@pytest.mark.parametrize("body", [b"", b" ", b"null", b"[]", b"1", b'"x"', b"{", b"\xff", b"{'a': 1}"])
def test_what_is_no_object_is_refused(name: str, body: bytes) -> None:
    """A body that is not one JSON object is refused, an empty one too."""
    message = refusal(ACTIONS[name][0], body)

    assert message.startswith(("malformed JSON request: ", "malformed request body: "))


@pytest.mark.parametrize("name", ACTIONS)
def test_text_after_the_object_is_refused(name: str) -> None:
    """Nothing may follow the object."""
    decode, body, _ = ACTIONS[name]

    assert "trailing characters" in refusal(decode, encoded(body) + b" {}")


@pytest.mark.parametrize("name", ACTIONS)
def test_unknown_keys_are_ignored(name: str) -> None:
    """A key that nobody knows changes nothing."""
    decode, body, _ = ACTIONS[name]

    assert decode(encoded({**body, "unknown": {"x": [1]}})) == decode(encoded(body))


@pytest.mark.parametrize(("name", "key"), REQUIRED)
def test_missing_required_key_is_refused(name: str, key: str) -> None:
    """A required key that is missing is named in the message."""
    decode, body, _ = ACTIONS[name]
    message = refusal(decode, encoded({k: v for k, v in body.items() if k != key}))

    assert f"`{key}`" in message or message == "row_ids cannot be empty for UPDATE"


@pytest.mark.parametrize(("name", "key"), REQUIRED)
@pytest.mark.parametrize("value", [None, 1, [], {}, True])
def test_required_key_of_another_type_is_refused(name: str, key: str, value: object) -> None:
    """Null, or a value of another type, is refused for a required key."""
    decode, body, _ = ACTIONS[name]

    assert refusal(decode, encoded({**body, key: value}))


@pytest.mark.parametrize(("name", "flag"), FLAGS)
@pytest.mark.parametrize("value", [1, 0, "true", None, [], {}])
def test_flag_that_is_no_boolean_is_refused(name: str, flag: str, value: object) -> None:
    """A flag is true or false; 1 is neither."""
    decode, body, _ = ACTIONS[name]

    assert f"`$.{flag}`" in refusal(decode, encoded({**body, flag: value}))


@pytest.mark.parametrize(("name", "flag"), FLAGS)
def test_flags_are_off_unless_set(name: str, flag: str) -> None:
    """A flag that is left out counts as false."""
    decode, body, _ = ACTIONS[name]

    assert decode(encoded(body)) == decode(encoded({**body, flag: False}))
    assert decode(encoded(body)) != decode(encoded({**body, flag: True}))


def test_schema_options_are_read() -> None:
    """Comment and flags of CreateSchema and DropSchema arrive."""
    made = json_requests.create_schema(
        encoded({"schema_name": "Ünï.x", "if_not_exists": True, "comment": "why"})
    )
    dropped = json_requests.drop_schema(encoded({"schema_name": "s", "if_exists": True, "cascade": True}))

    assert (made.request.schema, made.if_not_exists) == ("Ünï.x", True)
    assert made.request.options == ddl.CreateSchemaOptions("why")
    assert dropped.options == ddl.DropSchemaOptions(ignore_not_found=True, cascade=True)


def test_table_keeps_everything_that_was_said() -> None:
    """Types, nullability, schema metadata and comment of CreateTable arrive."""
    body = {
        **TABLE,
        "schema": {
            "fields": [FIELD, {"name": "at", "type": "timestamp", "nullable": False}],
            "metadata": {"owner": "ann"},
        },
        "if_not_exists": True,
        "comment": "events",
    }
    made = json_requests.create_table(encoded(body))

    assert made.arrow_schema.equals(
        pa.schema(
            [("n", pa.int64()), pa.field("at", pa.timestamp("us"), nullable=False)],
            {"owner": "ann", "comment": "events"},
        ),
        check_metadata=True,
    )
    assert made.options.on_conflict is ddl.OnConflict.IGNORE
    assert made.options.comment == "events"


def test_own_comment_in_the_metadata_is_kept() -> None:
    """A metadata key `comment` is the user's; the table's comment does not replace it."""
    body = {**TABLE, "schema": {"fields": [FIELD], "metadata": {"comment": "mine"}}, "comment": "table's"}

    assert json_requests.create_table(encoded(body)).arrow_schema.metadata == {b"comment": b"mine"}


def test_children_are_given_as_fields() -> None:
    """Nested types take their children from a `fields` array of the same objects."""
    child = {"name": "x", "type": "utf8", "nullable": False}
    point = {
        "name": "p",
        "type": "struct",
        "fields": [child, {"name": "l", "type": "list", "fields": [FIELD]}],
    }

    assert create(point).field(0).type == pa.struct(
        [pa.field("x", pa.string(), nullable=False), ("l", pa.list_(pa.int64()))]
    )


def test_geometry_is_marked_as_wkb() -> None:
    """A geometry column is binary with the WKB extension, its srid and its kind."""
    field = {"name": "loc", "type": "extension<airport.geometry>"}
    made = create(field, metadata={"loc.srid": "4326", "loc.geometry_type": "POINT"}).field(0)

    assert made.type == pa.binary()
    assert made.metadata == {
        b"ARROW:extension:name": b"geoarrow.wkb",
        b"ARROW:extension:metadata": b'{"crs": "EPSG:4326", "crs_type": "authority_code"}',
        b"srid": b"4326",
        b"geometry_type": b"POINT",
    }


def test_geometry_without_srid_has_no_reference_system() -> None:
    """Without an srid nothing is claimed about the coordinates."""
    made = create({"name": "loc", "type": "extension<airport.geometry>"}).field(0)

    assert made.metadata == {b"ARROW:extension:name": b"geoarrow.wkb", b"ARROW:extension:metadata": b"{}"}


def test_table_without_columns_is_refused() -> None:
    """A table has at least one column."""
    body = {**TABLE, "schema": {"fields": []}}

    assert refusal(json_requests.create_table, encoded(body)) == "a table needs at least one column"


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ({"name": "", "type": "int64"}, "a column needs a name"),
        ({"name": "n", "type": "int46"}, "unknown Arrow type 'int46'. Did you mean 'int64'?"),
        ({"name": "n", "type": "int64", "fields": [FIELD]}, "type 'int64' takes no \"fields\""),
        (
            {"name": "n", "type": "null", "nullable": False},
            "column 'n' has type null, so it is nullable",
        ),
        ({"name": "n"}, "missing required field `type`"),
        ({"name": "n", "type": 1}, "Expected `str`, got `int`"),
        ({"name": "n", "type": "int64", "nullable": 1}, "Expected `bool`, got `int`"),
        ({"name": "n", "type": "list", "fields": [{"name": "", "type": "int8"}]}, "a column needs a name"),
    ],
)
def test_bad_column_is_refused_everywhere(field: Body, message: str) -> None:
    """CreateTable and AlterTableAddColumn refuse the same columns for the same reasons."""
    table = encoded({**TABLE, "schema": {"fields": [FIELD, field]}})
    column = encoded({**TABLE, "column": field})

    assert message in refusal(json_requests.create_table, table)
    assert message in refusal(json_requests.add_column, column)


def nested(levels: int) -> bytes:
    """Return AlterTableAddColumn of a type of so many levels."""
    opening, closing = b'{"name": "x", "type": "struct", "fields": [', b"]}"
    field = opening * (levels - 1) + b'{"name": "x", "type": "int8"}' + closing * (levels - 1)
    return b'{"schema_name": "s", "table_name": "t", "column": ' + field + b"}"


@pytest.mark.parametrize("levels", [65, 200, 480, 900, 100_000])
def test_deep_columns_are_refused(levels: int) -> None:
    """Types nest so deep that every client can read them, not deeper, however they are written."""
    word = "list<" * (levels - 1) + "int8" + ">" * (levels - 1)

    with pytest.raises(LimitExceededError, match="deep"):
        json_requests.add_column(nested(levels))
    if levels < 10_000:  # longer texts are refused for their length
        with pytest.raises(LimitExceededError, match="types nest at most 64 levels deep"):
            create({"name": "x", "type": word})


def test_deepest_columns_are_taken() -> None:
    """64 levels are fine in both forms."""
    json_requests.add_column(nested(64))
    made = create({"name": "x", "type": "list<" * 63 + "int8" + ">" * 63})

    assert str(made.field("x").type).count("list<") == 63


def test_depth_in_words_and_depth_in_fields_add_up() -> None:
    """Half of the depth in JSON and half in the type's text is still too deep."""
    field: Body = {"name": "x", "type": "list<" * 40 + "int8" + ">" * 40}
    for _ in range(40):
        field = {"name": "x", "type": "struct", "fields": [field]}

    with pytest.raises(LimitExceededError, match="types nest at most 64 levels deep"):
        create(field)


def test_too_many_columns_are_refused() -> None:
    """A table has at most ten thousand columns."""
    with pytest.raises(LimitExceededError, match="at most 10000 columns"):
        create(*({"name": f"c{i}", "type": "int8"} for i in range(10_001)))


def test_alterations_carry_their_column() -> None:
    """`if_exists` forgives a missing table; on a drop also a missing column, on an add nothing else."""
    added = json_requests.add_column(encoded({**TABLE, "column": FIELD, "if_exists": True}))
    dropped = json_requests.drop_column(encoded({**TABLE, "column_name": "n", "if_exists": True}))

    assert added.change == ddl.AddColumn(pa.field("n", pa.int64()), if_not_exists=False)
    assert added.ignore_not_found
    assert dropped.change == ddl.RemoveColumn("n", if_exists=True)
    assert [json_requests.changed_column(one.change) for one in (added, dropped)] == ["n", "n"]


def test_commands_are_read() -> None:
    """The command of a DoPut says which statement it is."""
    insert = json_requests.put_command(encoded({**TABLE, "operation": "insert", "returning": True}))
    update = json_requests.put_command(encoded({**TABLE, "operation": "update", "row_ids": [3, 1, -2]}))

    assert insert == json_requests.InsertCommand("s", "t", returning=True)
    assert update == json_requests.UpdateCommand("s", "t", pa.array([3, 1, -2]), returning=False)


def test_unknown_operation_is_refused() -> None:
    """A DoPut inserts or updates."""
    assert "'upsert'" in refusal(json_requests.put_command, encoded({**TABLE, "operation": "upsert"}))


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([], "row_ids cannot be empty for {}"),
        ([1, 2, 1], "row_ids has a duplicate id"),
        ([1 << 63], "a row id must be a 64-bit integer"),
        ([-(1 << 63) - 1], "a row id must be a 64-bit integer"),
        ([10**30], "a row id must be a 64-bit integer"),
        ([1.5], "malformed JSON request: Expected `int`, got `float` - at `$.row_ids[0]`"),
        (["1"], "malformed JSON request: Expected `int`, got `str` - at `$.row_ids[0]`"),
        ([True], "malformed JSON request: Expected `int`, got `bool` - at `$.row_ids[0]`"),
        ([None], "malformed JSON request: Expected `int`, got `null` - at `$.row_ids[0]`"),
    ],
)
def test_bad_row_ids_are_refused(ids: list[object], message: str) -> None:
    """Row ids are distinct 64-bit integers, at least one."""
    update = encoded({**TABLE, "operation": "update", "row_ids": ids})

    assert refusal(json_requests.put_command, update) == message.format("UPDATE")
    assert refusal(json_requests.delete, encoded({**TABLE, "row_ids": ids})) == message.format("DELETE")


def test_largest_row_ids_are_taken() -> None:
    """The whole range of 64 bits is allowed."""
    ids = [(1 << 63) - 1, -(1 << 63)]

    assert json_requests.delete(encoded({**TABLE, "row_ids": ids})).row_ids.to_pylist() == ids


@pytest.mark.parametrize("count", [1_000_001, 2_000_003])
def test_row_ids_are_limited(count: int) -> None:
    """A million ids are taken, more are refused; far more are not even decoded."""
    few = json_requests.delete(encoded({**TABLE, "row_ids": list(range(1_000_000))}))

    assert len(few.row_ids) == 1_000_000
    with pytest.raises(LimitExceededError, match=r"^row_ids has more than 1000000 ids"):
        json_requests.delete(encoded({**TABLE, "row_ids": list(range(count))}))


def test_large_json_is_not_decoded() -> None:
    """A body that would keep all others waiting is refused as it is."""
    with pytest.raises(LimitExceededError, match=r"^the JSON request has \d+ bytes"):
        json_requests.delete(b" " * (32 << 20) + encoded({**TABLE, "row_ids": [1]}))


@pytest.mark.parametrize(
    ("body", "auto_commit"),
    [
        (b"", True),
        (b" \n", True),
        (b"{}", True),
        (b'{"auto_commit": true}', True),
        (b'{"auto_commit": false}', False),
    ],
)
def test_transactions_commit_by_themselves_by_default(body: bytes, auto_commit: bool) -> None:
    """Only `auto_commit: false` begins a transaction of several calls."""
    assert json_requests.begin(body).auto_commit is auto_commit


@pytest.mark.parametrize("body", [b'{"auto_commit": 1}', b'{"auto_commit": null}', b"{} x", b"[]"])
def test_bad_begin_is_refused(body: bytes) -> None:
    """`auto_commit` is a boolean in a JSON object."""
    assert refusal(json_requests.begin, body)


def test_transaction_id_is_read_from_json_and_msgpack() -> None:
    """The id may come in either encoding."""
    assert json_requests.transaction_id(b'{"transaction_id": "x"}') == "x"
    assert json_requests.transaction_id(msgspec.msgpack.encode({"transaction_id": "x"})) == "x"


def test_json_and_msgpack_are_told_apart() -> None:
    """A body that is empty or starts with a brace is JSON."""
    assert [json_requests.is_json(body) for body in (b"", b" {", b"{}", b"\x80", b"\x81\xa1x\x01")] == [
        True,
        True,
        True,
        False,
        False,
    ]


def test_endpoints_are_named_with_a_time_point() -> None:
    """A time point has a unit and a value."""
    plain = json_requests.endpoints(msgspec.msgpack.encode({"schema": "s", "table": "t"}))
    point = {"unit": "Version", "value": "2"}
    timed = json_requests.endpoints(
        msgspec.msgpack.encode({"schema": "s", "table": "t", "time_point": point})
    )

    assert plain == json_requests.NamedEndpointsRequest("s", "t", None)
    assert timed.time_point == TimePoint(TimeUnit.VERSION, "2")


@pytest.mark.parametrize(
    "point", [{}, {"unit": "", "value": ""}, {"unit": "week", "value": "1"}, {"unit": "version"}, 3]
)
def test_bad_time_point_is_refused(point: object) -> None:
    """A time point without unit or value, or with an unknown unit, is refused."""
    body = msgspec.msgpack.encode({"schema": "s", "table": "t", "time_point": point})

    assert refusal(json_requests.endpoints, body)


def test_function_parameters_are_optional() -> None:
    """A table function without parameters has an empty list of them."""
    named = json_requests.table_function(msgspec.msgpack.encode({"name": "f", "parameters": [1, "x"]}))

    assert msgspec.msgpack.decode(named.parameters) == [1, "x"]
    assert json_requests.table_function(msgspec.msgpack.encode({"name": "f"})).parameters == b"\x90"


def test_metadata_filters_may_come_in_any_form() -> None:
    """No body, JSON and msgpack are all read."""
    body = {
        "catalog": "c",
        "db_schema_filter_pattern": "s%",
        "table_types": ["TABLE"],
        "include_schema": True,
    }
    wanted = json_requests.MetadataRequest("c", "s%", None, ("TABLE",), include_schema=True)

    assert json_requests.metadata(b"") == json_requests.MetadataRequest()
    assert json_requests.metadata(encoded(body)) == wanted
    assert json_requests.metadata(msgspec.msgpack.encode(body)) == wanted


def test_answers_have_exactly_their_keys() -> None:
    """Answers say success and nothing that was not asked for."""
    rows = pa.table({"n": [1]})

    assert json.loads(json_requests.encode({"schema_name": "s"})) == {"status": "success", "schema_name": "s"}
    assert json.loads(json_requests.encode_delete(2, None)) == {"status": "success", "affected_rows": 2}
    assert msgspec.msgpack.decode(json_requests.encode_put(2, None)) == {
        "status": "success",
        "affected_rows": 2,
        "returning_data": None,
    }
    put = msgspec.msgpack.decode(json_requests.encode_put(1, rows))
    deleted = json.loads(json_requests.encode_delete(1, rows))
    assert pa.ipc.open_stream(put["returning_data"]).read_all() == rows
    assert pa.ipc.open_stream(base64.b64decode(deleted["returning_data"])).read_all() == rows


def test_catalog_answers_are_one_zstd_frame() -> None:
    """A listing is an Arrow stream in a zstd frame."""
    rows = pa.table({"n": list(range(1000))})
    data = json_requests.encode_compressed(rows)

    assert data[:4] == b"\x28\xb5\x2f\xfd"
    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        assert pa.ipc.open_stream(stream).read_all() == rows
