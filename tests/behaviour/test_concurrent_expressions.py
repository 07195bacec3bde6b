"""Expressions are evaluated while others write: nobody waits for them, and nothing slips past them."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

from sparkport.catalog import AddConstraint, Call, ChangeColumnType, CreateTableOptions, DynamicSchema
from sparkport.errors import CancelledError, ConflictError, ConstraintViolationError
from sparkport.expressions.sandbox import SANDBOX
from tests.behaviour.engine import FullTable, columns_of, create, id_of, insert, rows, update, values

# Minutes for a long text, no time for a short one.
SLOW = "levenshtein(t || 'a', t || 'b') > 0"
LONG_TEXT = "xy" * 200_000

Statement = Callable[[FullTable, Call], object]


def add_check(table: FullTable, call: Call) -> object:
    """Add a CHECK that takes long for the rows that are there."""
    return table.alter(call, AddConstraint(f"CHECK ({SLOW})"))


def change_type(table: FullTable, call: Call) -> object:
    """Compute a column anew, which takes long."""
    return table.alter(call, ChangeColumnType("n", pa.int32(), f"CASE WHEN {SLOW} THEN n ELSE 0 END"))


def insert_long(table: FullTable, call: Call) -> object:
    """Insert a row for which a CHECK takes long."""
    return insert(table, [{"n": 7, "t": LONG_TEXT}], call)


def update_long(table: FullTable, call: Call) -> object:
    """Change a row so that a CHECK takes long."""
    return update(table, [id_of(table, "n", 1)], {"t": [LONG_TEXT]}, call)


@pytest.mark.parametrize(
    ("statement", "checks", "text"),
    [
        (add_check, (), LONG_TEXT),
        (change_type, (), LONG_TEXT),
        (insert_long, (SLOW,), "short"),
        (update_long, (SLOW,), "short"),
    ],
    ids=["add-check", "using", "insert", "update"],
)
def test_nobody_waits_for_a_slow_expression(
    schema: DynamicSchema, statement: Statement, checks: tuple[str, ...], text: str
) -> None:
    """Others write to the same table meanwhile, and the statement ends with its call, undone."""
    options = CreateTableOptions(check_constraints=checks)
    table = create(schema, {"n": pa.int64(), "t": pa.string()}, "t", options)
    insert(table, [{"n": 1, "t": text}])
    call = Call()
    with ThreadPoolExecutor(1) as threads:
        slow = threads.submit(statement, table, call)
        _wait_for(lambda: all(_is_busy() for _ in range(5)))

        insert(table, [{"n": 2, "t": "short"}])
        assert not slow.done()
        call.cancel()
        assert isinstance(slow.exception(20), CancelledError)

    assert rows(table) == [{"n": 1, "t": text}, {"n": 2, "t": "short"}]
    assert table.constraints.checks == checks


def _is_busy() -> bool:
    """Say whether an expression is being evaluated; a look takes a moment, in which a quick one ends."""
    time.sleep(0.1)
    return SANDBOX.busy_workers > 0


def _wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def interrupted(monkeypatch: pytest.MonkeyPatch, part: str, other: Callable[[], object]) -> None:
    """Let another statement be made right after rows were evaluated for the first time."""
    evaluate = SANDBOX.run
    waiting = [other]

    def run(
        call: Call, query: str, parameters: Any = (), rows: pa.Table | None = None, **options: Any
    ) -> pa.Table:
        result = evaluate(call, query, parameters, rows, **options)
        if part in query and rows is not None and rows.num_rows and waiting:
            waiting.pop()()
        return result

    monkeypatch.setattr(SANDBOX, "run", run)


def test_changed_row_is_checked_again(schema: DynamicSchema, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two UPDATEs that are each fine, but not together, do not both get past a CHECK."""
    options = CreateTableOptions(check_constraints=("a > b",))
    table = create(schema, {"a": pa.int64(), "b": pa.int64()}, "t", options)
    insert(table, [{"a": 20, "b": 1}, {"a": 30, "b": 1}])
    row = id_of(table, "a", 20)
    interrupted(monkeypatch, "a > b", lambda: update(table, [row], {"b": [10]}))

    with pytest.raises(ConstraintViolationError, match=r"a=5, b=10$"):
        update(table, [row], {"a": [5]})
    assert rows(table) == [{"a": 20, "b": 10}, {"a": 30, "b": 1}]


def test_unchanged_row_is_updated_in_spite_of_others(
    schema: DynamicSchema, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who changes other rows, and NaN beside the checked columns, does not disturb an UPDATE."""
    options = CreateTableOptions(check_constraints=("a > b OR isnan(f)",))
    table = create(schema, {"a": pa.int64(), "b": pa.int64(), "f": pa.float64()}, "t", options)
    insert(table, [{"a": 20, "b": 1, "f": float("nan")}, {"a": 30, "b": None, "f": None}])
    row, another = id_of(table, "a", 20), id_of(table, "a", 30)
    interrupted(monkeypatch, "isnan", lambda: update(table, [another], {"b": [10]}))

    assert update(table, [row, row], {"a": [4, 5]}) == 1
    assert sorted(values(table, "a")) == [5, 30]


def test_row_that_came_meanwhile_is_checked_by_a_new_check(
    schema: DynamicSchema, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A CHECK is not added to a table with a row that breaks it, however late that came."""
    table = create(schema, {"n": pa.int64()})
    insert(table, [{"n": 1}])
    interrupted(monkeypatch, "n > 0", lambda: insert(table, [{"n": -1}]))

    with pytest.raises(ConstraintViolationError, match=r"n=-1$"):
        table.alter(Call(), AddConstraint("CHECK (n > 0)"))
    assert table.constraints.checks == ()


def test_row_that_came_meanwhile_is_converted_too(
    schema: DynamicSchema, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every row has the new type, and the value that USING gives it, once."""
    table = create(schema, {"n": pa.int64()})
    insert(table, [{"n": 1}])
    interrupted(monkeypatch, "n * 10", lambda: insert(table, [{"n": 2}]))

    table.alter(Call(), ChangeColumnType("n", pa.string(), "(n * 10)::VARCHAR"))

    assert values(table) == ["10", "20"]


def test_row_that_came_meanwhile_is_of_the_new_check(
    schema: DynamicSchema, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An INSERT that began before a CHECK was added does not get past it."""
    options = CreateTableOptions(check_constraints=("n < 100",))
    table = create(schema, {"n": pa.int64()}, "t", options)
    interrupted(monkeypatch, "n < 100", lambda: table.alter(Call(), AddConstraint("CHECK (n > 0)")))

    with pytest.raises(Exception, match=r"CHECK \(\(n > 0\)\)|altered meanwhile"):
        insert(table, [{"n": -1}])
    assert values(table) == []


def test_alter_is_not_starved_by_writers(schema: DynamicSchema, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others that write all the time are let in before an ALTER a few times, and wait then."""
    table = create(schema, {"n": pa.int64()})
    insert(table, [{"n": 1}])
    evaluate = SANDBOX.run
    with ThreadPoolExecutor(50) as threads:
        inserts = []

        def run(
            call: Call, query: str, parameters: Any = (), rows: pa.Table | None = None, **options: Any
        ) -> pa.Table:
            result = evaluate(call, query, parameters, rows, **options)
            if rows is not None and rows.num_rows:
                inserts.append(threads.submit(functools.partial(insert, table, [{"n": 2}])))
                time.sleep(0.5)  # long enough to be faster, if it does not have to wait
            return result

        monkeypatch.setattr(SANDBOX, "run", run)
        table.alter(Call(), ChangeColumnType("n", pa.int32(), "n * 10"))
        ended = [insert_.exception(30) for insert_ in inserts]

    assert columns_of(table).field("n").type == pa.int32()
    assert 1 < len(inserts) < 10
    # Those that had to wait came with the columns of before.
    assert ended[0] is None
    assert all(error is None or isinstance(error, ConflictError) for error in ended)
