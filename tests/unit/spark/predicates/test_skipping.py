"""Files that are skipped by their bounds, and those that are not."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from sparkport.catalog.predicates import And, Column, Constant, Expression, In, IsNull, Not, Or, Unknown
from sparkport.spark.predicates import Bounds, may_match, translate

from .trees import NAN, called, compared, stored


def matches(predicate: Expression, kind: pa.DataType, bounds: Bounds) -> bool:
    """Tell whether a file of these bounds of column `x` is read."""
    return may_match(translate(predicate, {"x": stored(kind)}), lambda _: bounds)


def between(least: object, greatest: object, kind: pa.DataType) -> Bounds:
    """Return the bounds of a file of ten values."""
    return Bounds(pa.scalar(least, kind), pa.scalar(greatest, kind), 0, 10)


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        (compared("=", 4), False),
        (compared("=", 5), True),
        (compared("=", 10), False),
        (compared("<>", 5), True),
        (compared("<", 5), False),
        (compared("<", 6), True),
        (compared("<=", 5), True),
        (compared(">", 9), False),
        (compared(">=", 9), True),
        (compared("is distinct from", 7), True),
        (compared("is not distinct from", 4), False),
        (In(Column("x"), (Constant(pa.scalar(4)), Constant(pa.scalar(10)))), False),
        (In(Column("x"), (Constant(pa.scalar(4)), Constant(pa.scalar(6)))), True),
        (Not(In(Column("x"), (Constant(pa.scalar(4)), Constant(pa.scalar(6))))), True),
        (IsNull(Column("x")), False),
        (Not(IsNull(Column("x"))), True),
        (And((Unknown("?"), compared("<", 5))), False),
        (Or((Unknown("?"), compared("<", 5))), True),
        (Not(Or((Unknown("?"), compared(">=", 5)))), False),
        (Constant(pa.scalar(False)), False),
    ],
)
def test_a_file_is_read_only_if_its_range_allows(predicate: Expression, expected: bool) -> None:
    """A file of the values 5 to 9 is read where one of them may match."""
    assert matches(predicate, pa.int32(), between(5, 9, pa.int32())) is expected


def test_a_single_value_excludes_what_differs() -> None:
    """A partition value is minimum and maximum at once."""
    bounds = between("a", "a", pa.string())

    assert not matches(compared("<>", "a"), pa.string(), bounds)
    assert not matches(
        Not(In(Column("x"), (Constant(pa.scalar("a")), Constant(pa.scalar("b"))))), pa.string(), bounds
    )
    assert matches(compared("<>", "b"), pa.string(), bounds)


@pytest.mark.parametrize(
    ("operator", "constant", "expected"),
    [
        ("=", 1.0, True),
        ("=", 3.0, False),
        ("=", NAN, True),
        ("<>", 1.0, True),
        (">", 2.0, True),
        (">=", 3.0, True),
        (">", NAN, False),
        ("<", 1.0, False),
        ("<", NAN, True),
        ("<=", 1.0, True),
    ],
)
def test_nan_may_hide_above_the_maximum(operator: str, constant: float, expected: bool) -> None:
    """Bounds of floats say nothing about NaN, which is greater than all."""
    assert matches(compared(operator, constant), pa.float64(), between(1.0, 1.0, pa.float64())) is expected


def test_zero_has_no_sign() -> None:
    """A file of one zero is read for the other."""
    assert matches(compared("=", 0.0), pa.float64(), between(-0.0, -0.0, pa.float64()))
    assert matches(compared("<=", -0.0), pa.float64(), between(0.0, 0.0, pa.float64()))


@pytest.mark.parametrize("predicate", [compared("=", 1), compared("<>", 1), Not(IsNull(Column("x")))])
def test_a_file_of_nulls_only_has_no_value(predicate: Expression) -> None:
    """Where the nulls are as many as the rows, only a test for NULL reads the file."""
    assert not matches(predicate, pa.int32(), Bounds(null_count=3, row_count=3))
    assert matches(predicate, pa.int32(), Bounds(null_count=3, row_count=4))
    assert matches(IsNull(Column("x")), pa.int32(), Bounds(null_count=3, row_count=3))


def test_unknown_bounds_skip_nothing() -> None:
    """A file without statistics is always read, and so is one with bounds of another type."""
    other = between(5, 9, pa.int64())

    for predicate in (compared("=", 1), compared("<", 1), compared("<>", 1), IsNull(Column("x"))):
        assert matches(predicate, pa.int32(), Bounds())
    assert matches(compared("=", 1), pa.int32(), other)
    assert matches(compared("<", 1.0), pa.float64(), between(NAN, NAN, pa.float64()))


def test_one_known_bound_is_enough() -> None:
    """A missing maximum leaves the minimum in use."""
    bounds = Bounds(minimum=pa.scalar(5, pa.int32()))

    assert not matches(compared("<", 5), pa.int32(), bounds)
    assert matches(compared(">", 5), pa.int32(), bounds)


@pytest.mark.parametrize(
    ("predicate", "kind", "bounds", "expected"),
    [
        (called("prefix", "b"), pa.string(), between("a", "az", pa.string()), False),
        (called("prefix", "b"), pa.string(), between("bz", "c", pa.string()), True),
        (called("suffix", "b"), pa.string(), between("a", "az", pa.string()), True),
        (called("suffix", "b"), pa.string(), Bounds(null_count=1, row_count=1), False),
        (compared(">", "é"), pa.string(), between("a", "z", pa.string()), False),
        (compared("=", b"\x80"), pa.binary(), between(b"\x01", b"\x7f", pa.binary()), False),
        (
            compared("<", Decimal("0.5")),
            pa.decimal128(9, 2),
            between(Decimal("0.5"), Decimal(1), pa.decimal128(9, 2)),
            False,
        ),
        (
            compared(">", 2**61, pa.timestamp("us")),
            pa.timestamp("us"),
            between(0, 2**61, pa.timestamp("us")),
            False,
        ),
        (
            compared(">", 2**61 - 1, pa.timestamp("us")),
            pa.timestamp("us"),
            between(0, 2**61, pa.timestamp("us")),
            True,
        ),
    ],
)
def test_every_type_has_its_order(
    predicate: Expression, kind: pa.DataType, bounds: Bounds, expected: bool
) -> None:
    """Texts and binaries are ordered by bytes, decimals by value, times without end of the calendar."""
    assert matches(predicate, kind, bounds) is expected
