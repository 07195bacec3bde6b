"""Every function that Spark has is allowed in a query, or refused for a reason."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from sparkport.errors import InvalidRequestError, NotFoundError, PermissionDeniedError, PreconditionError
from sparkport.spark.catalog.catalog import SparkCatalog
from sparkport.spark.query.allowed_functions import (
    FUNCTIONS,
    REFUSED_FUNCTIONS,
    REFUSED_TABLE_FUNCTIONS,
    TABLE_FUNCTIONS,
)
from sparkport.spark.query.plan_classes import VALUES
from tests.spark.functions.calling import columns

_EXAMPLE = re.compile(r"^\s*> (.*?);\s*$", re.MULTILINE | re.DOTALL)
# Spark has these types only where they are switched on.
_SWITCHED_OFF = ("TIME is not supported", "Geospatial feature is disabled")


def _registered(spark: SparkSession, registry: str) -> dict[str, tuple[str, str]]:
    """Return class and examples of every function, by name."""
    state = spark._jsparkSession.sessionState()
    functions = getattr(state, registry)()
    names = functions.listFunction()
    infos = {}
    for number in range(names.size()):
        name = names.apply(number)
        info = functions.lookupFunction(name).get()
        infos[name.unquotedString()] = info.getClassName(), info.getExamples()
    return infos


def _examples(spark: SparkSession) -> Iterator[tuple[str, str]]:
    for name, (_, examples) in _registered(spark, "functionRegistry").items():
        queries = [sql for sql in _EXAMPLE.findall(examples or "") if not sql.upper().startswith("SET ")]
        yield from ((name, sql) for sql in queries[:2])


def test_every_function_of_spark_was_looked_at(spark: SparkSession) -> None:
    """A newer Spark cannot add a function unseen: it fails this test until the function is in a list."""
    assert set(_registered(spark, "functionRegistry")) == FUNCTIONS | set(REFUSED_FUNCTIONS)
    assert set(_registered(spark, "tableFunctionRegistry")) == TABLE_FUNCTIONS | set(REFUSED_TABLE_FUNCTIONS)


def test_no_function_is_in_two_lists() -> None:
    """What is refused is not allowed elsewhere."""
    assert not FUNCTIONS & set(REFUSED_FUNCTIONS)
    assert not TABLE_FUNCTIONS & set(REFUSED_TABLE_FUNCTIONS)


def test_refused_functions_are_refused_by_class_too(spark: SparkSession) -> None:
    """Under whatever name one comes into an analysed plan, its class is not allowed there."""
    classes = _registered(spark, "functionRegistry")

    assert not {classes[name][0] for name in REFUSED_FUNCTIONS} & VALUES


def test_sparks_own_examples_are_analysed(catalog: SparkCatalog, spark: SparkSession) -> None:
    """Each allowed function can be used as Spark's documentation shows it."""
    refused = []
    count = 0
    for name, sql in _examples(spark):
        if name in REFUSED_FUNCTIONS:
            continue
        count += 1
        try:
            columns(catalog, "query", sql)
        except PreconditionError as error:
            if not any(words in str(error) for words in _SWITCHED_OFF):
                refused.append((sql, str(error)))
        except InvalidRequestError as error:
            if "two columns" not in str(error):  # a rule of the server's, not one about functions
                refused.append((sql, str(error)))
        except (PermissionDeniedError, NotFoundError) as error:
            refused.append((sql, str(error)))

    assert refused == []
    assert count > 600


@pytest.mark.parametrize("name", sorted(REFUSED_FUNCTIONS))
@pytest.mark.parametrize("call", ["{name}('a')", "system.builtin.{name}('a')", "BUILTIN.{name}('a', 'b')"])
def test_refused_functions_say_why(catalog: SparkCatalog, name: str, call: str) -> None:
    """The reason is in the message, whatever the arguments are."""
    with pytest.raises(PermissionDeniedError, match=re.escape(REFUSED_FUNCTIONS[name])):
        columns(catalog, "query", f"SELECT {call.format(name=name)} AS v")


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT uper('a') AS v", "Did you mean 'upper'"),
        ("SELECT * FROM read_files('/etc')", "'read_files' not found"),
        ("SELECT * FROM range(1) LATERAL VIEW upper('a') e", "'upper' not found"),
        ("SELECT sum() WITHIN GROUP (ORDER BY no_such(1)) FROM range(1)", "'no_such' not found"),
    ],
)
def test_functions_that_nobody_knows_are_not_found(catalog: SparkCatalog, sql: str, message: str) -> None:
    """A name that is in no list is not looked up anywhere."""
    with pytest.raises(NotFoundError, match=message):
        columns(catalog, "query", sql)


@pytest.mark.parametrize("path", ["spark_catalog.default", "default", "other.functions", "system.session"])
def test_functions_of_catalogs_are_refused(catalog: SparkCatalog, path: str) -> None:
    """A catalog of the user's may have functions under the names of Spark's."""
    with pytest.raises(PermissionDeniedError, match="functions of a catalog"):
        columns(catalog, "query", f"SELECT {path}.abs(1) AS v")
