"""A warehouse whose tables are read in both ways and compared with what Spark says."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import SparkSession

from sparkport.catalog import Call, ScanOptions, TimePoint, TimeUnit
from sparkport.spark.catalog.catalog import SparkCatalog
from sparkport.spark.engine import Engine
from sparkport.spark.table import DeltaTable

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Lake:
    """One schema of the warehouse: `arrow` reads it with Arrow, `sql` with Spark SQL."""

    spark: SparkSession
    arrow: SparkCatalog
    sql: SparkCatalog
    schema: str

    @property
    def engine(self) -> Engine:
        """The engine that reads with Arrow."""
        return self.arrow.engine

    def root(self, name: str) -> Path:
        """Return the folder of a table, which need not be there yet."""
        return Path(self.engine.warehouse.table_folder(self.schema, name))

    def run(self, name: str, *statements: str) -> None:
        """Run statements that call the table `{t}`."""
        for statement in statements:
            self.spark.sql(statement.replace("{t}", f"delta.`{self.root(name)}`"))

    def table(self, name: str, *, by_sql: bool = False) -> DeltaTable:
        """Return a table as a client finds it."""
        schema = (self.sql if by_sql else self.arrow).schema(Call(), self.schema)
        assert schema is not None
        table = schema.table(Call(), name)
        assert isinstance(table, DeltaTable)
        return table

    def read(
        self, name: str, options: ScanOptions | None = None, call: Call | None = None, *, by_sql: bool = False
    ) -> pa.Table:
        """Return what a scan gives."""
        table = self.table(name, by_sql=by_sql)
        return table.scan(call or Call(), options or ScanOptions()).read_all()

    def rows(self, name: str, options: ScanOptions | None = None) -> list[Row]:
        """Return the rows of a scan, which are the same in both ways."""
        arrow = self.read(name, options)
        sql = self.read(name, options, by_sql=True)
        assert arrow.schema.equals(sql.schema, check_metadata=True)
        found = ordered(arrow.to_pylist())
        assert found == ordered(sql.to_pylist())
        return found

    def spark_rows(self, name: str, version: int | None = None) -> list[Row]:
        """Return the rows of a table as Spark tells them."""
        reader = self.spark.read.format("delta")
        if version is not None:
            reader = reader.option("versionAsOf", version)
        return ordered(reader.load(str(self.root(name))).toArrow().to_pylist())

    def agreed(self, name: str, version: int | None = None) -> list[Row]:
        """Return the rows of a version: both ways and Spark tell the same."""
        point = None if version is None else at_version(version)
        found = self.rows(name, ScanOptions(time_point=point))
        assert found == self.spark_rows(name, version)
        assert self.table(name).snapshot(Call(), point).row_count == len(found)
        return found


def ordered(rows: Iterable[Row]) -> list[Row]:
    """Return rows in the order of their ids."""
    return sorted(rows, key=lambda row: cast("int", row.get("id") or 0))


def at_version(number: int) -> TimePoint:
    """Return the time point of a version."""
    return TimePoint(TimeUnit.VERSION, str(number))


def at_time(text: str) -> TimePoint:
    """Return the time point of a moment."""
    return TimePoint(TimeUnit.TIMESTAMP, text)


def ids(table: pa.Table) -> list[int]:
    """Return the ids in the order of the scan."""
    return cast("list[int]", table.column("id").to_pylist())
