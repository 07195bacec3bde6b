"""Two sessions, every order of their steps: the catalog does what a model of snapshot isolation does."""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

from sparkport.catalog import Call, CreateTableOptions, DynamicSchema, TransactionMode
from sparkport.errors import (
    ConflictError,
    ConstraintViolationError,
    SparkportError,
    TransactionNotActiveError,
)
from tests.behaviour.engine import FullCatalog, FullTable, create, delete, ids, insert, rows, update
from tests.behaviour.snapshot_model import CONFLICT, DUPLICATE, MISSING, NOT_ACTIVE, SnapshotModel, Tables

Step = tuple[object, ...]
Order = tuple[tuple[str, Step], ...]

START: Tables = {"a": {1: 10, 2: 20}, "b": {1: 10}}
BEGIN, COMMIT, ROLLBACK = ("begin",), ("commit",), ("rollback",)

SESSIONS: dict[str, tuple[Step, ...]] = {
    "update": (BEGIN, ("update", "a", 1, 11), COMMIT),
    "update of another row": (BEGIN, ("update", "a", 2, 22), COMMIT),
    "delete": (BEGIN, ("delete", "a", 1), COMMIT),
    "insert": (BEGIN, ("insert", "a", 3, 30), COMMIT),
    "two tables": (BEGIN, ("update", "a", 1, 12), ("update", "b", 1, 12), COMMIT),
    "rollback": (BEGIN, ("update", "a", 1, 13), ROLLBACK),
    "two reads": (BEGIN, ("read", "a"), ("read", "b"), COMMIT),
    "delete and insert": (BEGIN, ("delete", "a", 1), ("insert", "a", 1, 14), COMMIT),
    "own row": (BEGIN, ("insert", "a", 4, 40), ("update", "a", 4, 41), ("read", "a"), COMMIT),
    "read and write": (BEGIN, ("read", "a"), ("update", "b", 1, 15), COMMIT),
    "update alone": (("update", "a", 1, 16),),
    "insert alone": (("insert", "a", 3, 31),),
    "delete alone": (("delete", "b", 1),),
}
SPECS = list(itertools.combinations_with_replacement(SESSIONS, 2))
TRIED = {"memory": 500, "spark": 60}
"""How many orders of all specifications are tried, chosen by chance; SPARKPORT_INTERLEAVINGS says more."""


def orders(one: tuple[Step, ...], other: tuple[Step, ...]) -> Iterator[Order]:
    """Yield every order of the steps of two sessions."""
    count = len(one) + len(other)
    for places in itertools.combinations(range(count), len(one)):
        first, second = iter(one), iter(other)
        yield tuple(("1", next(first)) if at in places else ("2", next(second)) for at in range(count))


def chosen(catalog_name: str) -> list[Order]:
    """Return the orders to try with an engine."""
    every = [order for one, other in SPECS for order in orders(SESSIONS[one], SESSIONS[other])]
    count = int(os.environ.get("SPARKPORT_INTERLEAVINGS", TRIED[catalog_name]))
    seed = int(os.environ.get("SPARKPORT_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 31)
    return random.Random(seed).sample(every, min(count, len(every)))


class Real:
    """The same database in a catalog: a session is a call, with its transaction if it has begun one."""

    def __init__(self, catalog: FullCatalog, schema: DynamicSchema) -> None:
        self._catalog = catalog
        options = CreateTableOptions(unique_constraints=(0,))
        columns = {"key": pa.int64(), "value": pa.int64()}
        self._tables = {name: create(schema, columns, name, options) for name in START}
        self._calls: dict[str, Call] = {}

    def reset(self) -> None:
        """Put the first rows into the tables."""
        self._calls.clear()
        for name, table in self._tables.items():
            delete(table, ids(table))
            insert(table, [{"key": key, "value": value} for key, value in START[name].items()])

    def run(self, session: str, step: Step) -> object:
        """Run a step of a session, and return what it gives: rows, a count or how it fails."""
        transactions = self._catalog.transactions
        try:
            match step:
                case ("begin",):
                    begun = transactions.begin_transaction(Call(session), TransactionMode.STAGED)
                    self._calls[session] = Call(session, transaction_id=begun)
                    return None
                case ("commit" | "rollback" as end,):
                    known = self._calls[session].transaction_id
                    assert known is not None
                    finish: Callable[[Call, str], object] = getattr(transactions, f"{end}_transaction")
                    return finish(Call(session), known)
            return self._statement(self._calls.get(session, Call(session)), step)
        except ConflictError:
            return CONFLICT
        except ConstraintViolationError:
            return DUPLICATE
        except TransactionNotActiveError:
            return NOT_ACTIVE

    def committed(self) -> Tables:
        """Return all rows that are committed."""
        return {name: _rows(table, Call()) for name, table in self._tables.items()}

    def _statement(self, call: Call, step: Step) -> object:
        action, name, *arguments = step
        table = self._tables[str(name)]
        match action, arguments:
            case "read", []:
                return _rows(table, call)
            case "insert", [key, value]:
                return insert(table, [{"key": key, "value": value}], call)
            case "update", [key, value]:
                found = _id(table, call, key)
                return MISSING if found is None else update(table, [found], {"value": [value]}, call)
            case "delete", [key]:
                found = _id(table, call, key)
                return MISSING if found is None else delete(table, [found], call)
        raise AssertionError(step)


def _rows(table: FullTable, call: Call) -> dict[int, int]:
    return {row["key"]: row["value"] for row in sorted(rows(table, call), key=lambda row: row["key"])}


def _id(table: FullTable, call: Call, key: object) -> int | None:
    known = dict(zip((row["key"] for row in rows(table, call)), ids(table, call), strict=True))
    return known.get(key)


def test_there_are_many_specifications() -> None:
    """Every pair of sessions is one, each in all orders."""
    assert len(SPECS) >= 40
    assert len(list(orders(SESSIONS["update"], SESSIONS["two tables"]))) == 35


def test_every_order_of_steps_is_snapshot_isolation(
    catalog: FullCatalog, schema: DynamicSchema, request: pytest.FixtureRequest
) -> None:
    """Each step gives what the model gives, and so does what is committed in the end."""
    real = Real(catalog, schema)
    for order in chosen(request.node.callspec.params["catalog"]):
        real.reset()
        model = SnapshotModel(START)
        for number, (session, step) in enumerate(order):
            expected = model.run(session, step)
            try:
                found = real.run(session, step)
            except SparkportError as error:
                raise AssertionError(f"step {number} of {order}: {error}") from error

            assert found == expected, f"step {number} of {order}"
        assert real.committed() == model.committed(), order
