"""The shared session as an engine, and a clock that stands still until told otherwise."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from sparkport.spark.engine import Engine
from sparkport.spark.session.host import SparkHost
from tests.spark.external.clock import Clock


@pytest.fixture(scope="session")
def engine(spark: SparkSession, spark_host: SparkHost) -> Iterator[Engine]:
    """Return an engine on the shared session."""
    del spark
    engine = Engine(spark_host)
    yield engine
    engine.jobs.close()


@pytest.fixture
def clock() -> Clock:
    """Return a clock that stands still."""
    return Clock()
