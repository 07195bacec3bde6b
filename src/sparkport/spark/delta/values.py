"""Values in a Delta log, which are JSON or text, as Arrow scalars."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, tzinfo
from decimal import Decimal, localcontext
from typing import Any

import pyarrow as pa

_MILLISECOND = timedelta(milliseconds=1)
_MINUTE = timedelta(minutes=1)
_STANDARD_OFFSETS = 1973  # before, zones had offsets with seconds, which statistics leave out
_DOUBLE_DIGITS = 10**15  # integers below survive a way through a double and back
_DIGITS = 80
_SATURATED = frozenset({2**63 - 1, -(2**63)})  # where delta-rs stops, however large the decimal
_TIE_BREAKERS = ("\x7f", "\U0010ffff")
_FLOAT_ERROR = 2.0**-23


def lower_bound(value: Any, arrow_type: pa.DataType) -> pa.Scalar | None:  # noqa: ANN401  (JSON is untyped)
    """Return a value that no value of the column is less than, or None."""
    return _bound(value, arrow_type, -1)


def upper_bound(value: Any, arrow_type: pa.DataType) -> pa.Scalar | None:  # noqa: ANN401  (as above)
    """Return a value that no value of the column is greater than, or None."""
    if pa.types.is_floating(arrow_type):
        return None  # NaN is greater than all, and not every writer counts it in
    return _bound(value, arrow_type, +1)


def exact_value(value: Any, arrow_type: pa.DataType, max_length: int) -> pa.Scalar | None:  # noqa: ANN401
    """Return a minimum or maximum if it is sure to be a value of the column.

    Strings of `max_length` characters may have been cut, timestamps are cut to milliseconds,
    and of floats nobody knows whether NaN was left out.
    """
    if pa.types.is_string(arrow_type) or pa.types.is_large_string(arrow_type):
        return _scalar(value, arrow_type) if isinstance(value, str) and _is_whole(value, max_length) else None
    if pa.types.is_decimal(arrow_type):
        number = _decimal(value, arrow_type)
        return None if number is None or _is_doubtful(number, arrow_type) else _scalar(number, arrow_type)
    if pa.types.is_integer(arrow_type) or pa.types.is_date32(arrow_type) or pa.types.is_boolean(arrow_type):
        return _bound(value, arrow_type, 0)
    return None


def partition_scalar(text: str | None, arrow_type: pa.DataType, zone: tzinfo = UTC) -> pa.Scalar:
    """Return a partition value; `zone` is for timestamps that were written without one.

    Raises ValueError for a text that is no value of the type.
    """
    if not text:
        return pa.scalar(None, arrow_type)  # the protocol makes no difference between empty and null
    if pa.types.is_boolean(arrow_type):
        return pa.scalar({"true": True, "false": False}[text.lower()], arrow_type)
    if pa.types.is_integer(arrow_type):
        return pa.scalar(int(text), arrow_type)
    if pa.types.is_floating(arrow_type):
        return pa.scalar(float(text), arrow_type)
    if pa.types.is_decimal(arrow_type):
        return pa.scalar(_at_scale(Decimal(text), arrow_type.scale), arrow_type)
    if pa.types.is_date(arrow_type):
        return pa.scalar(date.fromisoformat(text), arrow_type)
    if pa.types.is_timestamp(arrow_type):
        moment = datetime.fromisoformat(text)
        if arrow_type.tz is None:
            return pa.scalar(moment.replace(tzinfo=None), arrow_type)
        return pa.scalar(moment if moment.tzinfo else moment.replace(tzinfo=zone), arrow_type)
    if pa.types.is_binary(arrow_type) or pa.types.is_large_binary(arrow_type):
        return pa.scalar(text.encode(), arrow_type)
    return pa.scalar(text, arrow_type)


def has_sure_zone(text: str, arrow_type: pa.DataType) -> bool:
    """Return whether a partition value means the same wherever it is read."""
    if not pa.types.is_timestamp(arrow_type) or arrow_type.tz is None:
        return True
    return datetime.fromisoformat(text).tzinfo is not None


def _is_whole(text: str, max_length: int) -> bool:
    """Return whether a writer that keeps `max_length` characters, and marks what it cut, kept all."""
    return len(text.encode("utf-16-le")) // 2 < max_length and not text.endswith(_TIE_BREAKERS)


def _bound(value: Any, arrow_type: pa.DataType, side: int) -> pa.Scalar | None:  # noqa: ANN401
    """Return a JSON value moved to one side by as much as its writer may have lost."""
    if pa.types.is_boolean(arrow_type):
        return _scalar(value, arrow_type) if isinstance(value, bool) else None
    if pa.types.is_integer(arrow_type):
        return _scalar(value, arrow_type) if type(value) is int else None
    if pa.types.is_floating(arrow_type):
        return _float_bound(value, arrow_type)
    if pa.types.is_decimal(arrow_type):
        return _decimal_bound(value, arrow_type, side)
    if not isinstance(value, str):
        return None
    if pa.types.is_string(arrow_type) or pa.types.is_large_string(arrow_type):
        return _scalar(value, arrow_type)
    moment = _moment(value)
    if moment is None:
        return None
    if pa.types.is_date(arrow_type):
        return _scalar(moment.date(), arrow_type)
    if pa.types.is_timestamp(arrow_type):
        return _timestamp_bound(moment, arrow_type, side)
    return None  # writers disagree on the text of bytes


def _float_bound(value: Any, arrow_type: pa.DataType) -> pa.Scalar | None:  # noqa: ANN401
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    number = float(value)
    if number != number:  # noqa: PLR0124  (NaN)
        return None
    # The text of a float, read as a double after the column was widened, may be above the float.
    return _scalar(number - abs(number) * _FLOAT_ERROR, arrow_type)


def _decimal_bound(value: Any, arrow_type: pa.DataType, side: int) -> pa.Scalar | None:  # noqa: ANN401
    number = _decimal(value, arrow_type)
    if number is None:
        return None
    if _is_doubtful(number, arrow_type):
        if number in _SATURATED:
            return None
        with localcontext(prec=_DIGITS):
            slack = abs(number) / _DOUBLE_DIGITS + Decimal(1).scaleb(-arrow_type.scale)
            number = _at_scale(number + side * slack, arrow_type.scale)
    return _scalar(number, arrow_type)


def _decimal(value: Any, arrow_type: pa.DataType) -> Decimal | None:  # noqa: ANN401
    if isinstance(value, bool) or not isinstance(value, int | Decimal | str):
        return None
    try:
        number = Decimal(value)
        rounded = _at_scale(number, arrow_type.scale)
    except ArithmeticError:
        return None
    return rounded if rounded == number else None


def _at_scale(number: Decimal, scale: int) -> Decimal:
    with localcontext(prec=_DIGITS):  # Python's own limit of 28 digits is below that of SQL
        return number.quantize(Decimal(1).scaleb(-scale))


def _is_doubtful(number: Decimal, arrow_type: pa.DataType) -> bool:
    """Return whether a decimal may have lost digits: delta-rs writes it by way of a double."""
    with localcontext(prec=_DIGITS):
        return abs(number.scaleb(arrow_type.scale)) >= _DOUBLE_DIGITS


def _timestamp_bound(moment: datetime, arrow_type: pa.DataType, side: int) -> pa.Scalar | None:
    try:
        if moment.year < _STANDARD_OFFSETS and moment.tzinfo is not None and moment.utcoffset():
            moment += side * _MINUTE
        if side > 0:
            moment += _MILLISECOND
    except OverflowError:
        return None
    if (arrow_type.tz is None) != (moment.tzinfo is None):
        moment = moment.replace(tzinfo=None if arrow_type.tz is None else UTC)
    return _scalar(moment, arrow_type)


def _moment(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None  # years beyond 9999 have no Python value, so no bound


def _scalar(value: object, arrow_type: pa.DataType) -> pa.Scalar | None:
    try:
        return pa.scalar(value, arrow_type)
    except (pa.ArrowInvalid, OverflowError):
        return None  # out of the type's range: not a value of this column
