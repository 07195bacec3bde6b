"""Names and values as Spark SQL text.

Times are written as numbers and unusual texts as bytes, so that neither the session's
settings for literals nor the range of Spark's parser matter. The session's time zone is UTC.
"""

from __future__ import annotations

import re

import pyarrow as pa
from pyarrow import types

from sparkport.spark.sql_names import quoted

_PLAIN_TEXT = re.compile(r"[A-Za-z0-9 _.,:;/+-]*")
_INTEGERS = {pa.int8(): "TINYINT", pa.int16(): "SMALLINT", pa.int32(): "INT", pa.int64(): "BIGINT"}
_FLOATS = {pa.float32(): "FLOAT", pa.float64(): "DOUBLE"}
_MAX_PRECISION = 38


def identifier(*path: str) -> str | None:
    """Return a name, or the path to a field, quoted; None if Spark SQL cannot write that name."""
    # Spark replaces ${...} by settings before it parses, quoted or not.
    if any("${" in name for name in path):
        return None
    return quoted(*path)


def literal(scalar: pa.Scalar) -> str | None:
    """Return a value as a constant expression of its type; None for types that Spark does not have."""
    kind = scalar.type
    if not scalar.is_valid:
        return None
    if types.is_boolean(kind):
        return str(scalar).lower()
    if kind in _INTEGERS:
        return f"CAST('{scalar.as_py()}' AS {_INTEGERS[kind]})"
    if kind in _FLOATS:
        return f"CAST('{float(scalar.as_py())!r}' AS {_FLOATS[kind]})"
    if types.is_decimal(kind) and kind.precision <= _MAX_PRECISION:
        return f"CAST('{scalar.as_py():f}' AS DECIMAL({kind.precision}, {kind.scale}))"
    if types.is_string(kind) or types.is_large_string(kind):
        return text_literal(scalar.as_py())
    if types.is_binary(kind) or types.is_large_binary(kind):
        return f"X'{scalar.as_py().hex().upper()}'"
    if types.is_date32(kind):
        return f"DATE_FROM_UNIX_DATE(CAST('{scalar.value}' AS INT))"
    if types.is_timestamp(kind) and kind.unit == "us":
        moment = f"TIMESTAMP_MICROS(CAST('{scalar.value}' AS BIGINT))"
        return moment if kind.tz is not None else f"CAST({moment} AS TIMESTAMP_NTZ)"
    return None


def text_literal(value: str) -> str:
    """Return a text as a constant expression."""
    # How backslashes and quotes are read is a setting, and ${...} is replaced in texts too.
    if _PLAIN_TEXT.fullmatch(value):
        return f"'{value}'"
    return f"CAST(X'{value.encode().hex().upper()}' AS STRING)"
