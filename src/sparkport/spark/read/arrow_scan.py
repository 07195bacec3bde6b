"""Scans by Spark tasks that decode Parquet with Arrow: rows never become objects of the JVM."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from sparkport.catalog.call import Call
from sparkport.catalog.predicates import Expression, column_names
from sparkport.catalog.rowid import is_rowid
from sparkport.catalog.scan import ScanOptions
from sparkport.spark.delta.actions import DataFile
from sparkport.spark.delta.mapping import mapping_mode
from sparkport.spark.delta.snapshots import DeltaSnapshot
from sparkport.spark.delta.statistics import StoredColumn, bounds
from sparkport.spark.model.columns import TableColumn
from sparkport.spark.predicates import Bounds, arrow_expression, may_match, translate
from sparkport.spark.read.splits import FILE_NUMBER, Sizes, Unit, files_of, piece, units
from sparkport.spark.read.spool import read_spool_file, spool_folder
from sparkport.spark.row_ids.provisional import first_numbers, lacks_all_ids
from sparkport.spark.session.jobs import Jobs, Work
from sparkport.spark.worker import julian_dates, parquet
from sparkport.spark.worker.parquet import POSITION, ColumnRead, ReadPlan

_BATCH_ROWS = 65_536
_ID_BATCH_ROWS = 1 << 20
_REMOTE_AHEAD = 8
PLACE_FIELDS = (pa.field(FILE_NUMBER, pa.int32()), pa.field(POSITION, pa.int64()))
"""The columns that tell where a row is."""


class ArrowScan:
    """Reads snapshots through Spark tasks.

    On the server's own machine tasks leave their rows in a folder that only its user can
    open, and the server maps them into memory: nothing is copied, and a client that
    stalls holds no task. From elsewhere the rows come as the results of the job.
    """

    def __init__(self, jobs: Jobs, sizes: Sizes) -> None:
        self._jobs = jobs
        self.sizes = sizes
        self._is_local = jobs.host.is_embedded
        self._ahead = jobs.host.settings.cores + 1 if self._is_local else _REMOTE_AHEAD
        if not self._is_local:
            # Executors elsewhere have pyarrow, but not sparkport.
            for shipped in (parquet, julian_dates):
                cloudpickle.register_pickle_by_value(shipped)  # type: ignore[no-untyped-call]

    def scan(
        self,
        call: Call,
        table: str,
        root: str,
        snapshot: DeltaSnapshot,
        columns: Sequence[TableColumn],
        wanted: Sequence[TableColumn],
        options: ScanOptions,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the stored values of the wanted columns, in the order of the files."""
        files = files_of(matching_files(snapshot, columns, options.filter), options.slice)
        tested = [column for column in columns if column.exact.name in _names(options.filter)]
        expression = arrow_expression(options.filter, {c.exact.name: c.target() for c in tested})
        plan = ReadPlan(
            columns=tuple(column.read for column in wanted),
            by_id=mapping_mode(snapshot.metadata) == "id",
            filter=expression,
            filter_columns=() if expression is None else tuple(column.read for column in tested),
            batch_rows=min(options.batch_size or _BATCH_ROWS, _BATCH_ROWS),
            id_name=next((column.physical.name for column in columns if is_rowid(column.exact)), ""),
        )
        missing = missing_ids(snapshot, read_columns(columns, wanted, options.filter))
        return self._read(call, table, root, files, columns, plan, missing, {})

    def locate(
        self,
        call: Call,
        table: str,
        root: str,
        snapshot: DeltaSnapshot,
        columns: Sequence[TableColumn],
        wanted: Sequence[TableColumn],
        predicate: Expression,
        ids: pa.Array,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of these ids, and with each, last, the number of its file and its position there.

        `predicate` is for the choice of files: it may be true for other ids too.
        """
        id_column = columns[-1].read
        plan = ReadPlan(
            columns=(
                *(column.read for column in wanted),
                *(ColumnRead(field, field) for field in PLACE_FIELDS),
            ),
            by_id=mapping_mode(snapshot.metadata) == "id",
            filter=pc.field(id_column.physical.name).isin(ids),
            filter_columns=(id_column,),
            # The ids are hashed anew for each batch; where they are all that is read, batches may be large.
            batch_rows=_BATCH_ROWS if len(wanted) > 1 else _ID_BATCH_ROWS,
        )
        places = {file.path: place for place, file in enumerate(snapshot.files)}
        files = matching_files(snapshot, columns, predicate)
        return self._read(call, table, root, files, columns, plan, {}, places)

    def _read(
        self,
        call: Call,
        table: str,
        root: str,
        files: Sequence[DataFile],
        columns: Sequence[TableColumn],
        plan: ReadPlan,
        missing: Mapping[str, int],
        places: Mapping[str, int],
    ) -> Iterator[pa.RecordBatch]:
        read = {column.physical.name for column in (*plan.columns, *plan.filter_columns)}
        share = min(1.0, max(1, len(read)) / max(1, len(columns)))
        work = [
            functools.partial(_pieces, unit, root, columns, missing, places)
            for unit in units(files, self.sizes, share=share, small=self._ahead - 1)
        ]
        plan = replace(plan, threads=len(work) == 1)
        if self._is_local:
            return self._spooled(call, table, plan, work)
        return self._collected(call, table, plan, work)

    def _spooled(
        self,
        call: Call,
        table: str,
        plan: ReadPlan,
        work: Sequence[functools.partial[list[parquet.FileSlice]]],
    ) -> Iterator[pa.RecordBatch]:
        with spool_folder() as folder:
            jobs: list[Work[Path]] = [
                functools.partial(_spool, plan, pieces, folder / str(number))
                for number, pieces in enumerate(work)
            ]
            for path in self._jobs.map_ordered(call, table, jobs, ahead=self._ahead):
                yield from read_spool_file(path)

    def _collected(
        self,
        call: Call,
        table: str,
        plan: ReadPlan,
        work: Sequence[functools.partial[list[parquet.FileSlice]]],
    ) -> Iterator[pa.RecordBatch]:
        arrow_schema = pa.schema([column.wanted for column in plan.columns])
        jobs: list[Work[pa.ChunkedArray]] = [functools.partial(_collect, plan, pieces) for pieces in work]
        for blobs in self._jobs.map_ordered(call, table, jobs, ahead=self._ahead):
            for blob in blobs:
                yield pa.ipc.read_record_batch(blob.as_buffer(), arrow_schema)


def matching_files(
    snapshot: DeltaSnapshot, columns: Sequence[TableColumn], predicate: Expression | None
) -> list[DataFile]:
    """Return the files in which a row may match."""
    if predicate is None:
        return list(snapshot.files)
    tested = {column.exact.name: column for column in columns if column.exact.name in _names(predicate)}
    condition = translate(predicate, {name: column.target() for name, column in tested.items()})
    logged: dict[tuple[str, ...], StoredColumn] = {}
    for column in tested.values():
        logged |= column.logged_fields
    tested_id = [column for column in tested.values() if is_rowid(column.exact)]
    ids = (tested_id[0].physical.name,) if tested_id else ()
    numbers = missing_ids(snapshot, tested_id)

    def known(file: DataFile, path: tuple[str, ...]) -> Bounds:
        column = logged.get(path)
        if column is None:
            return Bounds()
        found = bounds(file, column)
        if path == ids and file.path in numbers:
            # Rows without an id have a number that is less than any.
            none = lacks_all_ids(file, tested_id[0])
            return Bounds(
                None, pa.scalar(-1, pa.int64()) if none else found.maximum, None, file.physical_rows
            )
        # Writers do not agree on whether a field of a struct that is NULL counts as one.
        nulls = found.null_count if len(path) == 1 else None
        return Bounds(found.minimum, found.maximum, nulls, file.physical_rows)

    return [file for file in snapshot.files if may_match(condition, functools.partial(known, file))]


def read_columns(
    columns: Sequence[TableColumn], wanted: Sequence[TableColumn], predicate: Expression | None
) -> list[TableColumn]:
    """Return the columns that a scan reads: those it gives and those it tests."""
    return [*wanted, *(column for column in columns if column.exact.name in _names(predicate))]


def missing_ids(snapshot: DeltaSnapshot, columns: Iterable[TableColumn]) -> dict[str, int]:
    """Return the first numbers of the files that may have rows without ids, if the row id is read."""
    column = next((column for column in columns if is_rowid(column.exact)), None)
    return {} if column is None else first_numbers(snapshot, column)


def _names(predicate: Expression | None) -> set[str]:
    return set() if predicate is None else column_names(predicate)


def _pieces(
    unit: Unit,
    root: str,
    columns: Sequence[TableColumn],
    missing: Mapping[str, int],
    places: Mapping[str, int],
) -> list[parquet.FileSlice]:
    return [
        piece(part, root, columns, missing.get(part.file.path), places.get(part.file.path))
        for part in unit.parts
    ]


def _spool(
    plan: ReadPlan, pieces: functools.partial[list[parquet.FileSlice]], path: Path, session: SparkSession
) -> Path:
    task = functools.partial(parquet.spooled, plan, pieces(), str(path))
    session.sparkContext.parallelize([0], 1).mapPartitions(task).collect()
    return path


def _collect(
    plan: ReadPlan, pieces: functools.partial[list[parquet.FileSlice]], session: SparkSession
) -> pa.ChunkedArray:
    task = functools.partial(parquet.blobs, plan, pieces())
    return session.range(0, 1, 1, 1).mapInArrow(task, "blob binary").toArrow().column(0)
