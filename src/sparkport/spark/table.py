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
from sparkport.catalog.repeats import repeated
from sparkport.catalog.rowid import ROWID, rowid_name
from sparkport.catalog.scan import ScanOptions, Snapshot, TimePoint, TimeUnit
from sparkport.catalog.tables import ColumnStatistics, TableConstraints, TableDescription
from sparkport.catalog.taking import take_rows
from sparkport.errors import NotFoundError, SparkportError, UnsupportedOperationError
from sparkport.spark import direct, row_changes, sql_lane
from sparkport.spark.adoption import give_ids, is_adoptable
from sparkport.spark.alter import alter
from sparkport.spark.arrow_lane import PLACE_FIELDS, matching_files, missing_ids, read_columns
from sparkport.spark.by_id import DeleteStatement, UpdateStatement
from sparkport.spark.checkpointing import Checkpointing
from sparkport.spark.columns import TableColumn, has_ids, table_columns
from sparkport.spark.conflicts import Ids
from sparkport.spark.constraints import shown_constraints
from sparkport.spark.delta.actions import Metadata
from sparkport.spark.delta.durability import Durability
from sparkport.spark.delta.readable import NEWEST_READER, unreadable_reason
from sparkport.spark.delta.snapshots import DeltaSnapshot, Heading
from sparkport.spark.delta.statistics import exact_statistics
from sparkport.spark.engine import Engine
from sparkport.spark.errors import too_new, writing
from sparkport.spark.foreseen import foreseen
from sparkport.spark.gates import Gate
from sparkport.spark.keyed import outcome
from sparkport.spark.lanes import Lane
from sparkport.spark.metadata import arrow_metadata
from sparkport.spark.queries import delta_query
from sparkport.spark.row_changes import Located
from sparkport.spark.statements import InsertStatement
from sparkport.spark.types import decode, decode_batches, pushable
from sparkport.spark.units import all_or_none, endpoint_count, files_of
from sparkport.spark.warehouse import TableEntry

_log = structlog.get_logger("sparkport.spark")

_SNAPSHOT_VERSION = re.compile("[0-9]{1,20}")
_MOST_LISTED = 2048


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
        self.gate = Gate()  # who commits rows is inside together with others, who alters alone
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
        pin = TimePoint(TimeUnit.SNAPSHOT, f"{found.metadata.table_id}:{found.version}")
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
        call.check()
        found = self._scanned(call, options.time_point)
        columns = self._columns_of(found)
        full = self._arrow_schema(found)
        names = full.names if options.columns is None else options.columns
        wanted = [columns[index] for index in dict.fromkeys(find_column(full, name) for name in names)]
        projected = pa.schema([column.exact for column in wanted], full.metadata)
        batches = itertools.chain.from_iterable(
            decode_batches(batch, projected) for batch in self._stored(call, found, columns, wanted, options)
        )
        # The filter may let more pass than the client will, so that there is no telling where to stop.
        limit = options.limit if options.filter is None else None
        return pa.RecordBatchReader.from_batches(projected, _limited(batches, limit))

    def direct_files(self, call: Call, options: ScanOptions) -> list[str] | None:
        """Return the files of the scan if clients may and can read them by themselves."""
        found = self._state(call, options.time_point)
        if not self._is_read_directly(found) or self._sql_reason(found) is not None:
            return None
        columns = self._columns_of(found)
        return direct.plain_files(
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
            self._rename(call, self, change.new_name)
            self.wrote(call)
            return
        with self.gate.alone(call), writing():
            self._durability.begin(self._log)
            alter(call, self._engine, self, change)
            self.wrote(call)

    def moved(self, name: str, root: str) -> None:
        """Note that the table has another name and folder now."""
        self._entry = replace(self._entry, name=name, root=root)
        self._log = self._engine.log(root)

    def begin_insert(self, call: Call, *, returning: bool) -> Statement:
        """Start an INSERT."""
        done = self.outcome(call)
        if done is not None:
            return repeated(done, returning=returning)
        self._durability.begin(self._log)
        return InsertStatement(call, self._engine, self, returning=returning)

    def begin_update(self, call: Call, columns: tuple[str, ...], *, returning: bool) -> Statement:
        """Start an UPDATE; rows without ids get theirs first."""
        done = self.outcome(call)
        if done is not None:
            return repeated(done, returning=returning)
        self._give_ids(call)
        return UpdateStatement(call, self._engine, self, columns, returning=returning)

    def begin_delete(self, call: Call, *, returning: bool) -> Statement:
        """Start a DELETE; rows without ids get theirs first."""
        done = self.outcome(call)
        if done is not None:
            return repeated(done, returning=returning)
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

    def newest_version(self) -> int:
        """Return the number of the newest version."""
        return self._log.newest_version()

    def heading(self, version: int) -> Heading:
        """Return what a version is, without its files."""
        return self._log.heading(version)

    def rows_by_id(self, call: Call, ids: Ids, version: int | None) -> pa.Table:
        """Return the rows with these ids, in no order, as of a version or as they are now."""
        point = None if version is None else TimePoint(TimeUnit.VERSION, str(version))
        call = call.outside_transaction()
        name = rowid_name(self._arrow_schema(self._state(call, point)))
        assert name is not None
        rows = self.scan(call, ScanOptions(filter=_among(name, ids), time_point=point)).read_all()
        hits = np.flatnonzero(np.isin(rows.column(name).to_numpy(), ids))
        return rows if len(hits) == len(rows) else pa.Table.from_batches([take_rows(rows, hits)])

    def present_ids(self, call: Call, ids: Ids) -> Ids:
        """Return those of the ids that are in the table now, sorted."""
        name = rowid_name(self.arrow_schema)
        assert name is not None
        options = ScanOptions(columns=(name,), filter=_among(name, ids))
        found = self.scan(call.outside_transaction(), options).read_all().column(name)
        return np.intersect1d(found.to_numpy(), ids)

    def located(self, call: Call, ids: Ids, *, whole: bool) -> Located | None:
        """Return the rows with these ids as they are now, and where, if they can be changed in place."""
        found = self._log.snapshot()
        root = self._entry.root
        most = row_changes.MOST_UPDATED if whole else row_changes.MOST_DELETED
        if len(ids) > most or "://" in root or self._engine.host.is_connect:
            return None
        if self._sql_reason(found) is not None or not row_changes.is_possible(found.protocol, found.metadata):
            return None
        if any(file.physical_rows is None for file in found.files):
            return None
        columns = self._columns_of(found)
        wanted = columns if whole else columns[-1:]
        predicate = _among(columns[-1].exact.name, ids)
        batches = self._engine.arrow_lane.locate(
            call.outside_transaction(), str(self), root, found, columns, wanted, predicate, pa.array(ids)
        )
        arrow_schema = pa.schema([*(column.stored for column in wanted), *PLACE_FIELDS])
        return Located(found, pa.Table.from_batches(batches, arrow_schema))

    def outcome(self, call: Call) -> int | None:
        """Return how many rows the statement with the call's key has changed, None if it is not done."""
        key = call.idempotency_key
        return None if key is None else outcome(self._log.snapshot(), key)

    def seen_version(self, call: Call) -> int | None:
        """Return the version that the call sees, None if it always sees the newest."""
        return self._engine.transactions.version(call, self._entry.schema, self._entry.name, self._log)

    def wrote(self, call: Call) -> None:
        """Let what the call has committed last and be seen by its transaction; keep the log short."""
        self.settle()
        self._engine.transactions.wrote(call, self._entry.schema, self._entry.name, self._log.heading())
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
            known = foreseen(files, wanted, root=self._entry.root, numbers=missing_ids(found, wanted))
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
        return sql_lane.scan(self._engine.jobs, call, str(self), query, [column.stored for column in wanted])

    def _sql_reason(self, found: DeltaSnapshot) -> str | None:
        """Return why a version is to be read by Spark SQL, or None if Arrow can."""
        if self._engine.lane is Lane.SQL:
            return "told to"
        if any(file.deletion_vector and file.physical_rows is None for file in found.files):
            return "a file with a deletion vector does not say how many rows it has"
        return unreadable_reason(found.protocol, found.metadata)

    def _state(self, call: Call, time_point: TimePoint | None) -> DeltaSnapshot:
        if time_point is None:
            return self._log.snapshot(
                self._engine.transactions.version(call, self._entry.schema, self._entry.name, self._log)
            )
        match time_point.unit:
            case TimeUnit.VERSION:
                return self._log.snapshot(time_point.version())
            case TimeUnit.TIMESTAMP:
                moment = time_point.moment()
                return self._log.snapshot(self._log.version_at(int(moment.timestamp() * 1000)))
            case TimeUnit.SNAPSHOT:
                owner, _, version = time_point.value.rpartition(":")
                if _SNAPSHOT_VERSION.fullmatch(version):
                    found = self._log.snapshot(int(version))
                    if found.metadata.table_id == owner:
                        return found
                raise NotFoundError("snapshot", time_point.value)

    def _give_ids(self, call: Call) -> None:
        """Let a statement that goes by ids find them, in its own transaction too."""
        self._durability.begin(self._log)
        heading = self._log.heading()
        adopts = self._adopts(heading)
        if not adopts and not has_ids(heading.metadata):
            return
        seen = self._state(call, None)
        place = self._entry.schema, self._entry.name
        with self._engine.transactions.settling(call, *place):
            version = give_ids(call, self._engine, self, seen, adopts=adopts)
            if version is not None:
                made = self._log.heading(version)
                self._engine.transactions.wrote(call, *place, made, instead_of=seen.version)

    def _adopts(self, found: Heading | DeltaSnapshot) -> bool:
        """Tell whether a table that has no ids gets them when they are needed."""
        if not self._engine.adopts or self._engine.host.is_connect or self._is_read_directly(found):
            return False
        return is_adoptable(found.protocol, found.metadata)

    def _is_read_directly(self, found: Heading | DeltaSnapshot) -> bool:
        allowed = found.metadata.configuration.get(direct.PROPERTY, str(self._engine.direct_reads))
        return allowed.lower() == "true"

    def _scanned(self, call: Call, time_point: TimePoint | None) -> DeltaSnapshot:
        """Return what a scan reads: with ids, if the statement it is for has just given them."""
        found = self._state(call, time_point)
        if time_point is None or time_point.unit is not TimeUnit.SNAPSHOT:
            return found
        version = self._engine.transactions.scanned_version(
            call, self._entry.schema, self._entry.name, found.version
        )
        if version == found.version:
            return found
        newer = self._log.snapshot(version)
        # Clients were told the columns when the scan was planned.
        return newer if self._arrow_schema(newer).equals(self._arrow_schema(found)) else found

    def _columns_of(self, found: Heading | DeltaSnapshot) -> tuple[TableColumn, ...]:
        return self._known(found)[1]

    def _arrow_schema(self, found: Heading | DeltaSnapshot) -> pa.Schema:
        return self._known(found)[2]

    def _known(self, found: Heading | DeltaSnapshot) -> tuple[Metadata, tuple[TableColumn, ...], pa.Schema]:
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


def _among(name: str, ids: Ids) -> Expression:
    """Return a predicate for some rows: exact for a few ids, their range for many."""
    if len(ids) <= _MOST_LISTED:
        return In(Column(name), tuple(Constant(value) for value in pa.array(ids)))
    low, high = Constant(pa.scalar(int(ids.min()))), Constant(pa.scalar(int(ids.max())))
    at_least = Comparison(ComparisonOperator.GREATER_OR_EQUAL, Column(name), low)
    return And((at_least, Comparison(ComparisonOperator.LESS_OR_EQUAL, Column(name), high)))
