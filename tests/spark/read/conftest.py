"""Tables to read, in a schema of their own for each test module."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from sparkport.spark.catalog.catalog import SparkCatalog
from sparkport.spark.engine import Engine
from sparkport.spark.read.mode import ReadMode
from sparkport.spark.session.host import SparkHost
from tests.spark.read.lake import Lake

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def catalogs(spark: SparkSession, spark_host: SparkHost) -> Iterator[tuple[SparkCatalog, SparkCatalog]]:
    """Return two catalogs of one warehouse, of which the second reads by Spark SQL alone."""
    del spark
    engines = Engine(spark_host), Engine(spark_host, read_mode=ReadMode.SQL)
    yield SparkCatalog(engines[0]), SparkCatalog(engines[1])
    for engine in engines:
        engine.jobs.close()


@pytest.fixture(scope="module")
def lake(spark: SparkSession, catalogs: tuple[SparkCatalog, SparkCatalog]) -> Lake:
    """Return a schema of the module's own."""
    return Lake(spark, *catalogs, f"reading_{next(_numbers)}")
