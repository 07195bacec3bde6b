"""Settings of a session in Spark SQL."""

from __future__ import annotations

import pytest

from sparkport.catalog import SqlStatement
from sparkport.errors import InvalidRequestError, NotFoundError, PermissionDeniedError, SparkportError
from sparkport.spark.statements.settings import in_session, is_setting_query, settings_of

QUOTES = ("SPARK.sql.ansi.doublequotedidentifiers", "TRUE")


def statement(sql: str, *settings: tuple[str, str]) -> SqlStatement:
    """Return a statement in a session."""
    return SqlStatement(sql, "lake", settings=settings)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ('SELECT "a""b", `c"` FROM "s"."t"', 'SELECT `a"b`, `c"` FROM `s`.`t`'),
        ('SELECT \'a "text"\' -- "comment"', 'SELECT \'a "text"\' -- "comment"'),
        ('SELECT "a`b" /* "c" */', 'SELECT `a``b` /* "c" */'),
        ('SELECT "never closed', 'SELECT "never closed'),
    ],
)
def test_double_quotes_become_back_ticks(sql: str, expected: str) -> None:
    """For a session that asks for it, and outside of texts and comments only."""
    assert in_session(statement(sql, QUOTES)).text == expected
    assert in_session(statement(sql)).text == sql
    assert in_session(statement(sql, (QUOTES[0], "false"))).text == sql


def test_settings_have_the_spelling_of_spark() -> None:
    """Whatever letter case they come in: as headers they have lower case."""
    made = in_session(statement("SELECT 1", ("spark.sql.shuffle.PARTITIONS", "3"), QUOTES))

    assert made.settings == (("spark.sql.shuffle.partitions", "3"),)


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("spark.sql.shuffle.partitions", "0", InvalidRequestError),
        ("spark.sql.shuffle.partitions", "1e3", InvalidRequestError),
        ("spark.sql.autoBroadcastJoinThreshold", "999999999999", InvalidRequestError),
        ("spark.sql.adaptive.enabled", "maybe", InvalidRequestError),
        ("spark.sql.ansi.enabled", "false", PermissionDeniedError),
        ("spark.sql.caseSensitive", "true", PermissionDeniedError),
        ("spark.sql.runSQLOnFiles", "true", NotFoundError),
        ("spark.sql.warehouse.dir", "/", NotFoundError),
        ("spark.sql.session.timeZone", "UTC", InvalidRequestError),
    ],
)
def test_other_settings_are_refused(name: str, value: str, error: type[SparkportError]) -> None:
    """Those that are not on the list, are always the same, or have no such value."""
    for check in (in_session, settings_of):
        with pytest.raises(error):
            check(statement("SET", (name, value)))


def test_set_tells_the_settings_of_the_session() -> None:
    """Those on the list alone."""
    session = (("spark.sql.shuffle.partitions", "3"),)
    told = dict(settings_of(statement("SET", *session)).to_pylist()[0].items())
    every = {row["key"]: row["value"] for row in settings_of(statement(" set ; ", *session)).to_pylist()}
    one = settings_of(statement("SET `spark.sql.shuffle.partitions`", *session)).to_pylist()

    assert told == {"key": "spark.sql.adaptive.enabled", "value": "<default>"}
    assert every["spark.sql.shuffle.partitions"] == "3"
    assert every["spark.sql.ansi.enabled"] == "true"
    assert every["spark.sql.session.timeZone"] == "UTC"
    assert len(every) == 7
    assert one == [{"key": "spark.sql.shuffle.partitions", "value": "3"}]
    assert not is_setting_query("SET spark.sql.x = 1")
    with pytest.raises(NotFoundError):
        settings_of(statement("SET spark.driver.host"))
