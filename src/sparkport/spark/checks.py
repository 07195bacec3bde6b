"""Constraints enforced on the rows of a statement, before they become part of a table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkport.catalog.call import Call
from sparkport.catalog.keys import Key, KeySet, keys_of
from sparkport.catalog.predicates import (
    And,
    Column,
    Comparison,
    ComparisonOperator,
    Constant,
    Expression,
    In,
)
from sparkport.catalog.rowid import rowid_name
from sparkport.catalog.scan import ScanOptions, TimePoint, TimeUnit
from sparkport.catalog.tables import TableConstraints
from sparkport.expressions.constraints import check_expressions

_MOST_LISTED = 1000


class Readable(Protocol):
    """What a check needs of the table."""

    @property
    def name(self) -> str:
        """The table's name, for messages."""
        raise NotImplementedError

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns, with the row id last if there is one."""
        raise NotImplementedError

    def scan(self, call: Call, options: ScanOptions) -> pa.RecordBatchReader:
        """Read some columns."""
        raise NotImplementedError


class RowChecks:
    """Checks new rows as they come; keys when all have come, among themselves and against the table.

    Of the rows only the columns of keys are kept.
    """

    def __init__(self, call: Call, table: Readable, constraints: TableConstraints) -> None:
        self._call = call
        self._table = table
        self._checks = constraints.checks
        self._keys = keys_of(constraints)
        self._kept: list[pa.RecordBatch] = []

    @property
    def has_keys(self) -> bool:
        """Whether nobody else may write between `check_keys` and the commit."""
        return bool(self._keys)

    @property
    def has_any(self) -> bool:
        """Whether there is something to check at all."""
        return bool(self._keys or self._checks)

    def add(self, rows: pa.RecordBatch) -> None:
        """Check rows that have all columns. Raises ConstraintViolationError."""
        if self._checks:
            check_expressions(self._call, self._table.name, pa.Table.from_batches([rows]), self._checks)
        if self._keys and rows.num_rows:
            self._kept.append(rows.select(sorted({name for key in self._keys for name in key.columns})))

    def check_keys(self, version: int, replaced: np.typing.NDArray[np.int64] | None = None) -> None:
        """Raise ConstraintViolationError if a version would have a key twice; `replaced` rows have others."""
        if not self._kept:
            return
        fresh = pa.Table.from_batches(self._kept)
        for key in self._keys:
            known = KeySet(self._table.name, key, fresh)
            for rows in self._present(key, fresh, version, replaced):
                known.check_apart(rows)

    def _present(
        self, key: Key, fresh: pa.Table, version: int, replaced: np.typing.NDArray[np.int64] | None
    ) -> Iterator[pa.Table]:
        """Yield the keys of a version that may be among the fresh ones."""
        hidden = rowid_name(self._table.arrow_schema)
        parts = [part for name in key.columns if (part := _near(name, fresh[name])) is not None]
        condition = None if not parts else parts[0] if len(parts) == 1 else And(tuple(parts))
        names = key.columns if replaced is None or hidden is None else (*key.columns, hidden)
        point = TimePoint(TimeUnit.VERSION, str(version))
        options = ScanOptions(columns=tuple(names), filter=condition, time_point=point)
        for batch in self._table.scan(self._call.outside_transaction(), options):
            rows = pa.Table.from_batches([batch])
            if replaced is not None and hidden is not None:
                rows = rows.filter(pc.invert(pc.is_in(rows[hidden], pa.array(replaced))))
            if len(rows):
                yield rows


def _near(name: str, values: pa.ChunkedArray) -> Expression | None:
    """Return a predicate that all these values pass, and few others; None for types it cannot be said of."""
    kind = values.type
    if not (pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_date32(kind)):
        return None
    distinct = values.unique().drop_null()
    if not len(distinct):
        return None
    if len(distinct) <= _MOST_LISTED:
        return In(Column(name), tuple(Constant(value) for value in distinct))
    ends = pc.min_max(distinct)
    at_least = Comparison(ComparisonOperator.GREATER_OR_EQUAL, Column(name), Constant(ends["min"]))
    return And((at_least, Comparison(ComparisonOperator.LESS_OR_EQUAL, Column(name), Constant(ends["max"]))))
