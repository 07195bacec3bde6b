"""INSERT, UPDATE and DELETE as a caller may run them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from sparkport.access.restrictions import Restriction
from sparkport.access.shapes import Shape
from sparkport.catalog.call import Call
from sparkport.catalog.dml import Statement, StatementTable
from sparkport.catalog.guards import Privilege
from sparkport.catalog.rowid import rowid_name
from sparkport.catalog.tables import Table, VersionedTable
from sparkport.errors import PermissionDeniedError, RowNotFoundError, UnsupportedOperationError


class _Guarded(Protocol):
    """The part of a guarded table that is needed here."""

    def require(self, privilege: Privilege) -> None:
        """Make sure that the caller may do this."""

    def current(self, call: Call) -> Shape:
        """Return what the caller sees of the columns."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Writing:
    """Checks what a caller is about to change."""

    table: _Guarded
    shape: Shape
    returning: bool

    def check_insert(self) -> None:
        """Make sure that the caller may add rows. Raises PermissionDeniedError."""
        self.table.require(Privilege.INSERT)
        self.shape.check_all_shown("INSERT")
        self._check_returning()

    def check_update(self, columns: Iterable[str]) -> None:
        """Make sure that the caller may set these columns. Raises PermissionDeniedError."""
        for column in columns:
            self.shape.check_settable(column)
        self._check_returning()

    def check_delete(self) -> None:
        """Make sure that the caller may remove rows. Raises PermissionDeniedError."""
        self.table.require(Privilege.DELETE)
        self._check_returning()

    def _check_returning(self) -> None:
        if self.returning:
            self.shape.check_all_readable("RETURNING")


def writing(table: _Guarded, call: Call, *, returning: bool) -> Writing:
    """Return what checks a change of the table as it is now."""
    return Writing(table, table.current(call), returning)


def begin_insert(table: _Guarded, inner: StatementTable, call: Call, *, returning: bool) -> Statement:
    """Start an INSERT, whose rows must pass the row filter."""
    checked = writing(table, call, returning=returning)
    checked.check_insert()
    restriction = checked.shape.restriction
    if restriction is None:
        return inner.begin_insert(call, returning=returning)
    statement = inner.begin_insert(call, returning=True)
    return _Restricted(call, statement, restriction, checked)


def begin_update(
    table: _Guarded, inner: StatementTable, call: Call, columns: tuple[str, ...], *, returning: bool
) -> Statement:
    """Start an UPDATE of rows that the caller sees, and which must pass the row filter afterwards."""
    checked = writing(table, call, returning=returning)
    checked.check_update(columns)
    restriction = checked.shape.restriction
    if restriction is None:
        return inner.begin_update(call, columns, returning=returning)
    fixed = _fixed(call, inner, "UPDATE")
    seen = _SeenRows(fixed, inner, restriction)
    statement = inner.begin_update(fixed, columns, returning=True)
    return _Restricted(call, statement, restriction, checked, seen, needs_all=True)


def begin_delete(table: _Guarded, inner: StatementTable, call: Call, *, returning: bool) -> Statement:
    """Start a DELETE of rows that the caller sees; for it there are no others."""
    checked = writing(table, call, returning=returning)
    checked.check_delete()
    restriction = checked.shape.restriction
    if restriction is None:
        return inner.begin_delete(call, returning=returning)
    fixed = _fixed(call, inner, "DELETE")
    seen = _SeenRows(fixed, inner, restriction)
    statement = inner.begin_delete(fixed, returning=True)
    return _Restricted(call, statement, restriction, checked, seen)


def _fixed(call: Call, table: StatementTable, operation: str) -> Call:
    """Return a call for which a row that others change meanwhile is a conflict.

    Else a row could be changed that the caller does not see any more.
    """
    if call.transaction_id is not None or call.if_version is not None:
        return call
    if not isinstance(table, VersionedTable):
        raise UnsupportedOperationError("table", _name(table), f"{operation} under a row filter")
    return call.based_on(table.snapshot(call, None).time_point.value)


def _name(table: Table) -> str:
    return table.name


class _SeenRows:
    """Tells which of the rows with some ids the caller sees, as they were when the statement began."""

    def __init__(self, call: Call, table: StatementTable, restriction: Restriction) -> None:
        self._call = call
        self._restriction = restriction
        # A DELETE that is never committed returns the rows as they are.
        self._probe = table.begin_delete(call, returning=True)

    def among(self, row_ids: pa.Array) -> pa.BooleanArray:
        """Return for each id whether there is such a row and the caller sees it."""
        rows = self._probe.write(pa.record_batch([pc.unique(row_ids)], names=["rowid"]))
        if rows is None or not rows.num_rows:
            return pa.array([False] * len(row_ids))
        name = rowid_name(rows.schema) or rows.schema.names[-1]
        seen = rows.column(rows.schema.get_field_index(name)).filter(self._restriction.seen(self._call, rows))
        return pc.is_in(row_ids, value_set=seen.cast(row_ids.type))

    def close(self) -> None:
        """Forget the probe."""
        self._probe.abort()


class _Restricted(Statement):
    """A statement of a caller with a row filter or masks."""

    def __init__(
        self,
        call: Call,
        statement: Statement,
        restriction: Restriction,
        checked: Writing,
        seen: _SeenRows | None = None,
        *,
        needs_all: bool = False,
    ) -> None:
        """`seen` tells which rows can be changed; with `needs_all` one that is not there is an error."""
        self._call = call
        self._statement = statement
        self._restriction = restriction
        self._checked = checked
        self._seen = seen
        self._needs_all = needs_all

    @property
    def version(self) -> str | None:
        """The snapshot that the client may take its rows to be of."""
        return self._statement.version

    def write(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """Take a batch, without the rows that the caller does not see."""
        if self._seen is not None and batch.num_rows:
            row_ids = batch.column(batch.num_columns - 1)
            seen = self._seen.among(row_ids)
            if self._needs_all and seen.true_count < len(seen):
                raise RowNotFoundError(row_ids.filter(pc.invert(seen))[0].as_py())
            batch = batch.filter(seen)
        rows = self._statement.write(batch)
        if rows is None:
            return None
        if self._seen is None or self._needs_all:
            self._check_new(rows)
        if not self._checked.returning:
            return None
        fields = {field.name: field for field in self._checked.shape.shown}
        shown = pa.schema([fields.get(field.name, field) for field in rows.schema])
        return self._restriction.masked(self._call, rows, shown)

    def commit(self) -> int:
        """Make the statement visible."""
        self._close()
        return self._statement.commit()

    def abort(self) -> None:
        """Forget everything."""
        self._close()
        self._statement.abort()

    def _close(self) -> None:
        if self._seen is not None:
            self._seen.close()

    def _check_new(self, rows: pa.RecordBatch) -> None:
        """Make sure that the caller will see the new rows. Raises PermissionDeniedError."""
        if rows.num_rows and self._restriction.seen(self._call, rows).true_count < rows.num_rows:
            raise PermissionDeniedError(
                f"a new row of table '{self._restriction.table}' does not satisfy the row filter that applies"
                " to the caller"
            )
