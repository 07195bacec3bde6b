"""Constants beside, between and beyond the values of a column."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from sparkport.catalog.predicates import ComparisonOperator
from sparkport.spark.predicates.constants import constants_relate, fit

EQ, NE = ComparisonOperator.EQUAL, ComparisonOperator.NOT_EQUAL
LT, LE = ComparisonOperator.LESS, ComparisonOperator.LESS_OR_EQUAL
GT, GE = ComparisonOperator.GREATER, ComparisonOperator.GREATER_OR_EQUAL
NAN, INFINITY = float("nan"), float("inf")
HUGEINT = pa.opaque(pa.binary(16), "hugeint", "DuckDB")
FOREVER = 2**63 - 1


@pytest.mark.parametrize(
    ("operator", "constant", "kind", "expected"),
    [
        (EQ, pa.scalar(5, pa.int64()), pa.int8(), (EQ, pa.scalar(5, pa.int8()))),
        (LT, pa.scalar(Decimal("2.5")), pa.int32(), (LE, pa.scalar(2, pa.int32()))),
        (LE, pa.scalar(Decimal("-2.5")), pa.int32(), (LE, pa.scalar(-3, pa.int32()))),
        (GT, pa.scalar(2.5), pa.int32(), (GE, pa.scalar(3, pa.int32()))),
        (GT, pa.scalar(3, pa.int32()), pa.uint64(), (GT, pa.scalar(3, pa.uint64()))),
        (
            LT,
            pa.scalar(Decimal("1.005")),
            pa.decimal128(9, 2),
            (LE, pa.scalar(Decimal("1.00"), pa.decimal128(9, 2))),
        ),
        (EQ, pa.scalar(7, pa.int16()), pa.decimal128(9, 2), (EQ, pa.scalar(Decimal(7), pa.decimal128(9, 2)))),
        (GE, pa.scalar(0.5), pa.float32(), (GE, pa.scalar(0.5, pa.float32()))),
        (LE, pa.scalar(0.1), pa.float32(), (LE, pa.scalar(0.09999999403953552, pa.float32()))),
        (GT, pa.scalar(1e300), pa.float32(), (GE, pa.scalar(INFINITY, pa.float32()))),
        (EQ, pa.scalar(3, pa.int64()), pa.float64(), (EQ, pa.scalar(3.0))),
        (LT, pa.scalar("a"), pa.large_string(), (LT, pa.scalar("a", pa.large_string()))),
        (EQ, pa.scalar(b"ab"), pa.binary(2), (EQ, pa.scalar(b"ab", pa.binary(2)))),
        (GT, pa.scalar(False), pa.bool_(), (EQ, pa.scalar(True))),
        (LT, pa.scalar(86_400_000_001, pa.timestamp("us")), pa.date32(), (LE, pa.scalar(1, pa.date32()))),
        (EQ, pa.scalar(1, pa.date32()), pa.timestamp("s"), (EQ, pa.scalar(86_400, pa.timestamp("s")))),
        (GT, pa.scalar(1_500, pa.timestamp("ms")), pa.timestamp("s"), (GE, pa.scalar(2, pa.timestamp("s")))),
        (LT, pa.scalar(FOREVER, pa.timestamp("us")), pa.date32(), (LT, pa.scalar(2**31 - 1, pa.date32()))),
        (
            GT,
            pa.scalar(-FOREVER, pa.timestamp("us")),
            pa.timestamp("ns"),
            (GT, pa.scalar(-FOREVER, pa.timestamp("ns"))),
        ),
        (
            GE,
            pa.scalar(1_500, pa.timestamp("us", "UTC")),
            pa.timestamp("ms", "Europe/Berlin"),
            (GE, pa.scalar(2, pa.timestamp("ms", "Europe/Berlin"))),
        ),
        (LE, pa.scalar(999, pa.time64("us")), pa.time32("ms"), (LE, pa.scalar(0, pa.time32("ms")))),
    ],
)
def test_a_constant_takes_the_type_of_the_column(
    operator: ComparisonOperator, constant: pa.Scalar, kind: pa.DataType, expected: tuple[Any, Any]
) -> None:
    """A constant that the column cannot hold gives way to its neighbour on the right side."""
    found = fit(operator, constant, kind)

    assert found == expected
    assert isinstance(found, tuple)
    assert found[1].type == kind


@pytest.mark.parametrize(
    ("operator", "constant", "kind", "expected"),
    [
        (EQ, pa.scalar(300, pa.int32()), pa.int8(), False),
        (NE, pa.scalar(300, pa.int32()), pa.int8(), True),
        (LT, pa.scalar(300, pa.int32()), pa.int8(), True),
        (GE, pa.scalar(300, pa.int32()), pa.int8(), False),
        (GT, pa.scalar(-1, pa.int32()), pa.uint8(), True),
        (LE, pa.scalar(-1, pa.int32()), pa.uint8(), False),
        (EQ, pa.scalar(2.5), pa.int32(), False),
        (NE, pa.scalar(2.5), pa.int32(), True),
        (LT, pa.scalar(NAN), pa.int32(), True),
        (GE, pa.scalar(NAN), pa.int32(), False),
        (GT, pa.scalar(-INFINITY), pa.int64(), True),
        (EQ, pa.scalar(0.1), pa.float32(), False),
        (NE, pa.scalar(b"abc"), pa.binary(2), True),
        (LT, pa.scalar(False), pa.bool_(), False),
        (GE, pa.scalar(False), pa.bool_(), True),
        (LT, pa.scalar(FOREVER, pa.timestamp("us", "UTC")), pa.timestamp("ms", "UTC"), True),
        (EQ, pa.scalar(Decimal(10) ** 38, pa.decimal256(39, 0)), pa.decimal128(38, 0), False),
    ],
)
def test_a_comparison_with_what_no_value_reaches_is_decided(
    operator: ComparisonOperator, constant: pa.Scalar, kind: pa.DataType, expected: bool
) -> None:
    """Beyond the range of the column's type every value but NULL compares alike."""
    assert fit(operator, constant, kind) is expected


@pytest.mark.parametrize(
    ("constant", "kind"),
    [
        (pa.scalar(1e17), pa.int64()),
        (pa.scalar(2.0**53), pa.int64()),
        (pa.scalar(2.0**25, pa.float32()), pa.int32()),
        (pa.scalar(2**53 + 1, pa.int64()), pa.float64()),
        (pa.scalar(0.5), pa.decimal128(9, 2)),
        (pa.scalar(Decimal("0.5")), pa.float64()),
        (pa.scalar(b"abc"), pa.binary(2)),
        (pa.scalar(b"\xff"), pa.string()),
        (pa.scalar(1, pa.timestamp("us")), pa.timestamp("us", "UTC")),
        (pa.scalar(1, pa.timestamp("us", "UTC")), pa.timestamp("ns", "UTC")),
        (pa.scalar(1, pa.time64("us")), pa.time64("ns")),
        (pa.scalar([1]), pa.list_(pa.int64())),
        (pa.scalar(1, pa.duration("us")), pa.duration("us")),
    ],
)
def test_a_comparison_that_duckdb_rounds_is_not_said(constant: pa.Scalar, kind: pa.DataType) -> None:
    """Where DuckDB converts the column in its own way, nothing is known."""
    assert fit(LT, constant, kind) is None


def test_a_hugeint_is_its_sixteen_bytes() -> None:
    """DuckDB's 128-bit integers come as decimals and are compared in the form of the column."""
    found = fit(EQ, pa.scalar(Decimal(-2), pa.decimal256(39, 0)), HUGEINT)

    assert isinstance(found, tuple)
    assert found[1].value.as_py() == (-2).to_bytes(16, "little", signed=True)


@pytest.mark.parametrize(
    ("operator", "left", "right", "expected"),
    [
        (LT, pa.scalar(1, pa.int8()), pa.scalar(1000), True),
        (EQ, pa.scalar(0.0), pa.scalar(-0.0), True),
        (EQ, pa.scalar(NAN), pa.scalar(NAN), True),
        (GT, pa.scalar(NAN), pa.scalar(INFINITY), True),
        (GE, pa.scalar("é"), pa.scalar("z"), True),
        (EQ, pa.scalar(Decimal("1.50")), pa.scalar(Decimal("1.5")), True),
        (EQ, pa.scalar(1), pa.scalar("1"), None),
    ],
)
def test_constants_compare_as_in_duckdb(
    operator: ComparisonOperator, left: pa.Scalar, right: pa.Scalar, expected: bool | None
) -> None:
    """NaN is the greatest and equals itself, zero has no sign, texts are ordered by bytes."""
    assert constants_relate(operator, left, right) is expected
