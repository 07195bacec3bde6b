from __future__ import annotations

import itertools
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from sparkport.catalog import Call, ScanOptions, Schema, Table, VersionedTable
from sparkport.errors import ConflictError, DeadlineExceededError, PreconditionError
from sparkport.spark.engine import Engine
from sparkport.spark.external.catalog import SessionCatalog
from tests.spark.external.clock import Clock


@pytest.fixture
def schema_name(spark: SparkSession, request: pytest.FixtureRequest) -> str:
    """Return an empty database of the test's own."""
    name = f"changes_{request.node.name.removeprefix('test_')[:40]}"
    spark.sql(f"CREATE DATABASE {name}")
    return name


def test_the_version_rises_with_what_a_listing_tells(
    spark: SparkSession, engine: Engine, clock: Clock, schema_name: str
) -> None:
    """It stays while nothing changes, and differs from one server to the next."""
    call = Call()
    catalog = SessionCatalog("spark_catalog", engine, clock=clock)
    versions = []

    def look() -> list[str]:
        clock.now += 60
        versions.append(catalog.catalog_version(call).version)
        return [table.name for table in _schema(catalog, schema_name).tables(call)]

    assert look() == []
    spark.sql(f"CREATE TABLE {schema_name}.t (i INT) USING parquet")
    assert look() == ["t"]
    assert look() == ["t"]
    spark.sql(f"ALTER TABLE {schema_name}.t ADD COLUMN j INT")
    assert look() == ["t"]
    spark.sql(f"CREATE TABLE {schema_name}.d (i INT) USING delta")
    assert look() == ["d", "t"]
    assert look() == ["d", "t"]
    spark.sql(f"INSERT INTO {schema_name}.d VALUES (1)")
    assert look() == ["d", "t"]
    spark.sql(f"DROP TABLE {schema_name}.d")
    assert look() == ["t"]

    assert versions[0] >= 1_000_000_000
    steps = [later - earlier for earlier, later in itertools.pairwise(versions)]
    assert [step > 0 for step in steps] == [True, False, True, True, False, True, True]
    assert SessionCatalog("spark_catalog", engine).catalog_version(call).version > versions[-1]


def test_a_listing_is_kept_for_a_while_and_a_miss_looks_again(
    spark: SparkSession, engine: Engine, clock: Clock, schema_name: str
) -> None:
    """What others make is in the listing a little later, and there at once for whoever asks by name."""
    call = Call()
    catalog = SessionCatalog("spark_catalog", engine, clock=clock)
    schema = _schema(catalog, schema_name)
    spark.sql(f"CREATE TABLE {schema_name}.sudden (i INT) USING parquet")
    spark.sql(f"CREATE DATABASE {schema_name}_too")

    assert list(schema.tables(call)) == []
    assert f"{schema_name}_too" not in [other.name for other in catalog.schemas(call)]
    assert schema.table(call, "sudden") is not None
    assert catalog.schema(call, f"{schema_name}_too") is not None
    assert [table.name for table in schema.tables(call)] == ["sudden"]


def test_a_repaired_view_is_found_by_name(
    spark: SparkSession, engine: Engine, clock: Clock, schema_name: str
) -> None:
    """A failure is not kept for those who ask by name."""
    catalog = SessionCatalog("spark_catalog", engine, clock=clock)
    spark.sql(f"CREATE TABLE {schema_name}.t (i INT) USING parquet")
    spark.sql(f"CREATE VIEW {schema_name}.v AS SELECT i FROM {schema_name}.t")
    spark.sql(f"DROP TABLE {schema_name}.t")
    with pytest.raises(PreconditionError, match=f"table '{schema_name}.v' cannot be read"):
        _schema(catalog, schema_name).table(Call(), "v")
    spark.sql(f"CREATE TABLE {schema_name}.t (i INT) USING parquet")

    assert _table(catalog, schema_name, "v").arrow_schema == pa.schema([("i", pa.int32())])


def test_files_that_others_add_are_read(
    spark: SparkSession, engine: Engine, tmp_path: Path, schema_name: str
) -> None:
    """A scan finds the files that are there when it begins, not those that Spark remembers."""
    catalog = SessionCatalog("spark_catalog", engine)
    pq.write_table(pa.table({"i": pa.array([1], pa.int32())}), tmp_path / "a.parquet")
    spark.sql(f"CREATE TABLE {schema_name}.t (i INT) USING parquet LOCATION '{tmp_path}'")
    table = _table(catalog, schema_name, "t")
    before = table.scan(Call(), ScanOptions()).read_all()
    pq.write_table(pa.table({"i": pa.array([2], pa.int32())}), tmp_path / "b.parquet")
    after = table.scan(Call(), ScanOptions()).read_all()

    assert before["i"].to_pylist() == [1]
    assert sorted(after["i"].to_pylist()) == [1, 2]


def test_columns_that_changed_are_not_read_as_others(
    spark: SparkSession, engine: Engine, clock: Clock, schema_name: str
) -> None:
    """A scan planned with columns that are no more ends with an error, and others go on."""
    catalog = SessionCatalog("spark_catalog", engine, clock=clock)
    spark.sql(f"CREATE VIEW {schema_name}.v AS SELECT 1 AS i, 'x' AS s")
    table = _table(catalog, schema_name, "v")
    spark.sql(f"CREATE OR REPLACE VIEW {schema_name}.v AS SELECT 'one' AS i, 'y' AS s")

    with pytest.raises(ConflictError, match="its columns have changed"):
        table.scan(Call(), ScanOptions()).read_all()
    assert table.scan(Call(), ScanOptions(columns=("s",))).read_all().to_pylist() == [{"s": "y"}]


def test_a_delta_table_that_loses_its_log_is_left_out(
    spark: SparkSession, engine: Engine, clock: Clock, tmp_path: Path, schema_name: str
) -> None:
    """The other tables are still listed, and whoever asks for it learns why it is not."""
    call = Call()
    catalog = SessionCatalog("spark_catalog", engine, clock=clock)
    spark.sql(f"CREATE TABLE {schema_name}.d (i INT) USING delta LOCATION '{tmp_path}/d'")
    spark.sql(f"CREATE TABLE {schema_name}.t (i INT) USING parquet")
    schema = _schema(catalog, schema_name)
    assert [isinstance(table, VersionedTable) for table in schema.tables(call)] == [True, False]
    (tmp_path / "d" / "_delta_log").rename(tmp_path / "taken away")

    assert [table.name for table in schema.tables(call)] == ["t"]
    with pytest.raises(PreconditionError, match=f"table '{schema_name}.d' cannot be read: table"):
        schema.table(call, "d")


def test_a_call_that_is_over_does_not_wait_for_a_listing(engine: Engine) -> None:
    """Whoever waits for the look of another keeps to its own deadline."""
    catalog = SessionCatalog("spark_catalog", engine)
    done = threading.Event()
    looking = threading.Event()

    def look() -> None:
        with catalog.listing._alone(Call()):
            looking.set()
            done.wait(30)

    other = threading.Thread(target=look)
    other.start()
    looking.wait(30)
    try:
        with pytest.raises(DeadlineExceededError):
            catalog.schemas(Call(timeout=0.2))
    finally:
        done.set()
        other.join()

    assert "default" in [schema.name for schema in catalog.schemas(Call())]


def _schema(catalog: SessionCatalog, name: str) -> Schema:
    schema = catalog.schema(Call(), name)
    assert schema is not None
    return schema


def _table(catalog: SessionCatalog, schema: str, name: str) -> Table:
    table = _schema(catalog, schema).table(Call(), name)
    assert table is not None
    return table
