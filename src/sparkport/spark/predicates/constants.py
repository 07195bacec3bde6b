"""Constants of a comparison, brought to the type of the column they are compared with.

A column holds only some values: whole numbers up to a size, decimals of a scale,
midnights. A constant beside or between them changes the comparison: `i < 2.5` is
`i <= 2`, `i = 2.5` is never true and a TINYINT is always less than 1000.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
from pyarrow import types

from sparkport.catalog.predicates import ComparisonOperator
from sparkport.spark.predicates.numeric_grid import Grid, grid, multiple, scalar_at
from sparkport.spark.predicates.ordering import in_relation, sort_key

Fitted = tuple[ComparisonOperator, pa.Scalar] | bool
"""A comparison with a value of the column's type, or its outcome for every value but NULL."""

_BELOW = {ComparisonOperator.LESS, ComparisonOperator.LESS_OR_EQUAL, ComparisonOperator.NOT_EQUAL}
_ABOVE = {ComparisonOperator.GREATER, ComparisonOperator.GREATER_OR_EQUAL, ComparisonOperator.NOT_EQUAL}


def fit(operator: ComparisonOperator, constant: pa.Scalar, kind: pa.DataType) -> Fitted | None:
    """Return what `value operator constant` means for the values of a type; None if not known.

    The constant is not NULL and the operator none of those that treat NULL as a value.
    """
    if is_text(kind) and is_text(constant.type):
        return operator, _wrap(constant.as_py(), kind)
    if is_binary(kind) and is_binary(constant.type):
        return _fit_binary(operator, constant.as_py(), kind)
    if is_boolean(kind) and types.is_boolean(constant.type):
        return _fit_boolean(operator, constant.as_py(), kind)
    if types.is_float32(kind) or types.is_float64(kind):
        return _fit_float(operator, constant, kind)
    if (own := grid(kind)) is not None:
        return _fit_on_grid(operator, constant, kind, own)
    if isinstance(kind, pa.BaseExtensionType) and constant.type == kind:
        return operator, constant
    return None


def constants_relate(operator: ComparisonOperator, left: pa.Scalar, right: pa.Scalar) -> bool | None:
    """Return whether two constants are in a relation; None if not known."""
    match fit(operator, right, left.type):
        case (changed, scalar):
            keys = sort_key(left), sort_key(scalar)
            return None if None in keys else in_relation(changed, *keys)
        case outcome:
            return outcome


def is_text(kind: pa.DataType) -> bool:
    """Return whether DuckDB compares the values as VARCHAR."""
    return bool(
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_string_view(kind)
        or isinstance(kind, pa.JsonType)
    )


def is_binary(kind: pa.DataType) -> bool:
    """Return whether DuckDB compares the values as BLOB."""
    return bool(
        types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_binary_view(kind)
        or types.is_fixed_size_binary(kind)
    )


def is_boolean(kind: pa.DataType) -> bool:
    """Return whether DuckDB compares the values as BOOLEAN."""
    return bool(types.is_boolean(kind) or isinstance(kind, pa.Bool8Type))


def _wrap(value: object, kind: pa.DataType) -> pa.Scalar:
    if isinstance(kind, pa.BaseExtensionType):
        stored = int(value) if isinstance(value, bool) else value
        return pa.ExtensionScalar.from_storage(kind, pa.scalar(stored, kind.storage_type))
    return pa.scalar(value, kind)


def _fit_binary(operator: ComparisonOperator, value: bytes, kind: pa.DataType) -> Fitted | None:
    if not types.is_fixed_size_binary(kind) or len(value) == kind.byte_width:
        return operator, pa.scalar(value, kind)
    if operator in {ComparisonOperator.EQUAL, ComparisonOperator.NOT_EQUAL}:
        return operator is ComparisonOperator.NOT_EQUAL
    return None


def _fit_boolean(operator: ComparisonOperator, value: bool, kind: pa.DataType) -> Fitted:
    matching = [candidate for candidate in (False, True) if in_relation(operator, candidate, value)]
    if len(matching) == 1:
        return ComparisonOperator.EQUAL, _wrap(matching[0], kind)
    return bool(matching)


def _fit_float(operator: ComparisonOperator, constant: pa.Scalar, kind: pa.DataType) -> Fitted | None:
    if types.is_integer(constant.type) and abs(constant.as_py()) <= _exact_integers(kind):
        return operator, pa.scalar(float(constant.as_py()), kind)
    if not (types.is_float32(constant.type) or types.is_float64(constant.type)):
        return None
    wanted = float(constant.as_py())
    nearest = constant.cast(kind, safe=False)
    if math.isnan(wanted) or float(nearest.as_py()) == wanted:
        return operator, nearest
    # Only a FLOAT column has values on both sides of a DOUBLE constant.
    with np.errstate(over="ignore"):
        value = np.float32(nearest.as_py())
        below = value if float(value) < wanted else np.nextafter(value, np.float32("-inf"))
        above = np.nextafter(below, np.float32("inf"))
    return _between(operator, pa.scalar(below, kind), pa.scalar(above, kind))


def _fit_on_grid(
    operator: ComparisonOperator, constant: pa.Scalar, kind: pa.DataType, own: Grid
) -> Fitted | None:
    if types.is_floating(constant.type):
        position = _float_position(constant, kind, own)
    elif (theirs := grid(constant.type)) is None or theirs.domain != own.domain:
        return None
    elif theirs.infinite is None or abs(multiple(constant)) != theirs.infinite:
        position = multiple(constant) * theirs.step
    elif own.infinite is None:
        position = math.inf if multiple(constant) > 0 else -math.inf
    else:
        return operator, scalar_at(own.infinite if multiple(constant) > 0 else -own.infinite, kind)
    if position is None:
        return None
    if position > own.greatest * own.step:
        return operator in _BELOW
    if position < own.least * own.step:
        return operator in _ABOVE
    below = math.floor(position / own.step)
    if below * own.step == position:
        return operator, scalar_at(below, kind)
    return _between(operator, scalar_at(below, kind), scalar_at(below + 1, kind))


def _float_position(constant: pa.Scalar, kind: pa.DataType, own: Grid) -> Fraction | float | None:
    """Return where a float is among whole numbers, which DuckDB converts to floats first."""
    exact = _exact_integers(constant.type)
    if not types.is_integer(kind):
        return None
    value = float(constant.as_py())
    if math.isnan(value):
        return math.inf
    if math.isinf(value):
        return value
    # The next whole number after the last exact one is rounded to that.
    if abs(value) < exact or max(-own.least, own.greatest) <= exact:
        return Fraction(value)
    return None


def _exact_integers(kind: pa.DataType) -> int:
    """Return up to which size a float type has all whole numbers."""
    return {16: 2**11, 32: 2**24, 64: 2**53}[kind.bit_width]


def _between(operator: ComparisonOperator, below: pa.Scalar, above: pa.Scalar) -> Fitted:
    """Return the comparison with a constant that lies strictly between two neighbours."""
    match operator:
        case ComparisonOperator.LESS | ComparisonOperator.LESS_OR_EQUAL:
            return ComparisonOperator.LESS_OR_EQUAL, below
        case ComparisonOperator.GREATER | ComparisonOperator.GREATER_OR_EQUAL:
            return ComparisonOperator.GREATER_OR_EQUAL, above
        case _:
            return operator is ComparisonOperator.NOT_EQUAL
