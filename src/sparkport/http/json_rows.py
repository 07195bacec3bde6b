"""Arrow values as JSON has them, without loss."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["columns_of", "json_columns", "text_column"]

_EXACT = 1 << 53  # whole numbers beyond it are others in JavaScript


def columns_of(arrow_schema: pa.Schema) -> list[dict[str, str]]:
    """Return names and types, and how a column is shown: as a number, a truth value or text."""
    return [
        {"name": field.name, "type": str(field.type), "shown": _shown(field.type)} for field in arrow_schema
    ]


def json_columns(batch: pa.RecordBatch) -> list[list[Any]]:
    """Return the values of each column; what JSON has no exact form for is text."""
    return [_values(column) for column in batch.columns]


def text_column(column: pa.Array) -> pa.Array:
    """Return any column as text; nested values as JSON."""
    if _is_nested(column.type):
        return pa.array(
            [None if value is None else _json(value) for value in column.to_pylist()], pa.string()
        )
    try:
        return pc.cast(column, pa.string())
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        return pa.array(
            [None if value is None else _plain(value) for value in column.to_pylist()], pa.string()
        )


def _texts(column: pa.Array, text: Callable[[Any], str]) -> pa.Array:
    return pa.array([None if value is None else text(value) for value in column.to_pylist()], pa.string())


def _values(column: pa.Array) -> list[Any]:
    kind = column.type
    if pa.types.is_boolean(kind) or pa.types.is_string(kind) or pa.types.is_null(kind):
        return list(column.to_pylist())
    if pa.types.is_integer(kind):
        return [
            value if value is None or -_EXACT <= value <= _EXACT else str(value)
            for value in column.to_pylist()
        ]
    if pa.types.is_floating(kind):
        return [
            value if value is None or math.isfinite(value) else str(value) for value in column.to_pylist()
        ]
    if _is_binary(kind):
        return [None if value is None else value.hex() for value in column.to_pylist()]
    return list(text_column(column).to_pylist())


def _shown(kind: pa.DataType) -> str:
    if pa.types.is_boolean(kind):
        return "boolean"
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    return "number" if is_number else "text"


def _is_binary(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)
    )


def _is_nested(kind: pa.DataType) -> bool:
    return bool(pa.types.is_nested(kind))


def _json(value: object) -> str:
    return msgspec.json.encode(value, enc_hook=_plain).decode()


def _plain(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)
