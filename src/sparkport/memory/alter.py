"""ALTER TABLE: make the next state of a table from an immutable one."""

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
    """A segment of rows, the same rows converted, and how many bytes of those are new."""

    batch: pa.RecordBatch
    converted: pa.RecordBatch
    size: int


@dataclass(slots=True)
class PlannedAlteration:
    """A planned change, with the rows for which expressions have been evaluated.

    Segments of rows are immutable, and most are shared by one state with the next: so what was
    prepared for one state is most of what the next one needs.
    """

    table: str
    shape: TableShape
    alteration: Alteration
    held: Reservation
    """The memory of the new values, until they belong to the table."""
    _prepared: dict[int, _Prepared] = field(default_factory=dict)

    def fits(self, state: TableState) -> bool:
        """Return whether the change was planned for the columns and constraints of this state."""
        return state.arrow_schema is self.shape.arrow_schema and state.constraints is self.shape.constraints

    def prepare(self, call: Call, rows: Rows) -> None:
        """Evaluate the expressions of the change for rows.

        Raises ConstraintViolationError, LimitExceededError for too many new bytes, or as `convert` does.
        """
        if not self._evaluates:
            return
        earlier, self._prepared = self._prepared, {}
        self.held.resize(0)
        for batch in (segment.batch for segment in rows.segments):
            call.check()
            if id(batch) in earlier:
                self._prepared[id(batch)] = earlier[id(batch)]
                self.held.add(earlier[id(batch)].size)
                continue
            converted = self.alteration.convert(batch)
            size = _new_bytes(batch, converted)
            self.held.add(size)
            self.alteration.check(call, self.table, pa.Table.from_batches([converted]))
            self._prepared[id(batch)] = _Prepared(batch, converted, size)

    def apply(self, state: TableState) -> TableState | None:
        """Return the state after the change; None if it has to be prepared or planned again.

        No expression is evaluated: the caller holds the commit lock.
        """
        batches = [segment.batch for segment in state.rows.segments]
        if not self.fits(state) or (
            self._evaluates and any(id(batch) not in self._prepared for batch in batches)
        ):
            return None
        self._check_size(state.rows)
        shape = self.alteration.shape
        rows = state.rows.map(self._convert)
        changed = replace(state, arrow_schema=shape.arrow_schema, constraints=shape.constraints, rows=rows)
        if self.alteration.reads_rows and rows.count:
            all_rows = rows.table(shape.arrow_schema)
            self.alteration.check_nulls(self.table, all_rows)
            self.alteration.check_keys(self.table, all_rows)
        return changed

    @property
    def _evaluates(self) -> bool:
        return self.alteration.recomputed or bool(self.alteration.to_check.checks)

    def _convert(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return self._prepared[id(batch)].converted if self._evaluates else self.alteration.convert(batch)

    def _check_size(self, rows: Rows) -> None:
        filled = self.alteration.filled
        if filled is not None and filled.nbytes * rows.count > _MAX_FILLED_BYTES:
            raise LimitExceededError(
                f"the default of the new column would need more than {_MAX_FILLED_BYTES >> 20} MiB in table"
                f" '{self.table}'"
            )


def plan(call: Call, table: str, state: TableState, change: TableChange) -> PlannedAlteration | None:
    """Plan a change of a table; return None if nothing changes."""
    shape = TableShape(state.arrow_schema, state.constraints)
    alteration = plan_alteration(call, table, shape, change)
    if alteration is None:
        return None
    return PlannedAlteration(table, shape, alteration, Reservation(call.resources.rows))


def _new_bytes(batch: pa.RecordBatch, converted: pa.RecordBatch) -> int:
    """Return the size of the columns that are not shared with the batch before."""
    shared = {_addresses(column) for column in batch.columns}
    fresh = [column for column in converted.columns if _addresses(column) not in shared]
    return byte_size(pa.RecordBatch.from_arrays(fresh, [""] * len(fresh))) if fresh else 0


def _addresses(column: pa.Array) -> tuple[int, ...]:
    return tuple(0 if buffer is None else buffer.address for buffer in column.buffers())
