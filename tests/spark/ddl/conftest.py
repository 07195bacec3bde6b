"""A catalog to change, with a schema of its own for each test."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sparkport.catalog import Call, CreateSchemaOptions
from sparkport.spark.catalog.catalog import SparkCatalog
from sparkport.spark.catalog.schema import SparkSchema
from sparkport.spark.engine import Engine
from sparkport.spark.functions.catalog_functions import FunctionFlags
from sparkport.spark.session.host import SparkHost

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def catalog(spark: SparkSession, spark_host: SparkHost) -> Iterator[SparkCatalog]:
    """Return the catalog of the session's warehouse."""
    del spark
    engine = Engine(spark_host)
    yield SparkCatalog(engine)
    engine.jobs.close()


@pytest.fixture
def schema(catalog: SparkCatalog) -> SparkSchema:
    """Return an empty schema of the test's own."""
    return catalog.create_schema(Call(), f"ddl_{next(_numbers)}", CreateSchemaOptions())


@pytest.fixture
def lake(spark_host: SparkHost, tmp_path: Path) -> Iterator[SparkCatalog]:
    """Return the catalog of an empty warehouse of the test's own, with the functions of tables."""
    (tmp_path / "lake").mkdir()
    engine = Engine(spark_host, warehouse=str(tmp_path / "lake"))
    yield SparkCatalog(engine, FunctionFlags())
    engine.jobs.close()


@pytest.fixture
def root(lake: SparkCatalog) -> Path:
    """Return the folder of that warehouse."""
    return Path(lake.engine.warehouse.root)
