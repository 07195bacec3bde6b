"""A warehouse whose tables of others are adopted, in a schema of its own for each test module."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from sparkport.catalog import Call, CreateSchemaOptions
from sparkport.spark.catalog.catalog import SparkCatalog
from sparkport.spark.session.host import SparkHost
from tests.spark.read.lake import Lake, Way

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def lake(spark: SparkSession, spark_host: SparkHost) -> Iterator[Lake]:
    """Return servers on one folder, each of which reads in its own way."""
    catalogs = {way: SparkCatalog(way.engine(spark_host, adopts=True)) for way in Way}
    made = catalogs[Way.TASKS].create_schema(Call(), f"identity_{next(_numbers)}", CreateSchemaOptions())
    yield Lake(spark, catalogs, made.name)
    for catalog in catalogs.values():
        catalog.engine.jobs.close()
