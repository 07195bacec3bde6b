"""Scans that decode Parquet with Arrow, small ones in the server and others in Spark's tasks."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from sparkport.catalog.call import Call
from sparkport.spark.read.file_scan import FileScan
from sparkport.spark.read.local_scan import LocalScan
from sparkport.spark.read.splits import ScanTask, SplitSizes, scan_tasks
from sparkport.spark.read.spool import read_spool_file, spool_folder
from sparkport.spark.session.jobs import Jobs, Work
from sparkport.spark.worker import footers, julian_dates, parquet

_REMOTE_AHEAD = 8


class ArrowScan:
    """Reads files with Arrow: rows never become objects of the JVM.

    Few of them are read in the server, without Spark, the others through Spark tasks.
    On the server's own machine tasks leave their rows in a folder that only its user can
    open, and the server maps them into memory: nothing is copied, and a client that
    stalls holds no task. From elsewhere the rows come as the results of the job.
    """

    def __init__(self, jobs: Jobs, sizes: SplitSizes) -> None:
        self._jobs = jobs
        self._sizes = sizes
        self._is_local = jobs.host.capabilities.local_tasks
        self._ahead = jobs.host.settings.cores + 1 if self._is_local else _REMOTE_AHEAD
        self._in_server = LocalScan(os.cpu_count() or 1)
        if not self._is_local:
            # Executors elsewhere have pyarrow, but not sparkport.
            for shipped in (parquet, footers, julian_dates):
                cloudpickle.register_pickle_by_value(shipped)  # type: ignore[no-untyped-call]

    def read(self, call: Call, scan: FileScan) -> Iterator[pa.RecordBatch]:
        """Return the stored values of the columns, in the order of the files."""
        batches = self._in_server.begin(call, scan) if scan.in_server else None
        if batches is not None:
            return batches
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
