"""Exact statistics of a column in one state of a table."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from sparkport.arrow.conform import flat_type, plain_column
from sparkport.catalog.tables import ColumnStatistics

_WHOLE = 1 << 30  # print every element
_MAX_COUNTED = 100_000


def column_statistics(column: pa.ChunkedArray) -> ColumnStatistics:
    """Return the range and the counts of a column's values.

    Minimum and maximum are null scalars where there is no order, and for floats
    with NaN, which SQL orders last and Arrow leaves out.
    """
    plain = plain_column(column)
    low, high = _range(plain, column.type)
    texts = _is_text(plain.type)
    nulls = int(pc.sum(plain.is_null()).as_py() or 0)  # unlike null_count right for unions
    return ColumnStatistics(
        minimum=low,
        maximum=high,
        has_null=nulls > 0,
        has_not_null=nulls < len(plain),
        distinct_count=_distinct(plain),
        max_string_length=_longest(plain) if texts or _is_bytes(plain.type) else None,
        contains_unicode=_has_unicode(plain) if texts else None,
    )


def _range(plain: pa.ChunkedArray, arrow_type: pa.DataType) -> tuple[pa.Scalar, pa.Scalar]:
    unknown = pa.nulls(1, flat_type(arrow_type))[0]
    if pa.types.is_floating(plain.type) and pc.any(pc.is_nan(plain)).as_py():
        return unknown, unknown
    if isinstance(arrow_type, pa.OpaqueType):
        return unknown, unknown  # little-endian and packed layouts do not sort bytewise
    try:
        both = pc.min_max(plain)
    except pa.ArrowNotImplementedError:
        return unknown, unknown
    low, high = both["min"], both["max"]
    if isinstance(arrow_type, pa.BaseExtensionType):
        storage = pa.array([low.as_py(), high.as_py()], arrow_type.storage_type)
        wrapped = pa.ExtensionArray.from_storage(arrow_type, storage)
        return wrapped[0], wrapped[1]
    return low, high


def _distinct(plain: pa.ChunkedArray) -> int:
    if len(plain) > _MAX_COUNTED:
        return 0  # counting would take longer than the queries it helps to plan
    try:
        return int(pc.count_distinct(plain).as_py())
    except pa.ArrowNotImplementedError:
        valid = [(chunk, i) for chunk in plain.chunks for i in range(len(chunk)) if chunk[i].is_valid]
        return len({_text(chunk, i) for chunk, i in valid})


def _text(array: pa.Array, index: int) -> str:
    """Return a value in words, for the types that Arrow cannot compare and Python cannot hold."""
    return str(array.slice(index, 1).to_string(window=_WHOLE, container_window=_WHOLE))


def _longest(plain: pa.ChunkedArray) -> int:
    longest = pc.max(pc.binary_length(plain)).as_py()
    return int(longest or 0)


def _has_unicode(plain: pa.ChunkedArray) -> bool:
    return bool(pc.any(pc.invert(pc.string_is_ascii(plain))).as_py())


def _is_text(arrow_type: pa.DataType) -> bool:
    return bool(pa.types.is_string(arrow_type) or pa.types.is_large_string(arrow_type))


def _is_bytes(arrow_type: pa.DataType) -> bool:
    return bool(pa.types.is_binary(arrow_type) or pa.types.is_large_binary(arrow_type))
