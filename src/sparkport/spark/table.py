"""A Delta table as the server serves it: read, written and altered through its versions."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import structlog

from sparkport.catalog.call import Call
from sparkport.catalog.ddl import DynamicTable, RenameTable, TableChange
from sparkport.catalog.dml import Statement
from sparkport.catalog.scan import ScanOptions, Snapshot, TimePoint, TimeUnit
from sparkport.catalog.tables import ColumnStatistics, TableConstraints, TableDescription
from sparkport.errors import SparkportError, UnsupportedOperationError
from sparkport.spark.commit.idempotency import recorded_outcome
from sparkport.spark.ddl.alter import alter
from sparkport.spark.engine import Engine
from sparkport.spark.errors import writing
from sparkport.spark.model.constraints import all_constraints
from sparkport.spark.planned_scan import PlannedDeltaScan
from sparkport.spark.row_ids.ids import NO_IDS
from sparkport.spark.versions import TableVersions
from sparkport.spark.warehouse.listing import TableEntry
from sparkport.spark.warehouse.snapshots import OwnWrite
from sparkport.spark.write.row_id_backfill import ensure_row_ids
from sparkport.spark.write.statement import InsertStatement
from sparkport.spark.write.update_delete import DeleteStatement, UpdateStatement
from sparkport.toolkit.repeats import Outcome, repeated
from sparkport.toolkit.whole_statements import WholeStatements

_log = structlog.get_logger("sparkport.spark")

Rename = Callable[[Call, "DeltaTable", str], None]


class DeltaTable(WholeStatements, DynamicTable):
    """A table of the warehouse."""

    def __init__(self, entry: TableEntry, engine: Engine, rename: Rename | None = None) -> None:
        self.versions = TableVersions(entry, engine)
        self._rename = rename

    @property
    def name(self) -> str:
        """The table's name."""
        return self.versions.name

    @property
    def schema(self) -> str:
        """The name of the table's schema."""
        return self.versions.schema

    @property
    def path(self) -> tuple[str, str]:
        """Schema and name."""
        return self.schema, self.name

    @property
    def root(self) -> str:
        """The table's folder."""
        return self.versions.root

    @property
    def comment(self) -> str:
        """The table's documentation."""
        return self.versions.header().metadata.description or ""

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns of the newest version."""
        return self.versions.arrow_schema(self.versions.header())

    @property
    def constraints(self) -> TableConstraints:
        """The constraints of the newest version: ours, and Delta's own as Spark words them."""
        return all_constraints(self.versions.header().metadata)

    def describe(self, call: Call) -> TableDescription:
        """Return all that a listing shows of the newest version."""
        call.check()
        header = self.versions.header()
        columns = self.versions.arrow_schema(header)
        return TableDescription(columns, header.metadata.description or "", all_constraints(header.metadata))

    def is_readable(self, call: Call, version: int) -> bool:
        """Tell whether the log says what a version is; that of a damaged one is logged."""
        call.check()
        try:
            self.versions.arrow_schema(self.versions.header(version))
        except SparkportError as error:
            _log.warning("table left out of the listing", table=str(self), reason=str(error))
            return False
        return True

    def snapshot(self, call: Call, time_point: TimePoint | None) -> Snapshot:
        """Fix the version that the call reads."""
        snapshot = self.versions.at(call, time_point)
        is_pinned = time_point is not None and time_point.unit is TimeUnit.SNAPSHOT
        pin = time_point if is_pinned and time_point else self.versions.pin(call, snapshot)
        return Snapshot(pin, snapshot.arrow_schema, snapshot.state.row_count)

    def plan_scan(self, call: Call, options: ScanOptions) -> PlannedDeltaScan:
        """Decide what a scan reads."""
        snapshot = self.versions.at(call, options.time_point)
        return PlannedDeltaScan(self.versions, options.time_point, snapshot, snapshot.plan(options))

    def slice_count(self, call: Call, options: ScanOptions) -> int:
        """Cut large tables by their files."""
        return self.plan_scan(call, options).slice_count

    def scan(self, call: Call, options: ScanOptions) -> pa.RecordBatchReader:
        """Read one version: projected, filtered, cut to slice and limit."""
        return self.plan_scan(call, options).read(call, options.slice)

    def column_statistics(self, call: Call, column: str) -> ColumnStatistics:
        """Return what the log is sure of for the version that the call reads."""
        return self.versions.at(call, None).column_statistics(column)

    def alter(self, call: Call, change: TableChange) -> None:
        """Apply one change as one version."""
        versions = self.versions
        versions.engine.transactions.refuse_in_staged(call, "ALTER TABLE")
        if isinstance(change, RenameTable):
            if self._rename is None:
                raise UnsupportedOperationError("table", str(self), "RENAME")
            old = self.name
            self._rename(call, self, change.new_name)
            versions.engine.transactions.record_rename(call, versions.schema, old, self.name)
            versions.make_durable()
            return
        with writing():
            versions.begin_write()
            version = alter(call, versions, change)
            if version is not None:
                is_certain = versions.engine.capabilities.delta_transactions
                versions.wrote(call, OwnWrite(version, NO_IDS, NO_IDS, is_certain=is_certain))

    def begin_insert(self, call: Call, *, returning: bool) -> Statement:
        """Start an INSERT."""
        done = self._recorded(call)
        if done is not None:
            return repeated(call, done, InsertStatement.operation, returning=returning)
        self.versions.begin_write()
        self.versions.view(call)
        return InsertStatement(call, self.versions, returning=returning)

    def begin_update(self, call: Call, columns: tuple[str, ...], *, returning: bool) -> Statement:
        """Start an UPDATE; rows without ids get theirs first."""
        done = self._recorded(call)
        if done is not None:
            return repeated(call, done, UpdateStatement.operation, columns, returning=returning)
        self.versions.begin_write()
        ensure_row_ids(call, self.versions)
        return UpdateStatement(call, self.versions, columns, returning=returning)

    def begin_delete(self, call: Call, *, returning: bool) -> Statement:
        """Start a DELETE; rows without ids get theirs first."""
        done = self._recorded(call)
        if done is not None:
            return repeated(call, done, DeleteStatement.operation, returning=returning)
        self.versions.begin_write()
        ensure_row_ids(call, self.versions)
        return DeleteStatement(call, self.versions, returning=returning)

    def _recorded(self, call: Call) -> Outcome | None:
        """Return the outcome of the statement with the call's key, None if it is not done."""
        key = call.idempotency_key
        return None if key is None else recorded_outcome(self.versions.log.transactions(), key)

    def __str__(self) -> str:
        return str(self.versions)
