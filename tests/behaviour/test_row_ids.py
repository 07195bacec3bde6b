"""Row ids: stable, unique, never given twice."""

from __future__ import annotations

import random

import pyarrow as pa

from sparkport.catalog import Call, ChangeColumnType, DynamicSchema, RemoveColumn, RenameColumn, ScanOptions
from tests.behaviour.engine import (
    add,
    at_version,
    create,
    delete,
    id_of,
    ids,
    insert,
    numbers,
    read,
    update,
    values,
)


def test_ids_are_unique_across_statements(schema: DynamicSchema) -> None:
    """No two rows share an id."""
    table = create(schema, {"n": pa.int64()})
    for start in range(0, 30, 3):
        insert(table, [{"n": start + i} for i in range(3)])

    assert len(set(ids(table))) == 30


def test_ids_survive_changes_of_other_rows(schema: DynamicSchema) -> None:
    """An id stays with its row whatever happens around it."""
    table = numbers(schema, 1, 2, 3, 4)
    kept = id_of(table, "n", 3)
    update(table, [id_of(table, "n", 1)], {"n": [10]})
    delete(table, [id_of(table, "n", 2)])
    insert(table, [{"n": 5}])
    update(table, [kept], {"n": [30]})

    assert id_of(table, "n", 30) == kept


def test_ids_survive_alter(schema: DynamicSchema) -> None:
    """Changing columns does not renumber rows."""
    table = create(schema, {"n": pa.int64(), "m": pa.int64()})
    insert(table, [{"n": 1, "m": 1}, {"n": 2, "m": 2}])
    before = ids(table)
    table.alter(Call(), add("c", pa.string(), "'x'"))
    table.alter(Call(), RenameColumn("n", "k"))
    table.alter(Call(), ChangeColumnType("k", pa.string()))
    table.alter(Call(), RemoveColumn("m"))

    assert ids(table) == before


def test_id_of_a_deleted_row_is_not_given_again(schema: DynamicSchema) -> None:
    """A new row never answers to an old id."""
    table = numbers(schema, 1, 2)
    gone = set(ids(table))
    delete(table, sorted(gone))
    insert(table, [{"n": 1}, {"n": 2}])

    assert gone.isdisjoint(ids(table))


def test_id_of_an_aborted_insert_may_be_lost_but_not_shared(schema: DynamicSchema) -> None:
    """Ids handed out by a statement that failed cause no clash."""
    table = numbers(schema, 1)
    statement = table.begin_insert(Call(), returning=True)
    statement.write(pa.record_batch({"n": [2]}))
    statement.abort()
    insert(table, [{"n": 3}])

    assert len(set(ids(table))) == 2


def test_old_versions_keep_their_ids(schema: DynamicSchema) -> None:
    """Time travel shows the same row under the same id."""
    table = numbers(schema, 1, 2)
    before = ids(table)
    delete(table, before[:1])

    assert read(table, options=ScanOptions(time_point=at_version(1)))["rowid"].to_pylist() == before


def test_random_statements_agree_with_a_dictionary(schema: DynamicSchema) -> None:
    """Whatever the statements, an id leads to the value last given to it."""
    table = create(schema, {"n": pa.int64(), "s": pa.string()})
    expected: dict[int, tuple[int, str]] = {}
    chance = random.Random(7)
    for step in range(120):
        kind = chance.choice(["insert", "insert", "update", "delete"])
        known = sorted(expected)
        picked = chance.sample(known, min(len(known), chance.randrange(1, 6)))
        if kind == "insert":
            fresh = [{"n": step * 10 + i, "s": f"s{step}.{i}"} for i in range(chance.randrange(1, 8))]
            data = pa.Table.from_pylist(fresh, pa.schema([("n", pa.int64()), ("s", pa.string())]))
            returned = table.insert(Call(), data.to_reader(), returning=True).returning_data
            assert returned is not None
            expected |= {row["rowid"]: (row["n"], row["s"]) for row in returned.read_all().to_pylist()}
        elif kind == "update" and picked:
            assert update(table, picked, {"n": [-step] * len(picked)}) == len(picked)
            expected |= {row: (-step, expected[row][1]) for row in picked}
        elif picked:
            assert delete(table, picked) == len(picked)
            for row in picked:
                del expected[row]

    assert dict(zip(ids(table), zip(values(table), values(table, "s"), strict=True), strict=True)) == expected
