"""Column statistics: exact for the state that the call reads."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from sparkport.catalog import Call, ColumnStatistics, DynamicSchema, RemoveColumn
from sparkport.errors import NotFoundError
from tests.behaviour.engine import FullCatalog, create, delete, id_of, ids, insert, numbers, update


def summary(statistics: ColumnStatistics) -> tuple[object, object, bool, bool, int]:
    """Return the parts that every type has."""
    return (
        statistics.minimum.as_py(),
        statistics.maximum.as_py(),
        statistics.has_null,
        statistics.has_not_null,
        statistics.distinct_count,
    )


def test_statistics_are_exact(schema: DynamicSchema) -> None:
    """Range, nulls and distinct values are those of the rows."""
    table = create(schema, {"n": pa.int32(), "d": pa.date32(), "s": pa.string()})
    day = dt.date(2026, 2, 1)
    insert(
        table, [{"n": 3, "d": day, "s": "ä"}, {"n": -1, "d": day, "s": "abc"}, {"n": None, "d": day, "s": ""}]
    )

    assert summary(table.column_statistics(Call(), "N")) == (-1, 3, True, True, 2)
    assert summary(table.column_statistics(Call(), "d")) == (day, day, False, True, 1)
    texts = table.column_statistics(Call(), "s")
    assert summary(texts) == ("", "ä", False, True, 3)
    assert (texts.max_string_length, texts.contains_unicode) == (3, True)


def test_statistics_follow_every_statement(schema: DynamicSchema) -> None:
    """Statistics that lag behind would give wrong answers."""
    table = numbers(schema, 1, 2, 3)
    first = summary(table.column_statistics(Call(), "n"))
    delete(table, [id_of(table, "n", 3)])
    second = summary(table.column_statistics(Call(), "n"))
    update(table, [id_of(table, "n", 1)], {"n": [None]})
    third = summary(table.column_statistics(Call(), "n"))
    insert(table, [{"n": 100}])
    fourth = summary(table.column_statistics(Call(), "n"))

    assert first == (1, 3, False, True, 3)
    assert second == (1, 2, False, True, 2)
    assert third == (2, 2, True, True, 1)
    assert fourth == (2, 100, True, True, 2)


def test_statistics_are_those_of_the_transaction(catalog: FullCatalog, schema: DynamicSchema) -> None:
    """Within a transaction the statistics are of its snapshot and its own writes."""
    table = numbers(schema, 1, 2)
    call = Call(transaction_id=catalog.transactions.begin_transaction(Call()))
    insert(table, [{"n": 50}])
    outside = summary(table.column_statistics(call, "n"))
    insert(table, [{"n": 9}], call)

    assert outside == (1, 2, False, True, 2)
    assert summary(table.column_statistics(call, "n")) == (1, 9, False, True, 3)
    assert summary(table.column_statistics(Call(), "n")) == (1, 50, False, True, 4)


def test_empty_table_has_no_range(schema: DynamicSchema) -> None:
    """Without rows there is neither null nor value."""
    table = numbers(schema)

    assert summary(table.column_statistics(Call(), "n")) == (None, None, False, False, 0)


def test_statistics_of_a_removed_column_are_not_those_of_its_successor(schema: DynamicSchema) -> None:
    """Columns that move up bring their own statistics."""
    table = create(schema, {"a": pa.int64(), "b": pa.int64()})
    insert(table, [{"a": 1, "b": 100}])
    table.column_statistics(Call(), "a")
    table.alter(Call(), RemoveColumn("a"))

    assert summary(table.column_statistics(Call(), "b")) == (100, 100, False, True, 1)
    with pytest.raises(NotFoundError, match=r"^column 'a' not found"):
        table.column_statistics(Call(), "a")


def test_unknown_column_has_no_statistics(schema: DynamicSchema) -> None:
    """The error names the column; the row id has no statistics either."""
    table = numbers(schema, 1)
    assert ids(table)

    with pytest.raises(NotFoundError, match=r"^column 'zzz' not found$"):
        table.column_statistics(Call(), "zzz")
