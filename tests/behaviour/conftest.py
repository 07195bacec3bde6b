"""One suite over every engine: add a factory to CATALOGS, and all of it must hold."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import cast

import pytest

from sparkport.catalog import Call, CreateSchemaOptions, DynamicSchema
from sparkport.memory import MemoryCatalog
from sparkport.spark.catalog import SparkCatalog
from sparkport.spark.engine import Engine
from sparkport.spark.session import SparkHost
from sparkport.spark.settings import SparkSettings
from tests import clusters
from tests.behaviour.engine import FullCatalog

_engines: list[Engine] = []
_numbers = itertools.count(1)


def _memory(factory: pytest.TempPathFactory) -> FullCatalog:
    del factory
    return cast("FullCatalog", MemoryCatalog())


def _spark(factory: pytest.TempPathFactory) -> FullCatalog:
    conf = {"spark.driver.extraJavaOptions": clusters.FAST_START}
    settings = SparkSettings(
        str(factory.mktemp("warehouse")), master="local[2]", conf=conf, driver_memory="1g", warm_up=False
    )
    host = SparkHost(settings)
    host.start()
    engine = Engine(host)
    _engines.append(engine)
    return cast("FullCatalog", SparkCatalog(engine))


CATALOGS: dict[str, Callable[[pytest.TempPathFactory], FullCatalog]] = {"memory": _memory, "spark": _spark}

# What the Spark engine has so far; the list of the rest shrinks as it learns to write.
_READ_BY_SPARK = frozenset(
    {"test_scans", "test_versions", "test_inserts", "test_schemas", "test_statistics", "test_tables"}
)
_NO_DISTINCT = "the log does not count distinct values"
_NO_EMPTY_COMMIT = "a statement without rows makes no version"
_NOT_YET_ON_SPARK: dict[str, str] = {
    "test_empty_insert_is_a_statement": _NO_EMPTY_COMMIT,
    "test_many_small_batches_become_one_statement": _NO_EMPTY_COMMIT,
    "test_statistics_are_exact": _NO_DISTINCT,
    "test_statistics_follow_every_statement": _NO_DISTINCT,
    "test_statistics_of_a_removed_column_are_not_those_of_its_successor": _NO_DISTINCT,
    "test_statistics_are_those_of_the_transaction": "a transaction's moment is that of its first use",
    "test_every_statement_adds_one_version": "the new name of a table is not in its log",
    "test_snapshot_of_another_table_is_not_found": "a replaced table keeps its history",
    "test_version_that_never_was_is_not_found": "the error also tells which versions there are",
}


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip on Spark what needs abilities that it does not have yet."""
    call = getattr(item, "callspec", None)
    if call is None or call.params.get("catalog") != "spark":
        return
    if item.path.stem not in _READ_BY_SPARK:
        pytest.skip(f"{item.path.stem} on Spark: needs more than CREATE, INSERT and reading")
    reason = _NOT_YET_ON_SPARK.get(getattr(item, "originalname", item.name))
    if reason is not None:
        pytest.skip(f"on Spark: {reason}")


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Stop Spark after the last test here: a process has one session, and other tests start their own."""
    if nextitem is None or nextitem.path.parent != item.path.parent:
        while _engines:
            _engines.pop().close()


@pytest.fixture(scope="session", params=CATALOGS)
def catalog(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> FullCatalog:
    """Return a catalog of each engine, shared by all tests."""
    return CATALOGS[request.param](tmp_path_factory)


@pytest.fixture
def schema_name() -> str:
    """Return a name that no other test uses."""
    return f"behaviour_{next(_numbers)}"


@pytest.fixture
def schema(catalog: FullCatalog, schema_name: str) -> DynamicSchema:
    """Return an empty schema of the test's own."""
    made = catalog.create_schema(Call(), schema_name, CreateSchemaOptions())
    assert isinstance(made, DynamicSchema)
    return made
