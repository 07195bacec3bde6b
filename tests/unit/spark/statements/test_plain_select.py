"""Which statements are recognised as plain, and what they mean."""

from __future__ import annotations

import datetime as dt

import pytest

from sparkport.catalog.predicates import ComparisonOperator
from sparkport.spark.statements.plain_select import (
    Compared,
    Constants,
    Nulls,
    OneOf,
    PlainSelect,
    parse_plain,
)


def test_a_plain_select_has_columns_conditions_and_a_limit() -> None:
    """Names are cut from their qualifiers, values are bound in the order of the text."""
    sql = (
        "select o.id, `odd name` as x from a.`b` o where o.id >= -5 and day = DATE '2024-02-29'"
        " and n in (?, 2) limit 7;"
    )

    assert parse_plain(sql, [1]) == PlainSelect(
        ("a", "b"),
        (("id", "id"), ("odd name", "x")),
        (
            Compared("id", ComparisonOperator.GREATER_OR_EQUAL, -5),
            Compared("day", ComparisonOperator.EQUAL, dt.date(2024, 2, 29)),
            OneOf("n", (1, 2)),
        ),
        7,
    )


def test_between_and_nulls_are_recognised() -> None:
    """BETWEEN is two comparisons; its AND is not the one between conditions."""
    parsed = parse_plain("SELECT * FROM t WHERE a BETWEEN 1 AND 2 AND b IS NOT NULL AND c IS NULL", [])

    assert isinstance(parsed, PlainSelect)
    assert parsed.columns is None
    assert parsed.conditions == (
        Compared("a", ComparisonOperator.GREATER_OR_EQUAL, 1),
        Compared("a", ComparisonOperator.LESS_OR_EQUAL, 2),
        Nulls("b", is_null=False),
        Nulls("c", is_null=True),
    )


def test_constants_have_sparks_names() -> None:
    """A value without AS is named after itself."""
    parsed = parse_plain("/* ping */ SELECT 1, 'a b' , TRUE AS yes, false", [])

    assert parsed == Constants((("1", 1), ("a b", "a b"), ("yes", True), ("false", False)))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT DISTINCT a FROM t",
        "SELECT a b FROM t",
        "SELECT a + 1 FROM t",
        "SELECT count(*) FROM t",
        "SELECT *, a FROM t",
        "SELECT t.* FROM t",
        "SELECT a.b.c FROM t",
        "SELECT other.a FROM t",
        "SELECT a FROM t, u",
        "SELECT a FROM t JOIN u",
        "SELECT a FROM t JOIN",
        "SELECT a FROM t VERSION AS OF 1",
        "SELECT a FROM t ORDER BY a",
        "SELECT a FROM t WHERE a = 1 OR b = 2",
        "SELECT a FROM t WHERE NOT a = 1",
        "SELECT a FROM t WHERE a = 1.5",
        "SELECT a FROM t WHERE a = 1L",
        "SELECT a FROM t WHERE a = 'it''s'",
        r"SELECT a FROM t WHERE a = 'b\n'",
        "SELECT a FROM t WHERE a = 'x' 'y'",
        'SELECT a FROM t WHERE a = "x"',
        "SELECT a FROM t WHERE a = DATE '2024-02-30'",
        "SELECT a FROM t WHERE a = NULL",
        "SELECT a FROM t WHERE a = b",
        "SELECT a FROM t WHERE a = ? AND b = ?",
        "SELECT a FROM t WHERE",
        "SELECT a FROM t LIMIT 1 OFFSET 2",
        "SELECT a FROM t LIMIT ALL",
        "SELECT a FROM parquet.`/etc/passwd` WHERE a = 1; DROP TABLE t",
        "SELECT 3000000000",
        "SELECT -1",
        "SELECT 1 UNION SELECT 2",
        "SELECT 1 FROM t",
        "SELECT NULL",
        "SELECT",
        "FROM t",
        "WITH t AS (SELECT 1) SELECT * FROM t",
        "",
    ],
)
def test_everything_else_is_left_to_spark(sql: str) -> None:
    """What Spark could understand in another way is not plain."""
    assert parse_plain(sql, [1]) is None
