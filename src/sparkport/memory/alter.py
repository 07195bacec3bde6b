"""ALTER TABLE: from one state of a table to the next, without touching the first."""

from __future__ import annotations

from sparkport.catalog.call import Call
from sparkport.catalog.ddl import TableChange
from sparkport.expressions.alterations import TableShape, worked_out
from sparkport.memory.versions import TableState


def altered(call: Call, table: str, state: TableState, change: TableChange) -> TableState:
    """Return the state after the change; the same object if nothing changes."""
    alteration = worked_out(call, table, TableShape(state.arrow_schema, state.constraints), change)
    if alteration is None:
        return state
    shape = alteration.shape
    rows = state.rows.map(alteration.convert)
    changed = TableState(shape.arrow_schema, shape.constraints, rows, state.outcomes)
    if alteration.reads_rows and changed.rows.count:
        found = changed.rows.table(shape.arrow_schema)
        alteration.check(call, table, found)
        alteration.check_keys(table, found)
    return changed
