"""One suite over every engine: add a factory to CATALOGS, and all of it must hold."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import cast

import pytest

from sparkport.catalog import Call, CreateSchemaOptions, DynamicSchema
from sparkport.memory import MemoryCatalog
from sparkport.spark.catalog.catalog import SparkCatalog
from sparkport.spark.engine import Engine
from sparkport.spark.session.host import SparkHost
from tests.behaviour.engine import FullCatalog

_numbers = itertools.count(1)


def _memory(request: pytest.FixtureRequest) -> FullCatalog:
    del request
    return cast("FullCatalog", MemoryCatalog())


def _spark(request: pytest.FixtureRequest) -> FullCatalog:
    host: SparkHost = request.getfixturevalue("spark_host")
    return cast("FullCatalog", SparkCatalog(Engine(host)))


CATALOGS: dict[str, Callable[[pytest.FixtureRequest], FullCatalog]] = {"memory": _memory, "spark": _spark}

# A statement of Spark's takes a good part of a second: what is tried on every type in turn, or at
# random by the hundred, has tests of its own in tests/spark.
_TOO_MANY = "too many statements for Spark"
_NO_DISTINCT = "the log does not count distinct values"
_NO_EMPTY_COMMIT = "a statement without rows makes no version"
_NOT_ON_SPARK: dict[str, str] = {
    "test_types": _TOO_MANY,
    "test_random_statements_agree_with_a_dictionary": _TOO_MANY,
    "test_empty_insert_is_a_statement": _NO_EMPTY_COMMIT,
    "test_many_small_batches_become_one_statement": _NO_EMPTY_COMMIT,
    "test_statistics_are_exact": _NO_DISTINCT,
    "test_statistics_follow_every_statement": _NO_DISTINCT,
    "test_statistics_are_those_of_the_transaction": _NO_DISTINCT,
    "test_statistics_of_a_removed_column_are_not_those_of_its_successor": _NO_DISTINCT,
    "test_snapshot_of_another_table_is_not_found": "a table that was replaced keeps its history",
    "test_version_that_never_was_is_not_found": "the error also tells which versions there are",
}


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip on Spark what it does otherwise, or does not do yet."""
    call = getattr(item, "callspec", None)
    if call is None or call.params.get("catalog") != "spark":
        return
    reason = _NOT_ON_SPARK.get(item.path.stem) or _NOT_ON_SPARK.get(getattr(item, "originalname", item.name))
    if reason is not None:
        pytest.skip(f"on Spark: {reason}")


@pytest.fixture(scope="session", params=CATALOGS)
def catalog(request: pytest.FixtureRequest) -> FullCatalog:
    """Return a catalog of each engine, shared by all tests."""
    return CATALOGS[request.param](request)


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
