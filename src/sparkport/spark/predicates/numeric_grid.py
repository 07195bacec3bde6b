"""Numbers and times as multiples of a step, so that values of several types can be compared."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Literal

import pyarrow as pa
from pyarrow import types

_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_SECONDS_PER_DAY = 86_400
_WIDE = {"hugeint": (-(2**127), 2**127 - 1), "uhugeint": (0, 2**128 - 1)}

Domain = Literal["number", "local time", "universal time", "time of day"]


@dataclass(frozen=True, slots=True)
class Grid:
    """The values of a type: the multiples of a step from the least to the greatest.

    The multiple `infinite` and its negative stand for DuckDB's infinities.
    """

    domain: Domain
    step: Fraction
    least: int
    greatest: int
    infinite: int | None = None

    def covers(self, other: Grid) -> bool:
        """Return whether all values of the other grid are on this one."""
        return (
            self.domain == other.domain
            and (other.step / self.step).denominator == 1
            and self.least * self.step <= other.least * other.step
            and other.greatest * other.step <= self.greatest * self.step
        )


def grid(kind: pa.DataType) -> Grid | None:
    """Return the grid of a type; None if its values are on none, or are not as DuckDB reads them."""
    if types.is_integer(kind):
        if types.is_signed_integer(kind):
            return Grid("number", Fraction(1), -(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1)
        return Grid("number", Fraction(1), 0, 2**kind.bit_width - 1)
    if types.is_decimal(kind):
        greatest = 10**kind.precision - 1
        return Grid("number", Fraction(10) ** -kind.scale, -greatest, greatest)
    if isinstance(kind, pa.OpaqueType) and kind.vendor_name == "DuckDB" and kind.type_name in _WIDE:
        return Grid("number", Fraction(1), *_WIDE[kind.type_name])
    return _time_grid(kind)


def _time_grid(kind: pa.DataType) -> Grid | None:
    if types.is_date32(kind):
        return Grid("local time", Fraction(_SECONDS_PER_DAY), -(2**31), 2**31 - 1, infinite=2**31 - 1)
    if types.is_timestamp(kind):
        step = Fraction(1, _PER_SECOND[kind.unit])
        if kind.tz is None:
            return Grid("local time", step, -(2**63), 2**63 - 1, infinite=2**63 - 1)
        # DuckDB reads other units as microseconds, too large an infinity is an error, and it rounds
        # nanoseconds in its own way.
        if kind.unit != "ns":
            infinite = 2**63 - 1 if kind.unit == "us" else None
            return Grid("universal time", step, -(2**63), 2**63 - 1, infinite)
    if types.is_time(kind) and kind.unit != "ns":
        step = Fraction(1, _PER_SECOND[kind.unit])
        return Grid("time of day", step, 0, _SECONDS_PER_DAY * _PER_SECOND[kind.unit])
    return None


def multiple(scalar: pa.Scalar) -> int:
    """Return how many steps of its type's grid the scalar is."""
    kind = scalar.type
    if types.is_decimal(kind):
        # Arithmetic of decimals would round to the digits of a context.
        sign, digits, _ = scalar.as_py().as_tuple()
        return int("".join(map(str, digits))) * (-1 if sign else 1)
    if isinstance(kind, pa.OpaqueType):
        return int.from_bytes(scalar.value.as_py(), "little", signed=kind.type_name == "hugeint")
    return int(scalar.as_py()) if types.is_integer(kind) else int(scalar.value)


def scalar_at(number: int, kind: pa.DataType) -> pa.Scalar:
    """Return the scalar that is this many steps of its type's grid."""
    if types.is_decimal(kind):
        digits = tuple(map(int, str(abs(number))))
        return pa.scalar(Decimal((int(number < 0), digits, -kind.scale)), kind)
    if isinstance(kind, pa.OpaqueType):
        data = number.to_bytes(16, "little", signed=kind.type_name == "hugeint")
        return pa.ExtensionScalar.from_storage(kind, pa.scalar(data, kind.storage_type))
    return pa.scalar(number, kind)
