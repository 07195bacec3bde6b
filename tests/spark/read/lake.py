"""A warehouse whose tables are read in every way and compared with what Spark says."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import SparkSession

from sparkport.catalog import Call, ScanOptions, TimePoint, TimeUnit
from sparkport.catalog.rowid import without_rowid
from sparkport.spark.catalog.catalog import SparkCatalog
from sparkport.spark.engine import Engine
from sparkport.spark.read.mode import DirectReadMode, ReadMode
from sparkport.spark.read.splits import SplitSizes
from sparkport.spark.session.host import SparkHost
from sparkport.spark.table import DeltaTable
from tests.duckdb_calls import run_calls

Row = dict[str, Any]


class Way(enum.StrEnum):
    """Who decodes the files of a table."""

    SERVER = "server"
    TASKS = "tasks"
    SQL = "sql"
    DIRECT = "direct"

    def engine(self, host: SparkHost, *, adopts: bool = False) -> Engine:
        """Return an engine that reads so."""
        mode = ReadMode.SQL if self is Way.SQL else ReadMode.AUTO
        in_server = SplitSizes().in_server if self in {Way.SERVER, Way.DIRECT} else 0
        direct = DirectReadMode.ALWAYS if self is Way.DIRECT else DirectReadMode.NEVER
        sizes = SplitSizes(in_server=in_server)
        return Engine(host, adopts=adopts, read_mode=mode, sizes=sizes, direct_reads=direct)


@dataclass(frozen=True, slots=True)
class Lake:
    """One schema of the warehouse, with a catalog for each way of reading."""

    spark: SparkSession
    catalogs: Mapping[Way, SparkCatalog]
    schema: str

    @property
    def catalog(self) -> SparkCatalog:
        """The catalog that reads in tasks."""
        return self.catalogs[Way.TASKS]

    @property
    def engine(self) -> Engine:
        """The engine that reads in tasks."""
        return self.catalog.engine

    def with_engine(self, engine: Engine) -> Lake:
        """Return the same with another engine in place of the one that reads in tasks."""
        return replace(self, catalogs={**self.catalogs, Way.TASKS: SparkCatalog(engine)})

    def root(self, name: str) -> Path:
        """Return the folder of a table, which need not be there yet."""
        return Path(self.engine.warehouse.table_folder(self.schema, name))

    def run(self, name: str, *statements: str) -> None:
        """Run statements that call the table `{t}`."""
        for statement in statements:
            self.spark.sql(statement.replace("{t}", f"delta.`{self.root(name)}`"))

    def table(self, name: str, way: Way = Way.TASKS) -> DeltaTable:
        """Return a table as a client finds it."""
        schema = self.catalogs[way].schema(Call(), self.schema)
        assert schema is not None
        table = schema.table(Call(), name)
        assert isinstance(table, DeltaTable)
        return table

    def read(
        self, name: str, options: ScanOptions | None = None, call: Call | None = None, way: Way = Way.TASKS
    ) -> pa.Table:
        """Return what a scan gives."""
        table = self.table(name, way)
        return table.scan(call or Call(), options or ScanOptions()).read_all()

    def rows(self, name: str, options: ScanOptions | None = None) -> list[Row]:
        """Return the rows of a scan, which are the same in every way."""
        tables = {way: self.read(name, options, way=way) for way in Way if way is not Way.DIRECT}
        expected = tables.pop(Way.SQL)
        rows = ordered(expected.to_pylist())
        self._check_direct(name, options or ScanOptions(), expected)
        for way, table in tables.items():
            assert table.schema.equals(expected.schema, check_metadata=True), way
            assert ordered(table.to_pylist()) == rows, way
        return rows

    def _check_direct(self, name: str, options: ScanOptions, expected: pa.Table) -> None:
        """Check that DuckDB and the server read the same together; DuckDB applies filters later."""
        visible = without_rowid(expected.schema).names
        plan = self.table(name, Way.DIRECT).plan_scan(Call(), replace(options, columns=tuple(visible)))
        direct = plan.direct_reads(Call())
        if direct is None or not visible or options.limit or options.slice:
            return
        rows = run_calls(direct.calls, visible)
        if direct.rest is not None:
            rest = direct.rest.read(Call(), None).read_all()
            rows += rest.select(visible).to_pylist()
        wanted = expected.select(visible).to_pylist()
        if options.filter is None:
            assert _as_set(rows) == _as_set(wanted)
            assert len(rows) == len(wanted)
        else:
            assert _as_set(wanted) <= _as_set(rows)

    def spark_rows(self, name: str, version: int | None = None) -> list[Row]:
        """Return the rows of a table as Spark tells them."""
        reader = self.spark.read.format("delta")
        if version is not None:
            reader = reader.option("versionAsOf", version)
        return ordered(reader.load(str(self.root(name))).toArrow().to_pylist())

    def agreed(self, name: str, version: int | None = None) -> list[Row]:
        """Return the rows of a version: every way and Spark tell the same."""
        point = None if version is None else at_version(version)
        found = self.rows(name, ScanOptions(time_point=point))
        assert found == self.spark_rows(name, version)
        assert self.table(name).snapshot(Call(), point).row_count == len(found)
        return found


def ordered(rows: Iterable[Row]) -> list[Row]:
    """Return rows in the order of their ids."""
    return sorted(rows, key=lambda row: cast("int", row.get("id") or 0))


def _as_set(rows: Iterable[Row]) -> set[str]:
    """Return rows in a form in which NaN equals NaN."""
    return {repr(sorted(row.items())) for row in rows}


def at_version(number: int) -> TimePoint:
    """Return the time point of a version."""
    return TimePoint(TimeUnit.VERSION, str(number))


def at_time(text: str) -> TimePoint:
    """Return the time point of a moment."""
    return TimePoint(TimeUnit.TIMESTAMP, text)


def ids(table: pa.Table) -> list[int]:
    """Return the ids in the order of the scan."""
    return cast("list[int]", table.column("id").to_pylist())
