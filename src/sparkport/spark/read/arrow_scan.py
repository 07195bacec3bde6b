"""Scans by Spark tasks that decode Parquet with Arrow: rows never become objects of the JVM."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from sparkport.catalog.call import Call
from sparkport.spark.delta.actions import DataFile
from sparkport.spark.model.columns import TableColumn
from sparkport.spark.read.splits import ScanTask, SplitSizes, file_slice, scan_tasks
from sparkport.spark.read.spool import read_spool_file, spool_folder
from sparkport.spark.session.jobs import Jobs, Work
from sparkport.spark.worker import julian_dates, parquet
from sparkport.spark.worker.parquet import FileSlice, ReadPlan

_REMOTE_AHEAD = 8


@dataclass(frozen=True, slots=True)
class FileScan:
    """Files of a table and how a task reads them.

    `first_numbers` are, by path, the numbers of rows without an id; `file_numbers` are what tells files
    apart in rows that say where they are.
    """

    table: str
    root: str
    files: Sequence[DataFile]
    columns: Sequence[TableColumn]
    plan: ReadPlan
    first_numbers: Mapping[str, int]
    file_numbers: Mapping[str, int]

    @property
    def column_share(self) -> float:
        """How much of each file is read."""
        read = {column.physical.name for column in (*self.plan.columns, *self.plan.filter_columns)}
        return min(1.0, max(1, len(read)) / max(1, len(self.columns)))

    def slices(self, task: ScanTask) -> list[FileSlice]:
        """Return what a task needs to know to read its ranges."""
        return [
            file_slice(
                part,
                self.root,
                self.columns,
                self.first_numbers.get(part.file.path),
                self.file_numbers.get(part.file.path),
            )
            for part in task.ranges
        ]


class ArrowScan:
    """Reads files through Spark tasks.

    On the server's own machine tasks leave their rows in a folder that only its user can
    open, and the server maps them into memory: nothing is copied, and a client that
    stalls holds no task. From elsewhere the rows come as the results of the job.
    """

    def __init__(self, jobs: Jobs, sizes: SplitSizes) -> None:
        self._jobs = jobs
        self._sizes = sizes
        self._is_local = jobs.host.capabilities.local_tasks
        self._ahead = jobs.host.settings.cores + 1 if self._is_local else _REMOTE_AHEAD
        if not self._is_local:
            # Executors elsewhere have pyarrow, but not sparkport.
            for shipped in (parquet, julian_dates):
                cloudpickle.register_pickle_by_value(shipped)  # type: ignore[no-untyped-call]

    def read(self, call: Call, scan: FileScan) -> Iterator[pa.RecordBatch]:
        """Yield the stored values of the columns, in the order of the files."""
        tasks = list(scan_tasks(scan.files, self._sizes, share=scan.column_share, small=self._ahead - 1))
        scan = replace(scan, plan=replace(scan.plan, threads=len(tasks) == 1))
        return self._spooled(call, scan, tasks) if self._is_local else self._collected(call, scan, tasks)

    def _spooled(self, call: Call, scan: FileScan, tasks: Sequence[ScanTask]) -> Iterator[pa.RecordBatch]:
        with spool_folder() as folder:
            jobs: list[Work[Path]] = [
                functools.partial(_spool, scan, task, folder / str(number))
                for number, task in enumerate(tasks)
            ]
            for path in self._jobs.map_ordered(call, scan.table, jobs, ahead=self._ahead):
                yield from read_spool_file(path)

    def _collected(self, call: Call, scan: FileScan, tasks: Sequence[ScanTask]) -> Iterator[pa.RecordBatch]:
        arrow_schema = pa.schema([column.wanted for column in scan.plan.columns])
        jobs: list[Work[pa.ChunkedArray]] = [functools.partial(_collect, scan, task) for task in tasks]
        for blobs in self._jobs.map_ordered(call, scan.table, jobs, ahead=self._ahead):
            for blob in blobs:
                yield pa.ipc.read_record_batch(blob.as_buffer(), arrow_schema)


def _spool(scan: FileScan, task: ScanTask, path: Path, session: SparkSession) -> Path:
    work = functools.partial(parquet.write_spool, scan.plan, scan.slices(task), str(path))
    session.sparkContext.parallelize([0], 1).mapPartitions(work).collect()
    return path


def _collect(scan: FileScan, task: ScanTask, session: SparkSession) -> pa.ChunkedArray:
    work = functools.partial(parquet.blobs, scan.plan, scan.slices(task))
    return session.range(0, 1, 1, 1).mapInArrow(work, "blob binary").toArrow().column(0)
