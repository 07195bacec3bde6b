from __future__ import annotations

import msgspec
import pyarrow as pa
import pytest

from tests.flight_client import Flight, descriptor_of, refusal

COLUMNS = pa.schema([("a", pa.int64()), ("b", pa.string())])


@pytest.fixture
def schema(client: Flight) -> Flight:
    """Return a client with an empty schema `s`."""
    client.create_schema("db1", "s")
    return client


def test_replace_makes_the_table_anew(schema: Flight) -> None:
    """`on_conflict: replace` drops the rows and takes the new columns."""
    first = schema.create_table("db1", "s", "t", COLUMNS)
    schema.insert(descriptor_of(first), pa.table({"a": [1], "b": ["x"]}))
    second = schema.create_table("db1", "s", "t", pa.schema([("c", pa.float64())]), on_conflict="replace")

    assert schema.read(descriptor_of(second), 1).num_rows == 0
    assert schema.read(descriptor_of(second), 1).column_names == ["c", "rowid"]


def test_ignore_answers_the_existing_table(schema: Flight) -> None:
    """`on_conflict: ignore` describes the table that is there, whatever columns were sent."""
    first = schema.create_table("db1", "s", "t", COLUMNS)
    second = schema.create_table("db1", "s", "t", pa.schema([("c", pa.int8())]), on_conflict="ignore")

    assert second.schema == first.schema


@pytest.mark.parametrize(
    ("options", "code", "text"),
    [
        ({}, "ALREADY_EXISTS", "table 's.t' already exists"),
        (
            {"on_conflict": "merge"},
            "INVALID_ARGUMENT",
            "on_conflict is error, ignore or replace, not 'merge'",
        ),
    ],
)
def test_conflict_is_an_error_by_default(
    schema: Flight, options: dict[str, object], code: str, text: str
) -> None:
    """An existing table is a conflict unless the request says otherwise, in words that are known."""
    schema.create_table("db1", "s", "t", COLUMNS)

    assert refusal(lambda: schema.create_table("db1", "s", "t", COLUMNS, **options)) == (code, text)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"not_null_constraints": [2]},
            "constraint refers to column index 2, but there are 2 columns",
        ),
        (
            {"unique_constraints": [7]},
            "constraint refers to column index 7, but there are 2 columns",
        ),
        ({"primary_key_columns": ["z"]}, "a key refers to unknown column 'z'"),
    ],
)
def test_constraint_on_a_column_that_is_not_there_is_refused(
    schema: Flight, options: dict[str, object], text: str
) -> None:
    """A constraint refers to columns of the table, and nothing is made otherwise."""
    assert refusal(lambda: schema.create_table("db1", "s", "t", COLUMNS, **options)) == (
        "INVALID_ARGUMENT",
        text,
    )
    assert schema.list_flights() == []


def test_check_that_does_not_parse_is_refused(schema: Flight) -> None:
    """A CHECK expression has to be SQL."""
    code, text = refusal(lambda: schema.create_table("db1", "s", "t", COLUMNS, check_constraints=["a >"]))

    assert code == "INVALID_ARGUMENT"
    assert text.startswith("expression 'a >' is not valid: syntax error")


def test_unique_index_holds_for_inserts(schema: Flight) -> None:
    """`unique_constraints` by index is enforced."""
    table = descriptor_of(schema.create_table("db1", "s", "t", COLUMNS, unique_constraints=[1]))

    rows = pa.table({"a": [1, 2], "b": ["x", "x"]})
    assert refusal(lambda: schema.insert(table, rows)) == (
        "INVALID_ARGUMENT",
        "UNIQUE constraint of table 't' failed in column 'b': b='x'",
    )


def test_column_schema_with_two_fields_is_refused(schema: Flight) -> None:
    """`add_column` adds one column."""
    schema.create_table("db1", "s", "t", COLUMNS)
    body = {"catalog": "db1", "schema": "s", "name": "t", "column_schema": bytes(COLUMNS.serialize())}

    assert refusal(lambda: schema.action("add_column", body)) == (
        "INVALID_ARGUMENT",
        "a column schema must have exactly one field, this one has 2",
    )


@pytest.mark.parametrize(
    ("action", "extra"),
    [("remove_column", {"removed_column": "z"}), ("rename_column", {"old_name": "z", "new_name": "y"})],
)
def test_ignore_not_found_is_about_the_table(schema: Flight, action: str, extra: dict[str, str]) -> None:
    """A missing table is forgiven, a missing column is not."""
    schema.create_table("db1", "s", "t", COLUMNS)
    body = {"catalog": "db1", "schema": "s", "ignore_not_found": True, **extra}

    assert schema.action(action, {**body, "name": "nope"}) == []
    assert refusal(lambda: schema.action(action, {**body, "name": "t"}))[0] == "NOT_FOUND"


def test_comment_and_tags_of_a_schema_are_listed(client: Flight) -> None:
    """What `create_schema` was told of a schema is what clients are shown."""
    body = {"catalog_name": "db1", "schema": "s", "comment": "hello", "tags": {"owner": "me"}}
    client.action("create_schema", body)
    length, data = msgspec.msgpack.decode(client.action("list_schemas", {"catalog_name": "db1"})[0])
    root = msgspec.msgpack.decode(pa.Codec("zstd").decompress(data, length, asbytes=True))

    assert [(s["name"], s["description"], s["tags"]) for s in root["schemas"]] == [
        ("s", "hello", {"owner": "me"}),
        ("sparkport", "Functions of the server", {}),
    ]


@pytest.mark.parametrize(
    "arrow_type",
    [
        pa.decimal256(50, 2),
        pa.dense_union([pa.field("n", pa.int32()), pa.field("t", pa.string())]),
        pa.list_(pa.decimal256(76, 0)),
    ],
    ids=str,
)
def test_types_that_duckdb_lacks_are_for_others(
    schema: Flight, plain: Flight, arrow_type: pa.DataType
) -> None:
    """DuckDB is told before the table is made; other clients get it with its exact types."""
    columns = pa.schema([("x", arrow_type)])
    refused = refusal(lambda: schema.create_table("db1", "s", "t", columns))
    info = plain.create_table("db1", "s", "t", columns)  # it was not there

    assert refused[0] == "FAILED_PRECONDITION"
    assert pa.ipc.read_schema(pa.py_buffer(info.schema)).field("x").type == arrow_type
