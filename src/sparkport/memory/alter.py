"""ALTER TABLE: from one state of a table to the next, without touching the first."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import pyarrow as pa

from sparkport.arrow.sizes import byte_size
from sparkport.catalog.budget import Reservation
from sparkport.catalog.call import Call
from sparkport.catalog.ddl import TableChange
from sparkport.errors import LimitExceededError
from sparkport.expressions.alterations import Alteration, TableShape, plan_alteration
from sparkport.memory.rows import Rows
from sparkport.memory.versions import TableState

_MAX_FILLED_BYTES = 1 << 30


class _Prepared(NamedTuple):
    """A segment of rows, what becomes of it, and how many bytes of that are new."""

    batch: pa.RecordBatch
    converted: pa.RecordBatch
    size: int


@dataclass(slots=True)
class PlannedAlteration:
    """A change for tables of one shape, with the rows for which expressions have been evaluated.

    Segments of rows never change, and most are shared by one state with the next: so what was
    prepared for one state is most of what the next one needs.
    """

    table: str
    shape: TableShape
    alteration: Alteration
    held: Reservation
    """The memory of the new values, until they are those of the table."""
    _prepared: dict[int, _Prepared] = field(default_factory=dict)

    def fits(self, state: TableState) -> bool:
        """Say whether the change was planned for the columns and constraints of this state."""
        return state.arrow_schema is self.shape.arrow_schema and state.constraints is self.shape.constraints

    def prepare(self, call: Call, rows: Rows) -> None:
        """Evaluate what the change needs of rows.

        Raises ConstraintViolationError, LimitExceededError for too many new bytes, or as `convert` does.
        """
        if not self._evaluates:
            return
        known, self._prepared = self._prepared, {}
        self.held.resize(0)
        for batch in (segment.batch for segment in rows.segments):
            call.check()
            if id(batch) in known:
                self._prepared[id(batch)] = known[id(batch)]
                self.held.add(known[id(batch)].size)
                continue
            converted = self.alteration.convert(batch)
            size = _new_bytes(batch, converted)
            self.held.add(size)
            self.alteration.check(call, self.table, pa.Table.from_batches([converted]))
            self._prepared[id(batch)] = _Prepared(batch, converted, size)

    def apply(self, state: TableState) -> TableState | None:
        """Return the state after the change; None if it needs preparing, or the change planning, again.

        No expression is evaluated: the caller holds the commit lock.
        """
        batches = [segment.batch for segment in state.rows.segments]
        if not self.fits(state) or (
            self._evaluates and any(id(one) not in self._prepared for one in batches)
        ):
            return None
        self._check_size(state.rows)
        shape = self.alteration.shape
        rows = state.rows.map(self._converted)
        changed = replace(state, arrow_schema=shape.arrow_schema, constraints=shape.constraints, rows=rows)
        if self.alteration.reads_rows and rows.count:
            everything = rows.table(shape.arrow_schema)
            self.alteration.check_nulls(self.table, everything)
            self.alteration.check_keys(self.table, everything)
        return changed

    @property
    def _evaluates(self) -> bool:
        return self.alteration.recomputed or bool(self.alteration.to_check.checks)

    def _converted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return self._prepared[id(batch)].converted if self._evaluates else self.alteration.convert(batch)

    def _check_size(self, rows: Rows) -> None:
        filled = self.alteration.filled
        if filled is not None and filled.nbytes * rows.count > _MAX_FILLED_BYTES:
            raise LimitExceededError(
                f"the default would take more than {_MAX_FILLED_BYTES >> 20} MiB in table '{self.table}'"
            )


def plan(call: Call, table: str, state: TableState, change: TableChange) -> PlannedAlteration | None:
    """Return what a change makes of a table; None if nothing changes."""
    shape = TableShape(state.arrow_schema, state.constraints)
    alteration = plan_alteration(call, table, shape, change)
    if alteration is None:
        return None
    return PlannedAlteration(table, shape, alteration, Reservation(call.resources.rows))


def _new_bytes(batch: pa.RecordBatch, converted: pa.RecordBatch) -> int:
    """Return the bytes of the columns that are not those of the batch before."""
    known = {_addresses(column) for column in batch.columns}
    fresh = [column for column in converted.columns if _addresses(column) not in known]
    return byte_size(pa.RecordBatch.from_arrays(fresh, [""] * len(fresh))) if fresh else 0


def _addresses(column: pa.Array) -> tuple[int, ...]:
    return tuple(0 if buffer is None else buffer.address for buffer in column.buffers())
