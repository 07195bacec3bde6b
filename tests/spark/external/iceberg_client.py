"""A process with Iceberg: `iceberg_client.py FOLDER JAR`, answers in JSON."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import structlog

from sparkport.catalog import (
    Call,
    HasTableKind,
    ScanOptions,
    Table,
    TableKind,
    TimePoint,
    TimeUnit,
    VersionedTable,
)
from sparkport.catalog.predicates import Column, Comparison, ComparisonOperator, Constant
from sparkport.errors import SparkportError
from sparkport.spark.engine import Engine
from sparkport.spark.external.catalog import SessionCatalog, catalog_names
from sparkport.spark.session.host import SparkHost
from sparkport.spark.session.settings import SparkSettings

_NAME = "lake"
_CALL = Call(timeout=150)


class Lake:
    """A catalog of Iceberg tables and the statements of somebody else."""

    def __init__(self, host: SparkHost) -> None:
        self.engine = Engine(host)
        self.catalog = SessionCatalog(_NAME, self.engine)
        self._session = host.session(_CALL)

    def sql(self, statement: str) -> list[Any]:
        """Run a statement."""
        return self._session.sql(statement).collect()

    def table(self, schema: str, name: str) -> Table:
        """Return a table."""
        found = self.catalog.schema(_CALL, schema)
        assert found is not None
        table = found.table(_CALL, name)
        assert table is not None
        return table

    def versioned(self, schema: str, name: str) -> VersionedTable:
        """Return a table that has a history."""
        table = self.table(schema, name)
        assert isinstance(table, VersionedTable)
        return table


def rows(table: Table, **options: Any) -> list[dict[str, Any]]:
    """Return rows in the order of their first column."""
    found = table.scan(_CALL, ScanOptions(**options)).read_all()
    return list(found.sort_by(found.schema.names[0]).to_pylist())


def numbers(table: Table, time_point: TimePoint | None = None) -> list[int]:
    """Return the values of column `i`."""
    return [row["i"] for row in rows(table, columns=("i",), time_point=time_point)]


def failure(work: Callable[[], object]) -> str:
    """Return the error of work that fails."""
    try:
        work()
    except SparkportError as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


def listing(lake: Lake) -> dict[str, Any]:
    """Look at what there is."""
    lake.sql("CREATE NAMESPACE lake.a")
    lake.sql("CREATE NAMESPACE lake.a.b")
    lake.sql("CREATE NAMESPACE lake.`x-y`")
    lake.sql("CREATE NAMESPACE lake.`p.q`")
    lake.sql(
        "CREATE TABLE lake.a.b.t (i INT NOT NULL COMMENT 'the i', s STRING) USING iceberg COMMENT 'of t'"
    )
    lake.sql("INSERT INTO lake.a.b.t VALUES (1, 'a'), (2, 'b')")
    lake.sql("CREATE VIEW lake.a.b.`plain view` COMMENT 'of the view' AS SELECT i + 1 AS j FROM lake.a.b.t")
    schema = lake.catalog.schema(_CALL, "a.b")
    assert schema is not None
    columns = lake.versioned("a.b", "t").snapshot(_CALL, None).arrow_schema
    view = lake.table("a.b", "plain view")
    return {
        "schemas": [schema.name for schema in lake.catalog.schemas(_CALL)],
        "tables": [table.name for table in schema.tables(_CALL)],
        "columns": [
            [
                field.name,
                str(field.type),
                field.nullable,
                (field.metadata or {}).get(b"comment", b"").decode(),
            ]
            for field in columns
        ],
        "comments": [lake.table("a.b", "t").comment, view.comment],
        "view rows": rows(view),
        "views": [
            one.name
            for one in schema.tables(_CALL)
            if isinstance(one, HasTableKind) and one.table_kind is TableKind.VIEW
        ],
    }


def history(lake: Lake) -> dict[str, Any]:
    """Read the past."""
    table = lake.versioned("a.b", "t")
    pin = table.snapshot(_CALL, None).time_point
    lake.sql("ALTER TABLE lake.a.b.t CREATE TAG `first one`")
    lake.sql("INSERT INTO lake.a.b.t VALUES (3, 'c')")
    (first,) = lake.sql("SELECT made_current_at FROM lake.a.b.t.history ORDER BY 1 LIMIT 1")
    is_b = Comparison(ComparisonOperator("="), Column("s"), Constant(pa.scalar("b")))
    answers = {
        "pinned": numbers(table, pin),
        "newest": numbers(table),
        "filtered": rows(table, columns=("s",), filter=is_b),
        "by version": numbers(table, TimePoint(TimeUnit.VERSION, pin.value)),
        "by tag": numbers(table, TimePoint(TimeUnit.VERSION, "first one")),
        "by time": numbers(table, TimePoint(TimeUnit.TIMESTAMP, first[0].isoformat())),
    }
    wrong = {
        "too early": TimePoint(TimeUnit.TIMESTAMP, "2000-01-01T00:00:00"),
        "no such version": TimePoint(TimeUnit.VERSION, "12345"),
        "no such tag": TimePoint(TimeUnit.VERSION, "no tag"),
        "no such snapshot": TimePoint(TimeUnit.SNAPSHOT, "12345"),
    }
    for key, point in wrong.items():
        answers[key] = failure(lambda point=point: table.snapshot(_CALL, point))  # type: ignore[misc]
    return answers


def altered(lake: Lake) -> dict[str, Any]:
    """Read after an ALTER, and after the write that follows it."""
    table = lake.versioned("a.b", "t")
    old = table.snapshot(_CALL, None).time_point
    before = lake.catalog.catalog_version(_CALL).version
    lake.sql("ALTER TABLE lake.a.b.t ADD COLUMN n BIGINT")
    newest = table.snapshot(_CALL, None)
    over_two = Comparison(ComparisonOperator(">"), Column("i"), Constant(pa.scalar(2, pa.int32())))
    shown = rows(table, columns=("i", "n"), filter=over_two, time_point=newest.time_point)
    schema = lake.catalog.schema(_CALL, "a.b")
    assert schema is not None
    lake.catalog.listing.relations(_CALL, [(_NAME, "a", "b", "t")], fresh=True)
    after = lake.catalog.catalog_version(_CALL).version
    lake.sql("INSERT INTO lake.a.b.t VALUES (4, 'd', 4)")
    return {
        "altered columns": newest.arrow_schema.names,
        "altered rows": shown,
        "columns of then": table.snapshot(_CALL, old).arrow_schema.names,
        "altered and written": failure(lambda: numbers(table, newest.time_point)),
        "version rises": after > before,
    }


def empty(lake: Lake) -> dict[str, Any]:
    """Read a table before and after its first row."""
    lake.sql("CREATE TABLE lake.`x-y`.`odd tab` (i INT) USING iceberg")
    table = lake.versioned("x-y", "odd tab")
    pin = table.snapshot(_CALL, None).time_point
    lake.sql("INSERT INTO lake.`x-y`.`odd tab` VALUES (9)")
    return {"empty": numbers(table, pin), "no longer empty": numbers(table)}


def main() -> None:
    """Ask everything in one session."""
    folder, jar = sys.argv[1:]
    level = structlog.make_filtering_bound_logger(logging.WARNING)
    structlog.configure(wrapper_class=level, logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    conf = {
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.driver.extraClassPath": jar,
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        f"spark.sql.catalog.{_NAME}": "org.apache.iceberg.spark.SparkCatalog",
        f"spark.sql.catalog.{_NAME}.catalog-impl": "org.apache.iceberg.inmemory.InMemoryCatalog",
    }
    settings = SparkSettings(folder, master="local[2]", conf=conf, driver_memory="1g", warm_up=False)
    assert catalog_names(settings) == (_NAME,)
    host = SparkHost(settings)
    host.start()
    lake = Lake(host)
    answers = listing(lake) | history(lake) | altered(lake) | empty(lake)
    lake.engine.close()
    sys.stdout.write(json.dumps(answers))


if __name__ == "__main__":
    main()
