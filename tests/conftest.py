"""What tests with a running server share, and one Spark for all tests that need it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import sparkport
from sparkport.catalog import Call
from sparkport.memory import MemoryCatalog
from sparkport.spark.session.host import SparkHost
from sparkport.spark.session.settings import SparkSettings
from tests import clusters
from tests.flight_client import Flight

pytest_plugins = ["pytester", "tests.requirements", "tests.shuffle"]

TOKEN = "secret-token"
_WITH_SPARK = (Path(__file__).parent / "spark", Path(__file__).parent / "e2e" / "spark")


def pytest_configure(config: pytest.Config) -> None:
    """Measure the coverage of test workers, not of what they start: sandboxed processes cannot write it."""
    if hasattr(config, "workerinput"):
        os.environ.pop("COVERAGE_PROCESS_CONFIG", None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that start Spark, which `make test-quick` leaves out."""
    for item in items:
        parameters = getattr(item, "callspec", None)
        if (
            any(item.path.is_relative_to(folder) for folder in _WITH_SPARK)
            or "spark_host" in getattr(item, "fixturenames", ())
            or (parameters and parameters.params.get("catalog") == "spark")
        ):
            item.add_marker("spark")


@pytest.fixture
def catalog() -> MemoryCatalog:
    """Return an empty catalog, served as `db1`."""
    return MemoryCatalog()


@pytest.fixture
def server(catalog: MemoryCatalog) -> Iterator[sparkport.Server]:
    """Serve the catalog on a free port."""
    with sparkport.Server(
        {"db1": catalog}, port=0, token=TOKEN, default_catalog="db1", grace_seconds=0.2
    ) as running:
        yield running


@pytest.fixture
def client(server: sparkport.Server) -> Iterator[Flight]:
    """Call the server as DuckDB's Airport extension does."""
    with Flight(server.location, TOKEN) as flight:
        yield flight


@pytest.fixture
def plain(server: sparkport.Server) -> Iterator[Flight]:
    """Call the server as any other Flight client does."""
    with Flight(server.location, TOKEN, airport=False) as flight:
        yield flight


@pytest.fixture(scope="session")
def spark_host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkHost]:
    """Return the host of an embedded session with Delta."""
    warehouse = str(tmp_path_factory.mktemp("warehouse"))
    settings = SparkSettings(
        warehouse, master="local[2]", conf=clusters.FAST_CONF, driver_memory="1g", warm_up=False
    )
    host = SparkHost(settings)
    host.start()
    yield host
    host.stop()


@pytest.fixture(scope="session")
def spark(spark_host: SparkHost) -> SparkSession:
    """Return an embedded session with Delta."""
    return spark_host.session(Call(timeout=clusters.START_SECONDS))
