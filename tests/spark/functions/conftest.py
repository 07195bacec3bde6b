"""A catalog with all functions switched on, and a schema of its own for each test module."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from sparkport.catalog import Call, CreateSchemaOptions
from sparkport.spark.catalog.catalog import SparkCatalog
from sparkport.spark.catalog.schema import SparkSchema
from sparkport.spark.engine import Engine
from sparkport.spark.functions.catalog_functions import FunctionFlags
from sparkport.spark.session.host import SparkHost

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def catalog(spark: SparkSession, spark_host: SparkHost) -> Iterator[SparkCatalog]:
    """Return the catalog of the session's warehouse."""
    del spark
    engine = Engine(spark_host)
    yield SparkCatalog(engine, FunctionFlags(query=True))
    engine.stop_work()


@pytest.fixture(scope="module")
def schema(catalog: SparkCatalog) -> SparkSchema:
    """Return an empty schema of the module's own."""
    return catalog.create_schema(Call(), f"functions_{next(_numbers)}", CreateSchemaOptions())
