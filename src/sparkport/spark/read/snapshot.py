"""One version of a Delta table, bound to what it takes to read it."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import structlog

from sparkport.arrow.taking import take_batch
from sparkport.catalog.budget import Reservation
from sparkport.catalog.call import Call
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
from sparkport.catalog.rowid import rowid_name
from sparkport.catalog.scan import ScanOptions, ScanSlice
from sparkport.catalog.tables import ColumnStatistics
from sparkport.errors import NotFoundError
from sparkport.spark.delta.log.actions import DataFile, Metadata
from sparkport.spark.delta.log.reader import DeltaLog
from sparkport.spark.delta.log.snapshots import DeltaSnapshot
from sparkport.spark.delta.mapping import mapping_mode
from sparkport.spark.delta.readable import NEWEST_READER
from sparkport.spark.delta.statistics import exact_statistics
from sparkport.spark.errors import MissingDataFileError, VacuumedError, too_new
from sparkport.spark.model.columns import TableColumn
from sparkport.spark.read import sql_scan
from sparkport.spark.read.arrow_scan import ArrowScan
from sparkport.spark.read.collecting import Collector
from sparkport.spark.read.file_scan import FileScan, bytes_read
from sparkport.spark.read.metadata_only import metadata_only_rows
from sparkport.spark.read.mode import ReadMode
from sparkport.spark.read.planning import (
    ScanPlan,
    matching_files,
    missing_ids,
    narrowed,
    plan_scan,
    sql_reason,
)
from sparkport.spark.read.splits import FILE_NUMBER, SplitSizes
from sparkport.spark.read.sql_query import delta_query
from sparkport.spark.session.jobs import Jobs
from sparkport.spark.types import decode, decode_batches, pushable
from sparkport.spark.worker.parquet import POSITION, ColumnRead, ReadPlan

_log = structlog.get_logger("sparkport.spark")

_BATCH_ROWS = 65_536
_ID_BATCH_ROWS = 1 << 20
_MAX_LISTED_IDS = 2048
_PLACE_FIELDS = (pa.field(FILE_NUMBER, pa.int32()), pa.field(POSITION, pa.int64()))

Ids = npt.NDArray[np.int64]


class Reader:
    """What reads the snapshots of all tables of an engine."""

    def __init__(self, jobs: Jobs, sizes: SplitSizes, mode: ReadMode) -> None:
        self.jobs = jobs
        self.sizes = sizes
        self.mode = mode
        self.arrow_scan = ArrowScan(jobs, sizes)


@dataclass(frozen=True, slots=True)
class Located:
    """Rows of a snapshot, as they are stored, with the file and the position of each as the last columns.

    The rows have all columns, or just their ids.
    """

    state: DeltaSnapshot
    rows: pa.Table
    is_whole: bool

    def files(self) -> Iterator[tuple[DataFile, Ids]]:
        """Yield each file that has some of the rows, and the positions of these in it."""
        numbers = self.rows.column(FILE_NUMBER).to_numpy()
        positions = self.rows.column(POSITION).to_numpy()
        for number in np.unique(numbers):
            yield self.state.files[number], np.sort(positions[numbers == number])

    @property
    def touched(self) -> Iterator[DataFile]:
        """Yield each file that has some of the rows."""
        return (self.state.files[number] for number in np.unique(self.rows.column(FILE_NUMBER).to_numpy()))


@dataclass(frozen=True, slots=True)
class TableSnapshot:
    """One state of a table: everything about it is read here, and from this state alone.

    `columns` and `arrow_schema` have the row id last if clients are shown one.
    """

    table: str
    log: DeltaLog
    state: DeltaSnapshot
    columns: tuple[TableColumn, ...]
    arrow_schema: pa.Schema
    reader: Reader

    @property
    def version(self) -> int:
        """The version of the table's log."""
        return self.state.version

    @property
    def metadata(self) -> Metadata:
        """The columns and properties as the log has them."""
        return self.state.metadata

    @property
    def sql_reason(self) -> str | None:
        """Why Spark SQL has to read it, None if Arrow can."""
        return sql_reason(self.state, self.reader.mode)

    def plan(self, options: ScanOptions) -> ScanPlan:
        """Plan a scan. Raises NotFoundError for an unknown column."""
        return plan_scan(
            self.state, self.columns, self.arrow_schema, options, self.reader.sizes, self.reader.mode
        )

    def narrowed(self, plan: ScanPlan, files: Sequence[DataFile]) -> ScanPlan:
        """Return the plan of a scan of some of its files."""
        return narrowed(plan, files, self.columns, self.reader.sizes)

    def read(self, call: Call, plan: ScanPlan, part: ScanSlice | None = None) -> pa.RecordBatchReader:
        """Return the rows of a planned scan, or of one slice of it."""
        call.check()
        stored = self._while_there(self._stored(call, plan, part))
        batches = itertools.chain.from_iterable(decode_batches(batch, plan.arrow_schema) for batch in stored)
        # The filter may let more pass than the client will, so that there is no telling where to stop.
        limit = plan.options.limit if plan.options.filter is None else None
        return pa.RecordBatchReader.from_batches(plan.arrow_schema, _limited(batches, limit))

    def scan(self, call: Call, options: ScanOptions) -> pa.RecordBatchReader:
        """Plan and read at once."""
        return self.read(call, self.plan(options), options.slice)

    def rows_by_id(self, call: Call, ids: Ids, columns: tuple[str, ...] | None = None) -> pa.Table:
        """Return the rows with these ids, in no order; of all columns, or of some with the row id."""
        name = rowid_name(self.arrow_schema)
        assert name is not None
        options = ScanOptions(columns=columns, filter=_among(name, ids))
        reader = self.scan(call.outside_transaction(), options)
        # Many ids are looked for by their range: what else is in it is not kept.
        kept = (_with_ids(batch, name, ids) for batch in reader)
        return pa.Table.from_batches((batch for batch in kept if batch.num_rows), reader.schema)

    def locate(self, call: Call, ids: Ids, held: Reservation, *, max_bytes: int) -> Located | None:
        """Return the rows with these ids, and where they are.

        They are whole up to so many bytes, else only their ids; 0 is not to read more. Memory for them is
        held in `held`. None if only Spark SQL can read the snapshot, which does not tell where rows are.
        Raises LimitExceededError when no memory is left.
        """
        if self.sql_reason is not None:
            return None
        columns = self.columns if max_bytes else self.columns[-1:]
        id_column = self.columns[-1].read
        plan = ReadPlan(
            columns=(
                *(column.read for column in columns),
                *(ColumnRead(field, field) for field in _PLACE_FIELDS),
            ),
            by_id=mapping_mode(self.metadata) == "id",
            filter=pc.field(id_column.physical.name).isin(pa.array(ids)),
            filter_columns=(id_column,),
            # The ids are hashed anew for each batch; where they are all that is read, batches may be large.
            batch_rows=_BATCH_ROWS if len(columns) > 1 else _ID_BATCH_ROWS,
        )
        numbers = {file.path: number for number, file in enumerate(self.state.files)}
        files = self.files_by_id(ids)
        in_server = bytes_read(plan, self.columns, files) <= self.reader.sizes.in_server
        scan = FileScan(self.table, self.log.root, files, self.columns, plan, {}, numbers, in_server)
        batches = self.reader.arrow_scan.read(call.outside_transaction(), scan)
        arrow_schema = pa.schema([*(column.stored for column in columns), *_PLACE_FIELDS])
        collector = Collector(held, arrow_schema, 1 + len(_PLACE_FIELDS), max_bytes)
        rows = collector.collect(self._while_there(batches))
        return Located(self.state, rows, collector.is_whole or len(self.columns) == 1)

    def stored_rows(self, call: Call, files: Sequence[DataFile]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some files of the snapshot as they are stored; an id that is missing stays so."""
        columns = [column for column in self.columns if not column.is_absent]
        plan = ReadPlan(
            columns=tuple(column.read for column in columns),
            by_id=mapping_mode(self.metadata) == "id",
            batch_rows=_BATCH_ROWS,
        )
        in_server = bytes_read(plan, self.columns, files) <= self.reader.sizes.in_server
        scan = FileScan(self.table, self.log.root, files, self.columns, plan, {}, {}, in_server)
        names = [column.logical for column in columns]
        for batch in self._while_there(self.reader.arrow_scan.read(call.outside_transaction(), scan)):
            yield batch.rename_columns(names)

    def files_by_id(self, ids: Ids) -> list[DataFile]:
        """Return the files in which rows with these ids may be."""
        return matching_files(self.state, self.columns, _among(self.columns[-1].exact.name, ids))

    def column_statistics(self, name: str) -> ColumnStatistics:
        """Return what the log is sure of."""
        column = self.columns[find_column(self.arrow_schema, name)]
        unknown = pa.scalar(None, column.exact.type)
        # Of the row id what is stored is not all that clients see.
        is_sure = column.is_as_stored and not missing_ids(self.state, [column])
        exact = exact_statistics(self.state, column.logged) if is_sure else None
        if exact is None:
            return ColumnStatistics(unknown, unknown, has_null=True, has_not_null=True, distinct_count=0)
        low = high = unknown
        if pushable(column.exact).order and exact.minimum.is_valid and exact.maximum.is_valid:
            ends = decode(pa.array([exact.minimum, exact.maximum], column.stored.type), column.exact)
            low, high = ends[0], ends[1]
        return ColumnStatistics(low, high, exact.has_null, exact.has_not_null, distinct_count=0)

    def _stored(self, call: Call, plan: ScanPlan, part: ScanSlice | None) -> Iterator[pa.RecordBatch]:
        """Yield the stored values of the columns of a plan."""
        files = plan.slice_files(part)
        root = self.log.root
        if plan.options.filter is None:
            rows = metadata_only_rows(files, plan.columns, root=root, numbers=plan.first_numbers)
            if rows is not None:
                return rows
        if plan.sql_reason is None:
            numbers = plan.first_numbers
            scan = FileScan(self.table, root, files, self.columns, plan.read, numbers, {}, plan.in_server)
            return self.reader.arrow_scan.read(call, scan)
        if not files:
            return iter(())
        if self.state.protocol.min_reader > NEWEST_READER:
            raise too_new(self.table)  # Spark stumbles over it without a word of that
        _log.debug("scan by Spark SQL", table=self.table, reason=plan.sql_reason)
        query = functools.partial(
            delta_query,
            root,
            self.version,
            self.columns,
            plan.columns,
            plan.options.filter,
            lacks_ids=bool(plan.first_numbers),
        )
        fields = [column.stored for column in plan.columns]
        return sql_scan.scan(self.reader.jobs, call, self.table, query, fields)

    def _while_there(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield batches.

        A missing file is a NotFoundError where the log explains it: the table was dropped, or the file was
        removed by a later version.
        """
        try:
            yield from batches
        except MissingDataFileError as error:
            newest = self.log.snapshot()
            if newest.metadata.table_id != self.metadata.table_id:
                raise NotFoundError("table", self.table) from None
            if self.state.has_files_removed_by(newest):
                raise VacuumedError(self.table) from error
            raise


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
    if len(ids) <= _MAX_LISTED_IDS:
        return In(Column(name), tuple(Constant(value) for value in pa.array(ids)))
    low, high = Constant(pa.scalar(int(ids.min()))), Constant(pa.scalar(int(ids.max())))
    at_least = Comparison(ComparisonOperator.GREATER_OR_EQUAL, Column(name), low)
    return And((at_least, Comparison(ComparisonOperator.LESS_OR_EQUAL, Column(name), high)))
