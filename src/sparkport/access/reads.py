"""Scans as a caller may read them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from sparkport.access.shapes import Shape
from sparkport.catalog.call import Call
from sparkport.catalog.lookup import find_column
from sparkport.catalog.predicates import (
    And,
    Column,
    Comparison,
    Constant,
    Expression,
    Function,
    In,
    IsNull,
    Not,
    Or,
    column_names,
    walk,
    weaken,
)
from sparkport.catalog.rowid import is_rowid
from sparkport.catalog.scan import DirectReads, PlannedScan, ScanOptions, ScanSlice
from sparkport.errors import PermissionDeniedError

_NEVER_FAIL = (Constant, Comparison, And, Or, Not, IsNull, In)
_NEVER_FAILING = frozenset({"prefix", "starts_with", "^@", "suffix", "ends_with", "contains", "~~", "!~~"})


@dataclass(frozen=True, slots=True)
class Reading:
    """What of a scan is asked for, what is read for it, and what the caller gets.

    `shown` are the columns that the caller asked for, in the order of the table.
    """

    shape: Shape
    options: ScanOptions
    shown: pa.Schema
    limit: int | None

    def rows(self, call: Call, reader: pa.RecordBatchReader) -> pa.RecordBatchReader:
        """Return the rows as the caller may see them."""
        return pa.RecordBatchReader.from_batches(self.shown, self._batches(call, reader))

    def _batches(self, call: Call, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        left = self.limit
        restriction = self.shape.restriction
        with reader:
            for batch in reader:
                if restriction is None:
                    yield _selected(batch, self.shown)
                    continue
                kept = restriction.keep(call, batch)
                if left is not None:
                    kept = kept.slice(0, left)
                    left -= kept.num_rows
                if kept.num_rows:
                    yield restriction.masked(call, kept, self.shown)
                if left == 0:
                    return


def reading(shape: Shape, options: ScanOptions) -> Reading:
    """Return how a scan is read. Raises NotFoundError and PermissionDeniedError for columns."""
    names = shape.shown.names if options.columns is None else options.columns
    for name in names:
        shape.check_readable(name)
    wanted = {shape.shown.field(find_column(shape.shown, name)).name for name in names}
    shown = pa.schema([column for column in shape.shown if column.name in wanted])
    restriction = shape.restriction
    checked = replace(options, columns=tuple(shown.names), filter=_filter(shape, options.filter))
    if restriction is None:
        return Reading(shape, checked, shown, None)
    needed = restriction.columns(shown.names)
    missing = needed - {name.lower() for name in shape.original.names}
    if missing:  # such as an older version, which has no such column
        raise PermissionDeniedError(
            f"a row filter or mask of table '{restriction.table}' needs a column that this version has not"
        )
    columns = [name for name in shape.original.names if name.lower() in needed]
    # A row needs at least one column to be there.
    columns = columns or [column.name for column in shape.original if not is_rowid(column)][:1]
    limit = options.limit if options.filter is None and (options.limit or 0) > 0 else None
    hint = And(tuple(part for part in (checked.filter, restriction.predicate) if part is not None))
    inner = replace(checked, columns=tuple(columns), limit=None, filter=hint if hint.children else None)
    return Reading(shape, inner, shown, limit)


def _filter(shape: Shape, expression: Expression | None) -> Expression | None:
    """Return what of a filter may be evaluated where the rows are stored.

    The client applies its filter again, to what it is shown: what is left out here only costs time. Were it
    evaluated on masked values, the number of rows would tell them. And what could fail for a row, as a cast
    does, would tell by that of rows that the caller does not see.
    """
    if expression is None:
        return None
    for name in column_names(expression):
        shape.check_readable(name)
    if shape.restriction is None:
        return expression
    return weaken(expression, lambda part: _is_harmless(shape, part))


def _is_harmless(shape: Shape, expression: Expression) -> bool:
    return all(
        isinstance(part, _NEVER_FAIL)
        or (isinstance(part, Function) and part.name in _NEVER_FAILING)
        or (isinstance(part, Column) and not shape.is_masked(part.name))
        for part in walk(expression)
    )


def _selected(batch: pa.RecordBatch, shown: pa.Schema) -> pa.RecordBatch:
    if batch.schema.names == shown.names:
        return batch
    columns = [batch.column(batch.schema.get_field_index(name)) for name in shown.names]
    return pa.RecordBatch.from_arrays(columns, names=shown.names)


@dataclass(frozen=True, slots=True)
class GuardedScan:
    """A planned scan as the caller may read it; no client reads files itself."""

    plan: PlannedScan
    reading: Reading

    def arrow_schema(self, call: Call) -> pa.Schema:
        """Return all columns that exist for the caller."""
        call.check()
        return self.reading.shape.shown

    @property
    def slice_count(self) -> int:
        """Into how many slices the scan is best cut."""
        return self.plan.slice_count

    def direct_reads(self, call: Call) -> DirectReads | None:
        """Return None."""
        call.check()
        return None

    def read(self, call: Call, part: ScanSlice | None) -> pa.RecordBatchReader:
        """Return the rows of a slice, or of all."""
        return self.reading.rows(call, self.plan.read(call, part))
