"""Every Arrow type goes in and comes out as it was."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest

from sparkport.catalog import (
    AddColumn,
    Call,
    ChangeColumnType,
    CreateTableOptions,
    DynamicSchema,
    RemoveColumn,
    ScanOptions,
)
from tests.behaviour.engine import FullTable, create, ids, read
from tests.behaviour.samples import GEOMETRY, SAMPLES

every_type = pytest.mark.parametrize("values", SAMPLES.values(), ids=SAMPLES)


def keyed(values: pa.Array) -> pa.Table:
    """Return the values beside a number for each row."""
    return pa.table([pa.array(range(len(values))), values], ["k", "c"])


def filled(schema: DynamicSchema, values: pa.Array) -> FullTable:
    """Make a table of the values, inserted in two statements."""
    table = create(schema, keyed(values).schema)
    rows = keyed(values)
    table.insert(Call(), rows.slice(0, 2).to_reader())
    table.insert(Call(), rows.slice(2).to_reader())
    return table


def texts(column: pa.ChunkedArray | pa.Array) -> list[str]:
    """Return the values in words: Python has no infinite dates, and NaN is not equal to itself."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    if isinstance(column.type, pa.UnionType):
        return [repr(value.as_py()) for chunk in chunks for value in chunk]
    width = 1 << 20
    return [
        chunk.slice(i, 1).to_string(window=width, container_window=width, skip_new_lines=True)
        for chunk in map(decoded, chunks)
        for i in range(len(chunk))
    ]


def decoded(array: pa.Array) -> pa.Array:
    """Return dictionary and run-end encoded values as they are."""
    if isinstance(array, pa.DictionaryArray):
        return array.dictionary_decode()
    if isinstance(array, pa.RunEndEncodedArray):
        return pa.compute.run_end_decode(array)
    return array


@every_type
def test_values_come_back_as_they_were(schema: DynamicSchema, values: pa.Array) -> None:
    """Type, order, nulls and extremes survive, whole and by column."""
    table = filled(schema, values)
    found = read(table)

    assert found.schema.field("c").type == values.type
    found.validate(full=True)
    assert texts(found["c"]) == texts(values)
    assert texts(read(table, options=ScanOptions(columns=("c",)))["c"]) == texts(values)


@every_type
def test_one_row_is_updated(schema: DynamicSchema, values: pa.Array) -> None:
    """A new value takes the place of the old one, and is returned as stored."""
    table = filled(schema, values)
    changes = pa.table([values.slice(1, 1)], ["c"])
    result = table.update(Call(), pa.array(ids(table)[:1]), changes.to_reader(), returning=True)

    assert result.returning_data is not None
    assert texts(result.returning_data.read_all()["c"]) == texts(values.slice(1, 1))
    found = read(table)["c"]
    assert texts(found) == [texts(values)[i] for i in (1, 1, 2, 3)]


@every_type
def test_one_row_is_set_to_null(schema: DynamicSchema, values: pa.Array) -> None:
    """A column of nulls fits every type."""
    table = filled(schema, values)
    changes = pa.table([pa.nulls(1)], ["c"])
    table.update(Call(), pa.array(ids(table)[3:]), changes.to_reader())

    assert [value.as_py() for value in read(table)["c"].slice(3)] == [None]


@every_type
def test_one_row_is_deleted(schema: DynamicSchema, values: pa.Array) -> None:
    """The other rows stay, and the one that goes is returned."""
    table = filled(schema, values)
    result = table.delete(Call(), pa.array(ids(table)[1:2]), returning=True)

    assert result.returning_data is not None
    assert texts(result.returning_data.read_all()["c"]) == texts(values.slice(1, 1))
    assert texts(read(table)["c"]) == [texts(values)[i] for i in (0, 2, 3)]


@every_type
def test_column_is_added_and_removed(schema: DynamicSchema, values: pa.Array) -> None:
    """A table gets and loses a column of any type while it has rows."""
    table = create(schema, {"k": pa.int64()})
    table.insert(Call(), pa.table({"k": [1, 2]}).to_reader())
    table.alter(Call(), AddColumn(pa.field("c", values.type)))
    added = read(table)["c"]
    table.insert(Call(), keyed(values).to_reader())
    stored = read(table)["c"]
    table.alter(Call(), RemoveColumn("c"))

    assert [value.as_py() for value in added] == [None, None]
    assert texts(stored.slice(2)) == texts(values)
    assert read(table).column_names == ["k", "rowid"]


@every_type
def test_statistics_tell_of_nulls(schema: DynamicSchema, values: pa.Array) -> None:
    """Whatever the type, it is known whether there are nulls and values."""
    statistics = filled(schema, values).column_statistics(Call(), "c")

    assert statistics.has_null
    assert statistics.has_not_null == (values.type != pa.null())


@every_type
def test_table_with_the_type_takes_constraints_on_others(schema: DynamicSchema, values: pa.Array) -> None:
    """A column that no CHECK reads does not get into its way."""
    options = CreateTableOptions(check_constraints=("k >= 0",), table_constraints=("UNIQUE (k)",))
    table = create(schema, keyed(values).schema, "t", options)

    assert table.insert(Call(), keyed(values).to_reader()).affected_rows == 4


@pytest.mark.parametrize(
    "name", ["deep", "map", "utf8 view", "sparse union", "dictionary", "run-end encoded"]
)
def test_many_statements_keep_the_values(schema: DynamicSchema, name: str) -> None:
    """Rows that are merged and taken apart many times stay as they were."""
    values = SAMPLES[name]
    table = create(schema, keyed(values).schema)
    for _ in range(20):
        table.insert(Call(), keyed(values).to_reader())
    table.delete(Call(), pa.array(ids(table)[::2]))

    assert texts(read(table)["c"]) == [texts(values)[i] for i in (1, 3)] * 20


def test_geometry_is_marked_in_the_field(schema: DynamicSchema) -> None:
    """A type that is only in the metadata of its field comes back with it."""
    point = struct.pack("<BIdd", 1, 1, 1.5, -2.5)
    table = create(schema, pa.schema([GEOMETRY]))
    rows = pa.table([pa.array([point, None, b""], pa.binary())], pa.schema([GEOMETRY]))
    table.insert(Call(), rows.to_reader())

    found = read(table)
    assert found["c"].to_pylist() == [point, None, b""]
    assert found.schema.field("c").equals(GEOMETRY, check_metadata=True)


@every_type
def test_column_becomes_nulls_of_any_type(schema: DynamicSchema, values: pa.Array) -> None:
    """NULL can be the value of every type that a column is changed to."""
    table = filled(schema, pa.array([1, 2, None, 4], pa.int32()))
    table.alter(Call(), ChangeColumnType("c", values.type, "NULL"))
    found = read(table)["c"]

    assert found.type == values.type
    assert found.to_pylist() == [None] * 4
