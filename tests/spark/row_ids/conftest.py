"""A warehouse whose tables of others are adopted, in a schema of its own for each test module."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from sparkport.catalog import Call, CreateSchemaOptions
from sparkport.spark.catalog.catalog import SparkCatalog
from sparkport.spark.engine import Engine
from sparkport.spark.read.mode import ReadMode
from sparkport.spark.session.host import SparkHost
from tests.spark.read.lake import Lake

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def lake(spark: SparkSession, spark_host: SparkHost) -> Iterator[Lake]:
    """Return two servers on one folder, of which the second reads by Spark SQL alone."""
    engines = Engine(spark_host, adopts=True), Engine(spark_host, adopts=True, read_mode=ReadMode.SQL)
    catalogs = SparkCatalog(engines[0]), SparkCatalog(engines[1])
    made = catalogs[0].create_schema(Call(), f"identity_{next(_numbers)}", CreateSchemaOptions())
    yield Lake(spark, *catalogs, made.name)
    for engine in engines:
        engine.jobs.close()
