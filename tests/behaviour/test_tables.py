"""CREATE TABLE, DROP TABLE and renaming."""

from __future__ import annotations

from typing import cast

import pyarrow as pa
import pytest

from sparkport.catalog import (
    Call,
    CreateTableOptions,
    DropTableOptions,
    DynamicSchema,
    OnConflict,
    RenameTable,
    rowid_field,
)
from sparkport.errors import AlreadyExistsError, InvalidRequestError, NotFoundError
from tests.behaviour.engine import (
    FullCatalog,
    FullTable,
    add,
    at_version,
    columns_of,
    create,
    insert,
    numbers,
    read,
    rows,
    values,
    version,
)

NAMES = [
    "with space",
    'a "quoted" one',
    "it's",
    "dotted.name",
    "a/b\\c",
    "ünïcödé",
    "数据",
    "🦆",
    "SELECT",
    "rowid",
    "; DROP TABLE t; --",
    "-",
    "%s{}",
]
ONE = pa.schema([("n", pa.int64())])


def test_new_table_is_empty_and_listed(schema: DynamicSchema) -> None:
    """A table is there once it is made."""
    table = create(schema, ONE, "orders", CreateTableOptions(comment="What was sold"))
    found = schema.table(Call(), "orders")

    assert found is not None
    assert (found.name, found.comment) == ("orders", "What was sold")
    assert [listed.name for listed in schema.tables(Call())] == ["orders"]
    assert rows(table) == []


@pytest.mark.parametrize("name", NAMES)
def test_table_and_column_may_have_any_name(schema: DynamicSchema, name: str) -> None:
    """Names are data: no character is special."""
    table = create(schema, {name: pa.int64()}, name)
    insert(table, [{name: 1}])
    found = schema.table(Call(), name)

    assert found is not None
    assert found.name == name
    assert columns_of(table).names == [name]
    assert rows(table) == [{name: 1}]
    schema.drop_table(Call(), name, DropTableOptions())
    assert schema.table(Call(), name) is None


@pytest.mark.parametrize("name", ["rowid", "ROWID"])
def test_own_column_called_rowid_moves_the_hidden_one(schema: DynamicSchema, name: str) -> None:
    """A user's column keeps its name; the row id takes a free one."""
    table = create(schema, {name: pa.int64()})

    assert table.arrow_schema is not None
    assert table.arrow_schema.names == [name, "_rowid"]


def test_table_needs_a_name(schema: DynamicSchema) -> None:
    """An empty name is refused."""
    with pytest.raises(InvalidRequestError, match=r"^a table needs a name$"):
        create(schema, ONE, "")


def test_table_needs_a_column(schema: DynamicSchema) -> None:
    """A table without columns is refused."""
    with pytest.raises(InvalidRequestError, match=r"^a table needs at least one column$"):
        create(schema, pa.schema([]))


def test_column_needs_a_name(schema: DynamicSchema) -> None:
    """A column without a name is refused."""
    with pytest.raises(InvalidRequestError, match=r"^a column needs a name$"):
        create(schema, {"": pa.int64()})


@pytest.mark.parametrize("second", ["n", "N"])
def test_column_is_not_given_twice(schema: DynamicSchema, second: str) -> None:
    """Column names differ in more than their case."""
    with pytest.raises(InvalidRequestError, match=f"^column '{second}' is given twice$"):
        create(schema, pa.schema([("n", pa.int64()), (second, pa.int64())]))


def test_row_id_cannot_be_declared(schema: DynamicSchema) -> None:
    """The row id belongs to the engine."""
    with pytest.raises(InvalidRequestError, match="row id column is made by the server"):
        create(schema, pa.schema([pa.field("n", pa.int64()), rowid_field()]))


@pytest.mark.parametrize("name", ["t", "T"])
def test_taken_table_name_is_an_error(schema: DynamicSchema, name: str) -> None:
    """A name that exists, in any case, is a conflict, and the table stays."""
    table = numbers(schema, 1)

    with pytest.raises(AlreadyExistsError, match=f"^table '{schema.name}.{name}' already exists$"):
        create(schema, {"other": pa.string()}, name)
    assert rows(table) == [{"n": 1}]


@pytest.mark.parametrize("name", ["t", "T"])
def test_taken_table_name_can_be_ignored(schema: DynamicSchema, name: str) -> None:
    """IF NOT EXISTS gives the table that is there."""
    numbers(schema, 1)
    found = create(schema, {"other": pa.string()}, name, CreateTableOptions(OnConflict.IGNORE))

    assert rows(found) == [{"n": 1}]


@pytest.mark.parametrize("name", ["t", "T"])
def test_taken_table_name_can_be_replaced(schema: DynamicSchema, name: str) -> None:
    """OR REPLACE gives a new, empty table."""
    numbers(schema, 1)
    found = create(schema, {"other": pa.string()}, name, CreateTableOptions(OnConflict.REPLACE))

    assert rows(found) == []
    assert columns_of(found).names == ["other"]
    assert [table.name for table in schema.tables(Call())] == [name]


def test_failed_replacement_keeps_the_table(schema: DynamicSchema) -> None:
    """What cannot be made replaces nothing."""
    numbers(schema, 1)
    broken = CreateTableOptions(OnConflict.REPLACE, check_constraints=("nonsense >",))
    with pytest.raises(InvalidRequestError):
        create(schema, ONE, "t", broken)

    assert values(create(schema, ONE, "t", CreateTableOptions(OnConflict.IGNORE))) == [1]


def test_replaced_table_takes_no_more_rows(schema: DynamicSchema) -> None:
    """A statement that began on the old table does not end in nowhere."""
    old = numbers(schema, 1)
    statement = old.begin_insert(Call(), returning=False)
    statement.write(pa.record_batch({"n": [2]}))
    new = create(schema, ONE, "t", CreateTableOptions(OnConflict.REPLACE))

    with pytest.raises(NotFoundError, match=f"^table '{schema.name}.t' not found"):
        statement.commit()
    assert rows(new) == []


def test_table_is_dropped(schema: DynamicSchema) -> None:
    """A dropped table is gone, whatever the case of its name."""
    numbers(schema, 1)
    schema.drop_table(Call(), "T", DropTableOptions())

    assert schema.table(Call(), "t") is None
    assert list(schema.tables(Call())) == []


def test_dropped_table_takes_no_more_rows(schema: DynamicSchema) -> None:
    """Writing to a table that is gone is an error."""
    table = numbers(schema, 1)
    schema.drop_table(Call(), "t", DropTableOptions())

    with pytest.raises(NotFoundError):
        insert(table, [{"n": 2}])


def test_missing_table_is_named_in_the_error(schema: DynamicSchema) -> None:
    """Dropping what is not there is an error, with a near match as a hint."""
    create(schema, ONE, "orders")

    expected = f"^table '{schema.name}.ordrs' not found. Did you mean 'orders'\\?$"
    with pytest.raises(NotFoundError, match=expected):
        schema.drop_table(Call(), "ordrs", DropTableOptions())


def test_missing_table_can_be_ignored(schema: DynamicSchema) -> None:
    """IF EXISTS makes dropping nothing fine."""
    schema.drop_table(Call(), "nothing", DropTableOptions(ignore_not_found=True))


def test_table_is_renamed_with_its_rows(schema: DynamicSchema) -> None:
    """A renamed table is found under the new name only."""
    table = numbers(schema, 1)
    table.alter(Call(), RenameTable("other"))

    assert table.name == "other"
    assert schema.table(Call(), "t") is None
    assert [found.name for found in schema.tables(Call())] == ["other"]
    assert rows(table) == [{"n": 1}]


def test_table_is_renamed_to_another_case(schema: DynamicSchema) -> None:
    """A change of case is a rename, not a conflict."""
    table = numbers(schema, 1)
    table.alter(Call(), RenameTable("T"))

    assert [found.name for found in schema.tables(Call())] == ["T"]


def test_renaming_does_not_overwrite(schema: DynamicSchema) -> None:
    """A taken name, in any case, is refused, and both tables stay."""
    table = numbers(schema, 1, name="a")
    numbers(schema, 2, name="b")

    with pytest.raises(AlreadyExistsError, match=f"^table '{schema.name}.B' already exists$"):
        table.alter(Call(), RenameTable("B"))
    assert sorted(found.name for found in schema.tables(Call())) == ["a", "b"]


def test_renaming_needs_a_name(schema: DynamicSchema) -> None:
    """A table is not renamed to nothing."""
    with pytest.raises(InvalidRequestError, match=r"^a table needs a name$"):
        numbers(schema).alter(Call(), RenameTable(""))


def test_column_metadata_is_kept(schema: DynamicSchema) -> None:
    """Comments and defaults of columns, and what else is there, come back."""
    field = pa.field("n", pa.int64(), metadata={"comment": "a number", "default": "7", "own": "thing"})
    table = create(schema, pa.schema([field]))

    assert columns_of(table).field("n").metadata == {
        b"comment": b"a number",
        b"default": b"7",
        b"own": b"thing",
    }


METADATA = {
    b"owner": b"ann",
    b"comment": b"All of it",
    "ünï '${x}\\".encode(): '"ö" 🦆\n'.encode(),
    b"\x00\xff\xed\xa0\x80": b"\xf0\x9f\xa6\x86\x80\xfe",
    b"": b"",
}


def test_table_metadata_is_kept(schema: DynamicSchema) -> None:
    """What the Arrow schema of a CREATE TABLE says beside its columns comes back, byte by byte."""
    columns = pa.schema([("n", pa.int64())], METADATA)
    table = create(schema, columns, options=CreateTableOptions(comment="All of it"))
    insert(table, [{"n": 1}])
    first = version(table)
    table.alter(Call(), add("m", pa.int64()))
    table.alter(Call(), RenameTable("u"))
    found = cast("FullTable", schema.table(Call(), "u"))

    assert table.comment == "All of it"
    assert columns_of(found).metadata == METADATA
    assert columns_of(found, at=at_version(first)).metadata == METADATA
    assert read(found).schema.equals(found.arrow_schema, check_metadata=True)
    assert rows(found) == [{"n": 1, "m": None}]


def test_table_metadata_goes_with_the_table(schema: DynamicSchema) -> None:
    """A table that takes the place of another has its own metadata, or none."""
    replacing = CreateTableOptions(OnConflict.REPLACE)
    create(schema, ONE.with_metadata(METADATA))
    other = columns_of(create(schema, ONE.with_metadata({"comment": "x"}), options=replacing)).metadata
    none = columns_of(create(schema, ONE, options=replacing)).metadata

    assert other == {b"comment": b"x"}
    assert none is None


def test_catalog_version_rises_with_alter_and_rename(catalog: FullCatalog, schema: DynamicSchema) -> None:
    """A renamed table is a changed listing."""
    table = numbers(schema, 1)
    before = catalog.catalog_version(Call()).version
    table.alter(Call(), RenameTable("other"))

    assert catalog.catalog_version(Call()).version > before
