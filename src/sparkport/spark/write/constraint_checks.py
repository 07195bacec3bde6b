"""Constraints enforced on the rows of a statement, before they become part of a table."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkport.arrow.taking import take_batch
from sparkport.catalog.call import Call
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
from sparkport.catalog.scan import ScanOptions
from sparkport.catalog.tables import TableConstraints
from sparkport.expressions import referenced_columns
from sparkport.expressions.constraints import check_expressions
from sparkport.spark.read.snapshot import TableSnapshot
from sparkport.spark.row_ids.ids import Ids
from sparkport.toolkit.keys import Key, KeySet, keys_of

_MAX_LISTED = 1000


class UncheckedRowsError(Exception):
    """Rows have to pass CHECKs first, which is not done while others wait for the commit."""


class RowChecks:
    """Checks new rows as they come; keys when all have come, among themselves and against the table.

    Of the rows of an INSERT only the columns of keys are kept.
    """

    def __init__(self, call: Call, table: str, constraints: TableConstraints) -> None:
        self._call = call
        self._table = table
        self._checks = constraints.checks
        self._keys = keys_of(constraints)
        self._kept: list[pa.RecordBatch] = []
        self._passed: dict[int, pa.RecordBatch] = {}

    @property
    def has_expressions(self) -> bool:
        """Whether rows have to be evaluated."""
        return bool(self._checks)

    @property
    def has_keys(self) -> bool:
        """Whether nobody else may write between `check_keys` and the commit."""
        return bool(self._keys)

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The columns of all keys."""
        return tuple(sorted({name for key in self._keys for name in key.columns}))

    @property
    def has_any(self) -> bool:
        """Whether there is something to check at all."""
        return bool(self._keys or self._checks)

    def add(self, rows: pa.RecordBatch) -> None:
        """Check rows that have all columns. Raises ConstraintViolationError."""
        if self._checks:
            check_expressions(self._call, self._table, pa.Table.from_batches([rows]), self._checks)
        self.keep_keys(rows)

    def evaluate(self, place: int, rows: pa.RecordBatch) -> None:
        """Check rows that will be there if nobody changes the table. Raises ConstraintViolationError.

        `place` tells the batches of a statement apart.
        """
        if not self._has_passed(place, rows):
            check_expressions(self._call, self._table, pa.Table.from_batches([rows]), self._checks)
            self._passed[place] = self._read_by_checks(rows)

    def add_evaluated(self, place: int, rows: pa.RecordBatch) -> None:
        """Take rows that have passed `evaluate`. Raises UncheckedRowsError for others."""
        if self._checks and not self._has_passed(place, rows):
            raise UncheckedRowsError
        self.keep_keys(rows)

    def forget_keys(self) -> None:
        """Begin anew with the rows whose keys are compared."""
        self._kept.clear()

    def check_keys(self, snapshot: TableSnapshot, replaced: Ids | None = None) -> None:
        """Raise ConstraintViolationError if a key would be there twice; `replaced` rows have other keys."""
        if not self._kept:
            return
        fresh = pa.Table.from_batches(self._kept)
        for key in self._keys:
            new_keys = KeySet(self._table, key, fresh)
            for rows in self._existing_keys(key, fresh, snapshot, replaced):
                new_keys.check_apart(rows)

    def keep_keys(self, rows: pa.RecordBatch) -> None:
        """Keep the keys of rows that were checked before, for `check_keys`."""
        if self._keys and rows.num_rows:
            keys = rows.select(list(self.key_columns))
            # A copy: all columns of a message share its memory.
            self._kept.append(take_batch(keys, np.arange(keys.num_rows)))

    def _has_passed(self, place: int, rows: pa.RecordBatch) -> bool:
        known, read = self._passed.get(place), self._read_by_checks(rows)
        # NaN is not equal to itself, but to its bytes.
        return known is not None and (read.equals(known) or read.serialize() == known.serialize())

    def _read_by_checks(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        names = {name for text in self._checks for name in referenced_columns(text)}
        return rows.select([name for name in rows.schema.names if name.lower() in names])

    def _existing_keys(
        self, key: Key, fresh: pa.Table, snapshot: TableSnapshot, replaced: Ids | None
    ) -> Iterator[pa.Table]:
        """Yield the keys of a snapshot that may be among the fresh ones."""
        hidden = rowid_name(snapshot.arrow_schema)
        parts = [part for name in key.columns if (part := _key_predicate(name, fresh[name])) is not None]
        condition = None if not parts else parts[0] if len(parts) == 1 else And(tuple(parts))
        names = key.columns if replaced is None or hidden is None else (*key.columns, hidden)
        options = ScanOptions(columns=tuple(names), filter=condition)
        for batch in snapshot.scan(self._call.outside_transaction(), options):
            rows = pa.Table.from_batches([batch])
            if replaced is not None and hidden is not None:
                rows = rows.filter(pc.invert(pc.is_in(rows[hidden], pa.array(replaced))))
            if len(rows):
                yield rows


def _key_predicate(name: str, values: pa.ChunkedArray) -> Expression | None:
    """Return a predicate that all these values pass, and few others; None for types it cannot be said of."""
    kind = values.type
    if not (pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_date32(kind)):
        return None
    distinct = values.unique().drop_null()
    if not len(distinct):
        return None
    if len(distinct) <= _MAX_LISTED:
        return In(Column(name), tuple(Constant(value) for value in distinct))
    ends = pc.min_max(distinct)
    at_least = Comparison(ComparisonOperator.GREATER_OR_EQUAL, Column(name), Constant(ends["min"]))
    return And((at_least, Comparison(ComparisonOperator.LESS_OR_EQUAL, Column(name), Constant(ends["max"]))))
