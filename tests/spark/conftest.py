"""One Spark session for all tests that need one, and clusters for those that need another kind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from sparkport.catalog import Call
from sparkport.spark.session import SparkHost
from sparkport.spark.settings import SparkSettings
from tests import clusters


@pytest.fixture(scope="session")
def spark_host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkHost]:
    """Return the host of an embedded session with Delta."""
    warehouse = str(tmp_path_factory.mktemp("warehouse"))
    conf = {"spark.driver.extraJavaOptions": clusters.FAST_START}
    host = SparkHost(
        SparkSettings(warehouse, master="local[2]", conf=conf, driver_memory="1g", warm_up=False)
    )
    host.start()
    yield host
    host.stop()


@pytest.fixture(scope="session")
def spark(spark_host: SparkHost) -> SparkSession:
    """Return an embedded session with Delta."""
    return spark_host.session(Call(timeout=clusters.START_SECONDS))


@pytest.fixture(scope="module")
def standalone_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of a master with two workers, each a process of its own."""
    with clusters.standalone_cluster(tmp_path_factory.mktemp("cluster")) as address:
        yield address


@pytest.fixture(scope="module")
def connect_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of a Spark Connect server with Delta."""
    with clusters.connect_server(tmp_path_factory.mktemp("connect")) as address:
        yield address
