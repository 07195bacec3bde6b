"""Tables to read, in a schema of their own for each test module."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

import pytest
from pyspark.sql import SparkSession

from sparkport.spark.catalog.catalog import SparkCatalog
from sparkport.spark.session.host import SparkHost
from tests.spark.read.lake import Lake, Way

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def catalogs(spark: SparkSession, spark_host: SparkHost) -> Iterator[Mapping[Way, SparkCatalog]]:
    """Return catalogs of one warehouse, each of which reads in its own way."""
    del spark
    catalogs = {way: SparkCatalog(way.engine(spark_host)) for way in Way}
    yield catalogs
    for catalog in catalogs.values():
        catalog.engine.jobs.close()


@pytest.fixture(scope="module")
def lake(spark: SparkSession, catalogs: Mapping[Way, SparkCatalog]) -> Lake:
    """Return a schema of the module's own."""
    return Lake(spark, catalogs, f"reading_{next(_numbers)}")
