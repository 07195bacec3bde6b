"""Tables as a caller may see them."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import pyarrow as pa

from sparkport.access.names import check_column_name, check_table_name
from sparkport.access.reads import GuardedScan, Reading, reading
from sparkport.access.rules import Kind
from sparkport.access.scope import Scope
from sparkport.access.shapes import Shape, shape_of
from sparkport.access.writes import begin_delete, begin_insert, begin_update, writing
from sparkport.catalog.abilities import abilities_of
from sparkport.catalog.call import Call
from sparkport.catalog.ddl import (
    AddConstraint,
    ChangeColumnType,
    DynamicTable,
    RenameColumn,
    RenameTable,
    SetNotNull,
    TableChange,
)
from sparkport.catalog.dml import (
    DeletableTable,
    DMLResult,
    InsertableTable,
    Statement,
    StatementTable,
    UpdatableTable,
)
from sparkport.catalog.guards import Privilege
from sparkport.catalog.lookup import current_arrow_schema
from sparkport.catalog.rowid import without_rowid
from sparkport.catalog.scan import ClientCall, PlannedScan, ScanOptions, SchemaRequest, Snapshot, TimePoint
from sparkport.catalog.tables import (
    ColumnStatistics,
    ConstrainedTable,
    DirectTable,
    DynamicSchemaTable,
    HasDescription,
    HasTableKind,
    PlanningTable,
    ReferenceTable,
    SplittableTable,
    StatisticsTable,
    Table,
    TableConstraints,
    TableDescription,
    TableKind,
    VersionedTable,
)

# Their errors tell about the values of rows.
_READING_CHANGES = (AddConstraint, ChangeColumnType, SetNotNull)


def guarded_table(table: Table, schema: str, scope: Scope) -> Table:
    """Return a table of a schema as a caller may see it; the same object while it is in use.

    What a table can do beyond this module's parts does not exist for callers.
    """
    known: GuardedTableBase | None = scope.tables.get(id(table))
    if known is not None and known.is_for(table, schema):
        return known
    path = (scope.catalog, schema, table.name)
    is_restricted = bool(scope.rights.filters(path) or scope.rights.masks_in(path))
    made = _class(_abilities(table, is_restricted=is_restricted))(table, schema, scope)
    scope.tables[id(table)] = made
    if isinstance(table, PlanningTable):
        scope.recent.put(id(table), made)
    return made


def _abilities(table: Table, *, is_restricted: bool) -> tuple[type, ...]:
    kept = abilities_of(table, _ABILITIES)
    if not is_restricted:
        return kept
    return tuple(ability for ability in kept if ability not in _ONLY_WHOLE)


@functools.cache
def _class(abilities: tuple[type, ...]) -> type[GuardedTableBase]:
    return type("GuardedTable", (*(PARTS[ability] for ability in abilities), GuardedTableBase), {})


class GuardedTableBase:
    """What every table has, as a caller may see it."""

    def __init__(self, table: Table, schema: str, scope: Scope) -> None:
        self._table = table
        self._schema = schema
        self._scope = scope
        self._named = table.name
        # Of the last columns that were asked for, and under which name: they rarely change.
        self._last_shape: tuple[str, pa.Schema, Shape] | None = None
        self._last_policies: tuple[str, tuple[str, ...]] | None = None

    def is_for(self, table: Table, schema: str) -> bool:
        """Return whether it guards this table, under this name."""
        return self._table is table and self._schema == schema and self._named == table.name

    @property
    def name(self) -> str:
        """The table's name."""
        return self._table.name

    @property
    def comment(self) -> str:
        """The table's documentation."""
        return self._table.comment

    @property
    def arrow_schema(self) -> pa.Schema | None:
        """The columns that exist for the caller."""
        arrow_schema = self._table.arrow_schema
        return None if arrow_schema is None else self.shape(arrow_schema).shown

    def scan(self, call: Call, options: ScanOptions) -> pa.RecordBatchReader:
        """Return the rows, with columns that the caller may read."""
        checked = self.reading(call, options)
        reader = self._table.scan(call, checked.options)
        return reader if checked.shape.is_whole else checked.rows(call, reader)

    @property
    def policies(self) -> tuple[str, ...]:
        """The row filters and masks that apply to the caller, by their lines in the access file."""
        name, known = self.name, self._last_policies
        if known is None or known[0] != name:
            rights, path = self._scope.rights, (self._scope.catalog, self._schema, name)
            filters = [f"filter at line {one.line}" for one in rights.filters(path)]
            masks = [f"mask at line {one.line}" for one in rights.masks_in(path)]
            self._last_policies = known = name, (*filters, *masks)
        return known[1]

    @property
    def behind(self) -> Table:
        """The table itself, for what there is to know of its columns."""
        return self._table

    def shows_a_part(self, call: Call) -> bool:
        """Return whether the caller may read all that it sees of the table, and that is not all of it."""
        shape = self.current(call)
        return not shape.is_whole and not shape.unreadable

    def unguarded(self, *privileges: Privilege) -> Table:
        """Return the table itself for a caller who may do all of this to all of it."""
        shape = self.current(Call(self._scope.rights.principal))
        shape.check_unrestricted("this")
        for privilege in privileges:
            if privilege is Privilege.SELECT:
                shape.check_all_readable("this")
            elif privilege is Privilege.UPDATE:
                for name in without_rowid(shape.original).names:
                    shape.check_settable(name)
            else:
                self.require(privilege)
        shape.check_all_shown("this")
        return self._table

    def require(self, privilege: Privilege) -> None:
        """Make sure that the caller may do this to the table. Raises PermissionDeniedError."""
        self._scope.require(privilege, Kind.TABLE, self._schema, self.name)

    def shape(self, arrow_schema: pa.Schema) -> Shape:
        """Return what the caller sees of the columns of the newest state."""
        name, known = self.name, self._last_shape
        if known is None or known[0] != name or known[1] is not arrow_schema:
            shape = shape_of(self._scope, self._schema, name, arrow_schema)
            self._last_shape = known = name, arrow_schema, shape
        return known[2]

    def shape_at(self, call: Call, time_point: TimePoint | None, arrow_schema: pa.Schema) -> Shape:
        """Return what the caller sees of the columns of a state.

        Rules go by the names that columns have now. Under an older name a column would be without its rule:
        where there are such rules, columns of older states are shown by the names of the newest alone.
        """
        is_newest = time_point is None and call.transaction_id is None
        path = (self._scope.catalog, self._schema, self.name)
        if is_newest or not self._scope.rights.has_column_rules(path):
            return self.shape(arrow_schema)
        newest = current_arrow_schema(Call(call.principal), self._table)
        known = {name.lower() for name in newest.names}
        gone = frozenset(name for name in arrow_schema.names if name.lower() not in known)
        return shape_of(self._scope, self._schema, self.name, arrow_schema, gone)

    def current(self, call: Call, time_point: TimePoint | None = None) -> Shape:
        """Return what the caller sees of the columns of a state."""
        return self.shape_at(call, time_point, current_arrow_schema(call, self._table, time_point))

    def reading(self, call: Call, options: ScanOptions) -> Reading:
        """Return how a scan is read. Raises PermissionDeniedError if the caller may read no column at all."""
        shape = self.current(call, options.time_point)
        if shape.is_whole:
            return Reading(shape, options, shape.shown, None)
        if len(shape.unreadable) == len(without_rowid(shape.shown)):
            self.require(Privilege.SELECT)
        return reading(shape, options)


class _HasKind(GuardedTableBase):
    @property
    def table_kind(self) -> TableKind:
        """What it is."""
        assert isinstance(self._table, HasTableKind)
        return self._table.table_kind


class _DynamicSchema(GuardedTableBase):
    def schema_for_request(self, call: Call, request: SchemaRequest) -> pa.Schema:
        """Return the columns for a request that exist for the caller."""
        assert isinstance(self._table, DynamicSchemaTable)
        arrow_schema = self._table.schema_for_request(call, request)
        return self.shape_at(call, request.time_point, arrow_schema).shown


class _Versioned(GuardedTableBase):
    def snapshot(self, call: Call, time_point: TimePoint | None) -> Snapshot:
        """Fix a state; the number of its rows is for those who may read them all."""
        assert isinstance(self._table, VersionedTable)
        snapshot = self._table.snapshot(call, time_point)
        shape = self.shape_at(call, time_point, snapshot.arrow_schema)
        allowed = self._scope.allow(Privilege.SELECT, Kind.TABLE, self._schema, self.name)
        counts = allowed and (shape.restriction is None or shape.restriction.condition is None)
        return Snapshot(snapshot.time_point, shape.shown, snapshot.row_count if counts else None)


class _Splittable(GuardedTableBase):
    def slice_count(self, call: Call, options: ScanOptions) -> int:
        """Return into how many slices a scan is best cut."""
        assert isinstance(self._table, SplittableTable)
        return self._table.slice_count(call, self.reading(call, options).options)


class _Planning(GuardedTableBase):
    def plan_scan(self, call: Call, options: ScanOptions) -> PlannedScan:
        """Plan a scan; that of a caller who may read everything is the table's own."""
        assert isinstance(self._table, PlanningTable)
        checked = self.reading(call, options)
        if checked.shape.is_whole:
            return self._table.plan_scan(call, options)
        return GuardedScan(self._table.plan_scan(call, checked.options), checked)


class _Direct(GuardedTableBase):
    def direct_files(self, call: Call, options: ScanOptions) -> Sequence[str] | None:
        """Return the files of a scan for a caller who may read everything in them, else None."""
        assert isinstance(self._table, DirectTable)
        is_whole = self.reading(call, options).shape.is_whole
        return self._table.direct_files(call, options) if is_whole else None


class _Reference(GuardedTableBase):
    def client_calls(self, call: Call, options: ScanOptions) -> Sequence[ClientCall]:
        """Return the calls of a table that the client reads itself, all of it."""
        assert isinstance(self._table, ReferenceTable)
        self.reading(call, options).shape.check_all_readable("a table that DuckDB reads itself")
        return self._table.client_calls(call, options)


class _Statistics(GuardedTableBase):
    def column_statistics(self, call: Call, column: str) -> ColumnStatistics:
        """Return the statistics of a column that the caller may read."""
        assert isinstance(self._table, StatisticsTable)
        self.current(call).check_readable(column)
        return self._table.column_statistics(call, column)


class _Constrained(GuardedTableBase):
    @property
    def constraints(self) -> TableConstraints:
        """The constraints, for a caller who sees all columns."""
        assert isinstance(self._table, ConstrainedTable)
        arrow_schema = self._table.arrow_schema
        if arrow_schema is None or not self.shape(arrow_schema).is_complete:
            return TableConstraints()
        return self._table.constraints


class _Described(GuardedTableBase):
    def describe(self, call: Call) -> TableDescription:
        """Return what there is to know of the newest state."""
        assert isinstance(self._table, HasDescription)
        description = self._table.describe(call)
        shape = self.shape(description.arrow_schema)
        is_shown = shape.is_complete and shape.restriction is None
        return TableDescription(
            shape.shown, description.comment, description.constraints if is_shown else None
        )


class _Dynamic(GuardedTableBase):
    def alter(self, call: Call, change: TableChange) -> None:
        """Apply a change; one whose errors tell about the rows is for those who may read them."""
        assert isinstance(self._table, DynamicTable)
        needed = (Privilege.ALTER, Privilege.SELECT) if isinstance(change, _READING_CHANGES) else ()
        self.unguarded(Privilege.ALTER, *needed)
        # Other grants may hold for a new name.
        if isinstance(change, RenameTable):
            self._scope.require(Privilege.CREATE, Kind.TABLE, self._schema, change.new_name)
            check_table_name(self.current(call), change.new_name)
        elif isinstance(change, RenameColumn):
            check_column_name(self.current(call), change.old_name, change.new_name)
        self._table.alter(call, change)

    add_column = DynamicTable.add_column
    remove_column = DynamicTable.remove_column


class _Insertable(GuardedTableBase):
    def insert(self, call: Call, rows: pa.RecordBatchReader, *, returning: bool = False) -> DMLResult:
        """Add rows."""
        assert isinstance(self._table, InsertableTable)
        writing(self, call, returning=returning).check_insert()
        return self._table.insert(call, rows, returning=returning)


class _Updatable(GuardedTableBase):
    def update(
        self, call: Call, row_ids: pa.Int64Array, rows: pa.RecordBatchReader, *, returning: bool = False
    ) -> DMLResult:
        """Set columns of rows."""
        assert isinstance(self._table, UpdatableTable)
        writing(self, call, returning=returning).check_update(tuple(rows.schema.names))
        return self._table.update(call, row_ids, rows, returning=returning)


class _Deletable(GuardedTableBase):
    def delete(self, call: Call, row_ids: pa.Int64Array, *, returning: bool = False) -> DMLResult:
        """Remove rows."""
        assert isinstance(self._table, DeletableTable)
        writing(self, call, returning=returning).check_delete()
        return self._table.delete(call, row_ids, returning=returning)


class _Statements(GuardedTableBase):
    def begin_insert(self, call: Call, *, returning: bool) -> Statement:
        """Start an INSERT."""
        assert isinstance(self._table, StatementTable)
        return begin_insert(self, self._table, call, returning=returning)

    def begin_update(self, call: Call, columns: tuple[str, ...], *, returning: bool) -> Statement:
        """Start an UPDATE."""
        assert isinstance(self._table, StatementTable)
        return begin_update(self, self._table, call, columns, returning=returning)

    def begin_delete(self, call: Call, *, returning: bool) -> Statement:
        """Start a DELETE."""
        assert isinstance(self._table, StatementTable)
        return begin_delete(self, self._table, call, returning=returning)


PARTS: dict[type, type[GuardedTableBase]] = {
    HasTableKind: _HasKind,
    DynamicSchemaTable: _DynamicSchema,
    VersionedTable: _Versioned,
    SplittableTable: _Splittable,
    PlanningTable: _Planning,
    DirectTable: _Direct,
    ReferenceTable: _Reference,
    StatisticsTable: _Statistics,
    ConstrainedTable: _Constrained,
    HasDescription: _Described,
    DynamicTable: _Dynamic,
    InsertableTable: _Insertable,
    UpdatableTable: _Updatable,
    DeletableTable: _Deletable,
    StatementTable: _Statements,
}
"""The abilities of tables that callers may use, each with what is checked."""

_ABILITIES = tuple(PARTS)

# Not for callers with a row filter or masks: they would tell of rows and values that are kept from them.
_ONLY_WHOLE = frozenset(
    {DirectTable, ReferenceTable, StatisticsTable, ConstrainedTable}
    | {InsertableTable, UpdatableTable, DeletableTable}
)
