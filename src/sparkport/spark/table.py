"""A Delta table, read through Spark."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import structlog

from sparkport.arrow.taking import take_batch
from sparkport.catalog.budget import Reservation
from sparkport.catalog.call import Call
from sparkport.catalog.ddl import DynamicTable, RenameTable, TableChange
from sparkport.catalog.dml import DMLResult, Statement, run, with_ids
from sparkport.catalog.lookup import find_column
from sparkport.catalog.predicates import (
    And,
    Column,
    Comparison,
    ComparisonOperator,
    Constant,
    Expression,
    In,
)
from sparkport.catalog.rowid import ROWID, rowid_name
from sparkport.catalog.scan import ScanOptions, Snapshot, TimePoint, TimeUnit
from sparkport.catalog.tables import ColumnStatistics, TableConstraints, TableDescription
from sparkport.errors import NotFoundError, SparkportError, UnsupportedOperationError
from sparkport.spark.commit.checkpoints import Checkpointing
from sparkport.spark.commit.conflict_detection import NO_IDS, Basis, FinalConflictError, Ids
from sparkport.spark.commit.idempotency import recorded
from sparkport.spark.commit.read_write_lock import ReadWriteLock
from sparkport.spark.ddl.alter import alter
from sparkport.spark.delta.actions import DataFile, Metadata
from sparkport.spark.delta.durability import Durability
from sparkport.spark.delta.readable import NEWEST_READER, unreadable_reason
from sparkport.spark.delta.snapshots import DeltaSnapshot, TableHeader
from sparkport.spark.delta.statistics import exact_statistics
from sparkport.spark.engine import Engine
from sparkport.spark.errors import VacuumedError, too_new, writing
from sparkport.spark.model.arrow_metadata import arrow_metadata
from sparkport.spark.model.columns import TableColumn, has_ids, table_columns
from sparkport.spark.model.constraints import shown_constraints
from sparkport.spark.read import direct_files, sql_scan
from sparkport.spark.read.arrow_scan import PLACE_FIELDS, matching_files, missing_ids, read_columns
from sparkport.spark.read.collecting import Collector
from sparkport.spark.read.metadata_only import metadata_only_rows
from sparkport.spark.read.mode import ReadMode
from sparkport.spark.read.splits import all_or_none, endpoint_count, files_of
from sparkport.spark.read.sql_query import delta_query
from sparkport.spark.types import decode, decode_batches, pushable
from sparkport.spark.warehouse.listing import TableEntry
from sparkport.spark.warehouse.snapshots import OwnWrite, TableView
from sparkport.spark.write.deletion_vector_update import Located
from sparkport.spark.write.row_id_backfill import ensure_row_ids, is_adoptable
from sparkport.spark.write.statement import InsertStatement
from sparkport.spark.write.transaction_view import lost, transaction_snapshot
from sparkport.spark.write.update_delete import DeleteStatement, UpdateStatement
from sparkport.toolkit.repeats import Outcome, repeated

_log = structlog.get_logger("sparkport.spark")

_SNAPSHOT_VERSION = re.compile("[0-9]{1,20}")
_PRIVATE_VERSION = re.compile(r"(?P<version>[0-9]{1,20})\+(?P<own>[0-9]{1,9})@(?P<transaction>.+)")
_MAX_LISTED = 2048
_MAX_COMMITS_LOOKED_AT = 100


class DeltaTable(DynamicTable):
    """A table of the warehouse.

    Nothing of it is kept but what its log has said: others may write to it at any time.
    """

    def __init__(
        self,
        entry: TableEntry,
        engine: Engine,
        rename: Callable[[Call, DeltaTable, str], None] | None = None,
    ) -> None:
        self._rename = rename
        self.gate = ReadWriteLock()  # who commits rows is inside together with others, who alters alone
        self._checkpoints = Checkpointing(engine.jobs, self.gate)
        self._durability = Durability()
        self._entry = entry
        self._engine = engine
        self._log = engine.log(entry.root)
        self._columns: tuple[Metadata, tuple[TableColumn, ...], pa.Schema] | None = None

    @property
    def name(self) -> str:
        """The table's name."""
        return self._entry.name

    @property
    def schema(self) -> str:
        """The name of the table's schema."""
        return self._entry.schema

    @property
    def root(self) -> str:
        """The table's folder."""
        return self._entry.root

    @property
    def table_id(self) -> str:
        """What tells the table from others that were, or will be, in its folder."""
        return self._log.heading().metadata.table_id

    @property
    def comment(self) -> str:
        """The table's documentation."""
        return self._log.heading().metadata.description or ""

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns of the newest version."""
        return self._arrow_schema(self._log.heading())

    @property
    def constraints(self) -> TableConstraints:
        """The constraints of the newest version: ours, and Delta's own as Spark words them."""
        return shown_constraints(self._log.heading().metadata)

    def describe(self, call: Call) -> TableDescription:
        """Return all that a listing shows of the newest version."""
        call.check()
        found = self._log.heading()
        return TableDescription(
            self._arrow_schema(found), found.metadata.description or "", shown_constraints(found.metadata)
        )

    def is_readable(self, call: Call, version: int) -> bool:
        """Tell whether the log says what a version is; a damaged one is noted in the server's log."""
        call.check()
        try:
            self._arrow_schema(self._log.heading(version))
        except SparkportError as error:
            _log.warning("table left out of the listing", table=str(self), reason=str(error))
            return False
        return True

    def snapshot(self, call: Call, time_point: TimePoint | None) -> Snapshot:
        """Fix the version that the call reads."""
        found = self._state(call, time_point)
        pin = time_point
        if pin is None or pin.unit is not TimeUnit.SNAPSHOT:
            own = f"+{found.own_writes}@{call.transaction_id}" if found.own_writes else ""
            pin = TimePoint(TimeUnit.SNAPSHOT, f"{found.metadata.table_id}:{found.version}{own}")
        return Snapshot(pin, self._arrow_schema(found), found.row_count)

    def slice_count(self, call: Call, options: ScanOptions) -> int:
        """Cut large tables by their files."""
        found = self._state(call, options.time_point)
        if self._sql_reason(found) is not None:
            return 1
        files = matching_files(found, self._columns_of(found), options.filter)
        return endpoint_count(files, self._engine.sizes)

    def scan(self, call: Call, options: ScanOptions) -> pa.RecordBatchReader:
        """Read one version: projected, filtered, cut to slice and limit."""
        return self._scan(call, self._scanned(call, options.time_point), options)

    def _scan(self, call: Call, found: DeltaSnapshot, options: ScanOptions) -> pa.RecordBatchReader:
        call.check()
        columns = self._columns_of(found)
        full = self._arrow_schema(found)
        names = full.names if options.columns is None else options.columns
        wanted = [columns[index] for index in dict.fromkeys(find_column(full, name) for name in names)]
        projected = pa.schema([column.exact for column in wanted], full.metadata)
        stored = self._while_there(found, self._stored(call, found, columns, wanted, options))
        batches = itertools.chain.from_iterable(decode_batches(batch, projected) for batch in stored)
        # The filter may let more pass than the client will, so that there is no telling where to stop.
        limit = options.limit if options.filter is None else None
        return pa.RecordBatchReader.from_batches(projected, _limited(batches, limit))

    def direct_files(self, call: Call, options: ScanOptions) -> list[str] | None:
        """Return the files of the scan if clients may and can read them by themselves."""
        found = self._state(call, options.time_point)
        if not self._is_read_directly(found) or self._sql_reason(found) is not None:
            return None
        columns = self._columns_of(found)
        return direct_files.plain_files(
            files_of(matching_files(found, columns, options.filter), options.slice), columns
        )

    def column_statistics(self, call: Call, column: str) -> ColumnStatistics:
        """Return what the log is sure of for the version that the call reads."""
        found = self._state(call, None)
        columns = self._columns_of(found)
        wanted = columns[find_column(self._arrow_schema(found), column)]
        unknown = pa.scalar(None, wanted.exact.type)
        # Of the row id what is stored is not all that clients see.
        is_sure = wanted.is_as_stored and not missing_ids(found, [wanted])
        known = exact_statistics(found, wanted.logged) if is_sure else None
        if known is None:
            return ColumnStatistics(unknown, unknown, has_null=True, has_not_null=True, distinct_count=0)
        low = high = unknown
        if pushable(wanted.exact).order and known.minimum.is_valid and known.maximum.is_valid:
            ends = decode(pa.array([known.minimum, known.maximum], wanted.stored.type), wanted.exact)
            low, high = ends[0], ends[1]
        return ColumnStatistics(low, high, known.has_null, known.has_not_null, distinct_count=0)

    def alter(self, call: Call, change: TableChange) -> None:
        """Apply one change as one version."""
        if isinstance(change, RenameTable):
            if self._rename is None:
                raise UnsupportedOperationError("table", str(self), "RENAME")
            old = self._entry.name
            self._rename(call, self, change.new_name)
            self._engine.transactions.renamed(call, self._entry.schema, old, self._entry.name)
            self._settle()
            return
        with writing():
            self._durability.begin(self._log)
            version = alter(call, self._engine, self, change)
            if version is not None:
                is_certain = not self._engine.host.is_connect
                self.wrote(call, OwnWrite(version, NO_IDS, NO_IDS, is_certain=is_certain))

    def moved(self, name: str, root: str) -> None:
        """Note that the table has another name and folder now."""
        self._entry = replace(self._entry, name=name, root=root)
        self._log = self._engine.log(root)

    def begin_insert(self, call: Call, *, returning: bool) -> Statement:
        """Start an INSERT."""
        done = self._recorded(call)
        if done is not None:
            return repeated(call, done, InsertStatement.operation, returning=returning)
        self._durability.begin(self._log)
        self._view(call)
        return InsertStatement(call, self._engine, self, returning=returning)

    def begin_update(self, call: Call, columns: tuple[str, ...], *, returning: bool) -> Statement:
        """Start an UPDATE; rows without ids get theirs first."""
        done = self._recorded(call)
        if done is not None:
            return repeated(call, done, UpdateStatement.operation, columns, returning=returning)
        self._give_ids(call)
        return UpdateStatement(call, self._engine, self, columns, returning=returning)

    def begin_delete(self, call: Call, *, returning: bool) -> Statement:
        """Start a DELETE; rows without ids get theirs first."""
        done = self._recorded(call)
        if done is not None:
            return repeated(call, done, DeleteStatement.operation, returning=returning)
        self._give_ids(call)
        return DeleteStatement(call, self._engine, self, returning=returning)

    def insert(self, call: Call, rows: pa.RecordBatchReader, *, returning: bool = False) -> DMLResult:
        """Add rows, all or none."""
        statement = self.begin_insert(call, returning=returning)
        return run(statement, rows, self.arrow_schema, returning=returning)

    def update(
        self, call: Call, row_ids: pa.Int64Array, rows: pa.RecordBatchReader, *, returning: bool = False
    ) -> DMLResult:
        """Set the columns of `rows` in the rows named by position."""
        statement = self.begin_update(call, tuple(rows.schema.names), returning=returning)
        return run(statement, with_ids(rows, row_ids), self.arrow_schema, returning=returning)

    def delete(self, call: Call, row_ids: pa.Int64Array, *, returning: bool = False) -> DMLResult:
        """Remove rows, all or none."""
        reader = pa.table({ROWID: row_ids}).to_reader()
        statement = self.begin_delete(call, returning=returning)
        return run(statement, reader, self.arrow_schema, returning=returning)

    def newest_metadata(self) -> Metadata:
        """Return the columns and properties as they are now."""
        return self._log.heading().metadata

    def newest_snapshot(self) -> DeltaSnapshot:
        """Return the table as it is now."""
        return self._log.snapshot()

    def heading(self, version: int) -> TableHeader:
        """Return what a version is, without its files."""
        return self._log.heading(version)

    def is_changed_between(self, start: int, end: int) -> bool:
        """Tell whether rows of a version may have been changed or removed up to a later one."""
        between = range(start + 1, end + 1)
        return len(between) > _MAX_COMMITS_LOOKED_AT or any(map(self._log.removes_rows, between))

    def rows_at(self, call: Call, ids: Ids, version: int) -> pa.Table:
        """Return the rows with these ids as of a version, in no order."""
        return self.rows_of(call, ids, self._log.snapshot(version))

    def rows_of(
        self, call: Call, ids: Ids, snapshot: DeltaSnapshot, columns: tuple[str, ...] | None = None
    ) -> pa.Table:
        """Return the rows of a snapshot with these ids, in no order; of all columns, or of some."""
        name = rowid_name(self._arrow_schema(snapshot))
        assert name is not None
        options = ScanOptions(columns=columns, filter=_among(name, ids))
        reader = self._scan(call.outside_transaction(), snapshot, options)
        # Many ids are looked for by their range: what else is in it is not kept.
        kept = (_with_ids(batch, name, ids) for batch in reader)
        return pa.Table.from_batches((batch for batch in kept if batch.num_rows), reader.schema)

    def locate(
        self, call: Call, ids: Ids, snapshot: DeltaSnapshot, held: Reservation, *, max_bytes: int
    ) -> Located | None:
        """Return the rows of a snapshot with these ids, and where they are; None if Arrow cannot read it."""
        if self._sql_reason(snapshot) is not None:
            return None
        columns = self._columns_of(snapshot)
        wanted = columns if max_bytes else columns[-1:]
        predicate = _among(columns[-1].exact.name, ids)
        batches = self._engine.arrow_lane.locate(
            call.outside_transaction(),
            str(self),
            self.root,
            snapshot,
            columns,
            wanted,
            predicate,
            pa.array(ids),
        )
        arrow_schema = pa.schema([*(column.stored for column in wanted), *PLACE_FIELDS])
        collector = Collector(held, arrow_schema, 1 + len(PLACE_FIELDS), max_bytes)
        rows = collector.collect(self._while_there(snapshot, batches))
        return Located(snapshot, rows, collector.is_whole or len(columns) == 1)

    def files_near(self, ids: Ids, snapshot: DeltaSnapshot) -> list[DataFile]:
        """Return the files of a snapshot in which rows with these ids may be."""
        columns = self._columns_of(snapshot)
        return matching_files(snapshot, columns, _among(columns[-1].exact.name, ids))

    def seen_snapshot(self, call: Call) -> DeltaSnapshot | None:
        """Return what the call sees, None if it always sees the newest version."""
        view = self._view(call)
        return None if view is None else self._seen(call, view)

    def bases(self, call: Call) -> list[Basis]:
        """Return what the rows of the call's statement were read from: that must be as it was then."""
        view = self._view(call)
        found = [] if view is None else [view.basis]
        if call.if_version is not None and view is None:
            newest = self._log.heading()
            owner, _, version = call.if_version.rpartition(":")
            is_known = owner == newest.metadata.table_id and _SNAPSHOT_VERSION.fullmatch(version)
            if not is_known or int(version) > newest.version:
                raise FinalConflictError(str(self), "the rows were read in another table or version")
            found.append(Basis(int(version)))
        return found

    def version_after(self, call: Call, version: int | None) -> str | None:
        """Return the snapshot that a client may take its rows to be of after a commit of its own."""
        if call.if_version is None or version is None:
            return call.if_version
        owner, _, read = call.if_version.rpartition(":")
        between = range(int(read) + 1, version) if read.isdecimal() else None
        if between is None or len(between) > _MAX_COMMITS_LOOKED_AT:
            return call.if_version
        is_untouched = not any(map(self._log.removes_rows, between))
        return f"{owner}:{version}" if is_untouched else call.if_version

    def wrote(self, call: Call, write: OwnWrite | None) -> None:
        """Let what the call has committed last and be seen by its transaction; keep the log short."""
        self._settle()
        heading = self._log.heading()
        own = write or OwnWrite(heading.version, None, is_certain=False)
        self._engine.transactions.wrote(call, self._entry.schema, self._entry.name, heading, own)

    def _settle(self) -> None:
        self.settle()
        self._checkpoints.tend(str(self), self._log)

    def settle(self) -> None:
        """Return when what was committed is on the disk."""
        self._durability.reach(self._log)

    def _stored(
        self,
        call: Call,
        found: DeltaSnapshot,
        columns: Sequence[TableColumn],
        wanted: Sequence[TableColumn],
        options: ScanOptions,
    ) -> Iterator[pa.RecordBatch]:
        reason = self._sql_reason(found)
        part = files_of if reason is None else all_or_none
        files = part(found.files, options.slice)
        if options.filter is None:
            known = metadata_only_rows(
                files, wanted, root=self._entry.root, numbers=missing_ids(found, wanted)
            )
            if known is not None:
                return known
        if reason is None:
            return self._engine.arrow_lane.scan(
                call, str(self), self._entry.root, found, columns, wanted, options
            )
        if not files:
            return iter(())
        if found.protocol.min_reader > NEWEST_READER:
            raise too_new(str(self))  # Spark stumbles over it without a word of that
        _log.debug("scan by Spark SQL", table=str(self), reason=reason)
        query = functools.partial(
            delta_query,
            self._entry.root,
            found.version,
            columns,
            wanted,
            options.filter,
            lacks_ids=bool(missing_ids(found, read_columns(columns, wanted, options.filter))),
        )
        return sql_scan.scan(self._engine.jobs, call, str(self), query, [column.stored for column in wanted])

    def _while_there(
        self, found: DeltaSnapshot, batches: Iterator[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """Yield batches. Raises NotFoundError for the table if its files are gone because it was dropped."""
        try:
            yield from batches
        except VacuumedError:
            if self._log.heading().metadata.table_id != found.metadata.table_id:
                raise NotFoundError("table", str(self)) from None
            raise

    def _sql_reason(self, found: DeltaSnapshot) -> str | None:
        """Return why a version is to be read by Spark SQL, or None if Arrow can."""
        if self._engine.lane is ReadMode.SQL:
            return "told to"
        if any(file.deletion_vector and file.physical_rows is None for file in found.files):
            return "a file with a deletion vector does not say how many rows it has"
        return unreadable_reason(found.protocol, found.metadata)

    def _state(self, call: Call, time_point: TimePoint | None) -> DeltaSnapshot:
        if time_point is None:
            view = self._view(call)
            return self._log.snapshot() if view is None else self._seen(call, view)
        match time_point.unit:
            case TimeUnit.VERSION:
                return self._log.snapshot(time_point.version())
            case TimeUnit.TIMESTAMP:
                moment = time_point.moment()
                return self._log.snapshot(self._log.version_at(int(moment.timestamp() * 1000)))
            case TimeUnit.SNAPSHOT:
                found = self._pinned(call, time_point.value)
                if found is None:
                    raise NotFoundError("snapshot", time_point.value)
                return found

    def _pinned(self, call: Call, pin: str) -> DeltaSnapshot | None:
        """Return the snapshot that `snapshot` has pinned: a version, or what a transaction sees."""
        owner, _, version = pin.partition(":")
        if _SNAPSHOT_VERSION.fullmatch(version):
            found = self._log.snapshot(int(version))
            return found if found.metadata.table_id == owner else None
        private = _PRIVATE_VERSION.fullmatch(version)
        if private is None:
            return None
        place = self._entry.schema, self._entry.name
        view = self._engine.transactions.private_view(private["transaction"], *place)
        if view is None or view.table_id != owner or view.version != int(private["version"]):
            return None
        own = view.own[: int(private["own"])]
        return self._seen(call, replace(view, own=own), private["transaction"])

    def _view(self, call: Call) -> TableView | None:
        return self._engine.transactions.view(call, self._entry.schema, self._entry.name, self._log)

    def _seen(self, call: Call, view: TableView, transaction_id: str | None = None) -> DeltaSnapshot:
        """Return what a transaction sees: that of the call, unless told otherwise."""
        if not view.own:
            return self._log.snapshot(view.version)
        locate = functools.partial(self._locate_ids, call)
        make = functools.partial(transaction_snapshot, str(self), self._log, locate=locate)
        owner = transaction_id or call.transaction_id or ""
        found = self._engine.transactions.snapshot(owner, view, make)
        if found.own_writes and self._sql_reason(found) is not None:
            raise lost(str(self))  # Spark SQL reads whole versions
        return found

    def _locate_ids(self, call: Call, snapshot: DeltaSnapshot, ids: Ids) -> Located | None:
        is_counted = all(file.physical_rows is not None for file in snapshot.files)
        if not is_counted:
            return None
        return self.locate(call, ids, snapshot, Reservation(call.resources.rows), max_bytes=0)

    def _recorded(self, call: Call) -> Outcome | None:
        """Return the outcome of the statement with the call's key, None if it is not done."""
        key = call.idempotency_key
        return None if key is None else recorded(self._log.transactions(), key)

    def _give_ids(self, call: Call) -> None:
        """Let a statement that goes by ids find them, in its own transaction too."""
        self._durability.begin(self._log)
        heading = self._log.heading()
        adopts = self._adopts(heading)
        if not adopts and not has_ids(heading.metadata):
            return
        transactions, place = self._engine.transactions, (self._entry.schema, self._entry.name)
        view, seen = self._view(call), self._state(call, None)
        with transactions.settling(call, *place):
            version = ensure_row_ids(call, self._engine, self, seen, adopts=adopts)
            if version is None or view is None:
                return
            own = {write.version for write in view.own}
            between = (number for number in range(view.version + 1, version + 1) if number not in own)
            if transactions.has_scanned(call, *place) and any(map(self._log.changes_rows, between)):
                raise FinalConflictError(str(self), "others have changed it while its rows were given ids")
            transactions.moved(call, *place, view, self._log.heading(version))

    def _adopts(self, found: TableHeader | DeltaSnapshot) -> bool:
        """Tell whether a table that has no ids gets them when they are needed."""
        if not self._engine.adopts or self._engine.host.is_connect or self._is_read_directly(found):
            return False
        return is_adoptable(found.protocol, found.metadata)

    def _is_read_directly(self, found: TableHeader | DeltaSnapshot) -> bool:
        allowed = found.metadata.configuration.get(direct_files.PROPERTY, str(self._engine.direct_reads))
        return allowed.lower() == "true"

    def _scanned(self, call: Call, time_point: TimePoint | None) -> DeltaSnapshot:
        """Return what a scan reads: with ids, if the statement it is for has just given them."""
        found = self._state(call, time_point)
        if time_point is None or time_point.unit is not TimeUnit.SNAPSHOT:
            return found
        version = self._engine.transactions.scanned_version(
            call, self._entry.schema, self._entry.name, found.version
        )
        if version == found.version or found.own_writes:
            return found
        newer = self._log.snapshot(version)
        # Clients were told the columns when the scan was planned.
        return newer if self._arrow_schema(newer).equals(self._arrow_schema(found)) else found

    def _columns_of(self, found: TableHeader | DeltaSnapshot) -> tuple[TableColumn, ...]:
        return self._known(found)[1]

    def _arrow_schema(self, found: TableHeader | DeltaSnapshot) -> pa.Schema:
        return self._known(found)[2]

    def _known(
        self, found: TableHeader | DeltaSnapshot
    ) -> tuple[Metadata, tuple[TableColumn, ...], pa.Schema]:
        """Return the columns of a version in both forms: the same objects until they change."""
        kept = self._columns
        if kept is None or kept[0] is not found.metadata:
            columns = table_columns(found.metadata, shows_ids=self._adopts(found))
            arrow_schema = pa.schema([column.exact for column in columns], arrow_metadata(found.metadata))
            self._columns = kept = (found.metadata, columns, arrow_schema)
        return kept

    def __str__(self) -> str:
        return f"{self._entry.schema}.{self._entry.name}"


def _limited(batches: Iterator[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    if limit is None or limit <= 0:
        yield from batches
        return
    for batch in batches:
        yield batch.slice(0, limit)
        limit -= batch.num_rows
        if limit <= 0:
            return


def _with_ids(batch: pa.RecordBatch, name: str, ids: Ids) -> pa.RecordBatch:
    hits = np.flatnonzero(np.isin(batch.column(name).to_numpy(), ids))
    return batch if len(hits) == batch.num_rows else take_batch(batch, hits)


def _among(name: str, ids: Ids) -> Expression:
    """Return a predicate for some rows: exact for a few ids, their range for many."""
    if len(ids) <= _MAX_LISTED:
        return In(Column(name), tuple(Constant(value) for value in pa.array(ids)))
    low, high = Constant(pa.scalar(int(ids.min()))), Constant(pa.scalar(int(ids.max())))
    at_least = Comparison(ComparisonOperator.GREATER_OR_EQUAL, Column(name), low)
    return And((at_least, Comparison(ComparisonOperator.LESS_OR_EQUAL, Column(name), high)))
