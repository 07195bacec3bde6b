"""`optimize` and `vacuum`: Delta's maintenance of a table, with progress reports."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from sparkport.catalog.call import Call
from sparkport.catalog.functions import FunctionSignature
from sparkport.catalog.guards import Privilege
from sparkport.catalog.parameters import Parameter
from sparkport.catalog.scan import ScanOptions
from sparkport.catalog.tables import Catalog
from sparkport.errors import InvalidRequestError
from sparkport.spark.commit.folder_lock import while_writing
from sparkport.spark.ddl.drop import check_no_table_inside
from sparkport.spark.engine import Engine
from sparkport.spark.functions.names import delta_table
from sparkport.spark.session.jobs import Work
from sparkport.spark.sql_names import quoted
from sparkport.spark.table import DeltaTable

_TABLE = Parameter("table", pa.string())
_WEEK = 168.0
_MAX_HOURS = 24.0 * 366 * 100
_REPORT_SECONDS = 1.0
COLUMNS = pa.schema(
    [
        ("state", pa.string()),
        ("reported_at", pa.timestamp("us", "UTC")),
        ("tasks_done", pa.int64()),
        ("tasks", pa.int64()),
        ("files_added", pa.int64()),
        ("files_removed", pa.int64()),
        ("bytes_added", pa.int64()),
        ("bytes_removed", pa.int64()),
    ]
)

Outcome = Mapping[str, int | None]


class _Maintenance:
    """Work on one table. Describing it does nothing; reading its rows runs it, once.

    A row says that it began, a row every second how far it is, and the last what it did.
    """

    def __init__(self, engine: Engine, catalog: Catalog) -> None:
        self._engine = engine
        self._catalog = catalog

    def schema_for_parameters(self, call: Call, parameters: Sequence[Any]) -> pa.Schema:
        """Return the columns, once the parameters are known to make sense."""
        self._work(delta_table(call, self._catalog, parameters[0], Privilege.ALTER), parameters)
        return COLUMNS

    def execute(self, call: Call, parameters: Sequence[Any], options: ScanOptions) -> pa.RecordBatchReader:
        """Run the work and report its progress."""
        del options
        table = delta_table(call, self._catalog, parameters[0], Privilege.ALTER)
        work = self._work(table, parameters)
        return pa.RecordBatchReader.from_batches(COLUMNS, self._run(call, table, work))

    def _run(self, call: Call, table: DeltaTable, work: Work[Outcome]) -> Iterator[pa.RecordBatch]:
        yield _row("waiting", {})
        with contextlib.ExitStack() as inside:
            inside.enter_context(table.versions.lock.shared(call))
            # Of two that touch the same files Delta lets only one win.
            table_id = table.versions.table_id
            inside.enter_context(self._engine.commits(table.root, table_id, str(table)).exclusive(call))
            yield _row("running", {})
            guarded = while_writing(table.root, str(table), work)
            steps = self._engine.jobs.run_with_progress(call, str(table), guarded, seconds=_REPORT_SECONDS)
            inside.callback(steps.close)
            outcome: Outcome = {}
            while True:
                try:
                    progress = next(steps)
                except StopIteration as finished:
                    outcome = finished.value
                    break
                counts = {} if progress is None else {"tasks_done": progress.done, "tasks": progress.total}
                yield _row("running", counts)
        yield _row("finished", outcome)

    def _work(self, table: DeltaTable, parameters: Sequence[Any]) -> Work[Outcome]:
        raise NotImplementedError


class Optimize(_Maintenance):
    """Joins small files and drops deleted rows for good; row ids stay as they are."""

    name = "optimize"
    comment = "Joins the small files of a Delta table"
    signature = FunctionSignature((_TABLE,))

    def _work(self, table: DeltaTable, parameters: Sequence[Any]) -> Work[Outcome]:
        del parameters
        return functools.partial(_optimize, table.root)


class Vacuum(_Maintenance):
    """Removes files that no version of the last hours needs; older versions cannot be read then."""

    name = "vacuum"
    comment = "Removes the files that no version of a Delta table in the last hours needs"

    def __init__(self, engine: Engine, catalog: Catalog, *, by_name: bool) -> None:
        super().__init__(engine, catalog)
        hours = Parameter("hours", pa.float64(), named=True, default=_WEEK)
        self.signature = FunctionSignature((_TABLE, hours if by_name else Parameter("hours", pa.float64())))

    def _work(self, table: DeltaTable, parameters: Sequence[Any]) -> Work[Outcome]:
        hours = parameters[1]
        if hours is None or not 0 <= hours <= _MAX_HOURS:
            raise InvalidRequestError(f"the hours for vacuum must be from 0 to {_MAX_HOURS:g}, not {hours}")
        return functools.partial(_vacuum, table.root, hours)


def _optimize(root: str, session: SparkSession) -> Outcome:
    (row,) = session.sql(f"OPTIMIZE delta.{quoted(root)}").collect()
    metrics = row["metrics"]
    return {
        "files_added": metrics["numFilesAdded"],
        "files_removed": metrics["numFilesRemoved"],
        "bytes_added": metrics["filesAdded"]["totalSize"],
        "bytes_removed": metrics["filesRemoved"]["totalSize"],
    }


def _vacuum(root: str, hours: float, session: SparkSession) -> Outcome:
    # Whatever the log does not name is garbage to VACUUM, the files of a table within this one too.
    check_no_table_inside(root)
    table = f"delta.{quoted(root)}"
    before = session.sql(f"DESCRIBE HISTORY {table} LIMIT 1").collect()[0]["version"]
    session.sql(f"VACUUM {table} RETAIN {hours:.6f} HOURS").collect()
    # The command itself says nothing; what it did is in the log, unless that was switched off.
    metrics: dict[str, str] = {}
    for row in session.sql(f"DESCRIBE HISTORY {table} LIMIT 2").collect():
        if row["version"] > before and row["operation"].startswith("VACUUM"):
            metrics |= row["operationMetrics"] or {}
    return {
        "files_added": 0,
        "files_removed": _number(metrics.get("numDeletedFiles")),
        "bytes_added": 0,
        "bytes_removed": _number(metrics.get("sizeOfDataToDelete")),
    }


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)


def _row(state: str, values: Outcome) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"state": state, "reported_at": datetime.now(UTC), **values}], COLUMNS)
