"""Spark SQL as text; what Spark makes of it is tested with Spark."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from sparkport.catalog.predicates import And, Column, Constant, Expression, In, IsNull, Not, Or, Unknown
from sparkport.spark.predicates import identifier, literal, spark_sql

from .trees import NAN, called, compared, stored


@pytest.mark.parametrize(
    ("predicate", "kind", "expected"),
    [
        (compared("=", 5), pa.int32(), "`x` = CAST('5' AS INT)"),
        (compared("is distinct from", 5), pa.int32(), "(`x` IS NULL OR `x` <> CAST('5' AS INT))"),
        (compared("<", 1000), pa.int8(), "`x` IS NOT NULL"),
        (compared(">", 1000), pa.int8(), "false"),
        (compared(">", 1.5), pa.float64(), "(`x` > CAST('1.5' AS DOUBLE) OR isnan(`x`))"),
        (compared("<", 1.5), pa.float64(), "`x` < CAST('1.5' AS DOUBLE)"),
        (compared("=", NAN), pa.float64(), "isnan(`x`)"),
        (compared("<>", NAN), pa.float64(), "(`x` IS NOT NULL AND NOT isnan(`x`))"),
        (compared("<=", NAN), pa.float64(), "`x` IS NOT NULL"),
        (compared(">", NAN), pa.float64(), "false"),
        (
            In(Column("x"), tuple(Constant(pa.scalar(value)) for value in (1.0, 2.0, NAN))),
            pa.float64(),
            "(isnan(`x`) OR `x` IN (CAST('1.0' AS DOUBLE), CAST('2.0' AS DOUBLE)))",
        ),
        (
            compared("=", 0.0),
            pa.float64(),
            "(`x` >= CAST('-0.0' AS DOUBLE) AND `x` <= CAST('0.0' AS DOUBLE))",
        ),
        (compared(">=", 0.0), pa.float32(), "(`x` >= CAST('-0.0' AS FLOAT) OR isnan(`x`))"),
        (
            In(Column("x"), (Constant(pa.scalar("a")), Constant(pa.scalar("b")))),
            pa.string(),
            "`x` IN ('a', 'b')",
        ),
        (Not(In(Column("x"), (Constant(pa.scalar("a")),))), pa.string(), "`x` <> 'a'"),
        (called("suffix", "a"), pa.string(), "endswith(`x`, 'a')"),
        (Not(called("contains", "a")), pa.string(), "NOT (contains(`x`, 'a'))"),
        (called("prefix", "a"), pa.string(), "(`x` >= 'a' AND `x` < 'b' AND startswith(`x`, 'a'))"),
        (called("~~", "_"), pa.string(), "`x` RLIKE CAST(X'283F73295C412E5C7A' AS STRING)"),
        (Column("x"), pa.bool_(), "`x` = true"),
        (Not(Column("x")), pa.bool_(), "`x` = false"),
        (IsNull(Column("x")), pa.list_(pa.int32()), "`x` IS NULL"),
        (And((Unknown("?"), compared("=", 5))), pa.int32(), "`x` = CAST('5' AS INT)"),
        (Or((Unknown("?"), compared("=", 5))), pa.int32(), None),
        (compared("=", 5, pa.time64("us")), pa.time64("us"), None),
        (None, pa.int32(), None),
    ],
)
def test_a_predicate_is_spark_sql(
    predicate: Expression | None, kind: pa.DataType, expected: str | None
) -> None:
    """Tests are written in Spark's words, and what Spark has no type for is left out."""
    assert spark_sql(predicate, {"x": stored(kind)}) == expected


@pytest.mark.parametrize(
    ("scalar", "expected"),
    [
        (pa.scalar(-128, pa.int8()), "CAST('-128' AS TINYINT)"),
        (pa.scalar(-(2**63)), "CAST('-9223372036854775808' AS BIGINT)"),
        (pa.scalar(Decimal("1E+3"), pa.decimal128(9, 2)), "CAST('1000.00' AS DECIMAL(9, 2))"),
        (pa.scalar(Decimal(1), pa.decimal256(39, 0)), None),
        (pa.scalar(float("-inf")), "CAST('-inf' AS DOUBLE)"),
        (pa.scalar(1, pa.uint8()), None),
        (pa.scalar("plain text"), "'plain text'"),
        (pa.scalar("it's"), "CAST(X'69742773' AS STRING)"),
        (pa.scalar("\\"), "CAST(X'5C' AS STRING)"),
        (pa.scalar("${spark.x}"), "CAST(X'247B737061726B2E787D' AS STRING)"),
        (pa.scalar("é"), "CAST(X'C3A9' AS STRING)"),
        (pa.scalar(b"\x00\xff"), "X'00FF'"),
        (pa.scalar(True), "true"),
        (pa.scalar(-1, pa.date32()), "DATE_FROM_UNIX_DATE(CAST('-1' AS INT))"),
        (pa.scalar(7, pa.timestamp("us", "UTC")), "TIMESTAMP_MICROS(CAST('7' AS BIGINT))"),
        (pa.scalar(7, pa.timestamp("us")), "CAST(TIMESTAMP_MICROS(CAST('7' AS BIGINT)) AS TIMESTAMP_NTZ)"),
        (pa.scalar(7, pa.timestamp("ns")), None),
        (pa.scalar(None, pa.int32()), None),
    ],
)
def test_a_literal_cannot_break_out(scalar: pa.Scalar, expected: str | None) -> None:
    """Every value is a constant expression of its type, and unusual texts are bytes."""
    assert literal(scalar) == expected


def test_names_are_quoted() -> None:
    """Back-ticks are doubled, paths have dots, and what Spark would replace cannot be named."""
    assert identifier("a`b") == "`a``b`"
    assert identifier("a.b", "c") == "`a.b`.`c`"
    assert identifier("a${b}") is None


def test_a_column_that_cannot_be_named_is_left_out() -> None:
    """A test of a column whose name Spark would replace is dropped."""
    columns = {"x": stored(pa.int32(), "${y}")}

    for predicate in (compared("=", 5), IsNull(Column("x")), Or((compared("=", 5), compared("=", 6)))):
        assert spark_sql(predicate, columns) is None
