"""How large columns are once every value is written out.

Arrow can say much in few bytes: a column of nulls has a length and no buffers, a run or an entry of a
dictionary stands for many values, views of lists may all show the same values. Whoever stores or converts
such a column writes the values out, so their size is bounded before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparkport.errors import LimitExceededError
from sparkport.protocol.ipc.column_checks import is_view, view_lengths

__all__ = ["can_expand", "flat_size"]

_Vector: TypeAlias = npt.NDArray[np.int64]
_Sizes: TypeAlias = int | _Vector  # of all values alike, or of each

_EXPANDING = (
    pa.DictionaryType,
    pa.RunEndEncodedType,
    pa.ListViewType,
    pa.LargeListViewType,
    pa.DenseUnionType,
)
_NO_BYTES = 8  # what a value that needs none is counted as: it becomes one of a column that needs some
_ENTRY_BYTES = 8  # for the offset of a list or text
_MAX_VALUES = 1 << 24
# Larger values are counted as this one, which is beyond any limit; so no sum of fewer than 2^31 overflows.
_MAX_VALUE_BYTES = 1 << 31


def can_expand(data_type: pa.DataType) -> bool:
    """Return whether a column of this type may be larger than its buffers."""
    if isinstance(data_type, pa.BaseExtensionType):
        return can_expand(data_type.storage_type)
    return (
        isinstance(data_type, _EXPANDING)
        or _needs_no_bytes(data_type)
        or any(can_expand(data_type.field(index).type) for index in range(data_type.num_fields))
    )


def flat_size(column: pa.Array) -> int:
    """Return the bytes of a valid column with all values written out.

    Raises LimitExceededError for a column with too many values to count them.
    """
    sizes = _sizes(column)
    return sizes * len(column) if isinstance(sizes, int) else int(sizes.sum())


def _needs_no_bytes(data_type: pa.DataType) -> bool:
    return bool(
        pa.types.is_null(data_type)
        or (pa.types.is_fixed_size_binary(data_type) and data_type.byte_width == 0)
        or (isinstance(data_type, pa.FixedSizeListType) and data_type.list_size == 0)
        or (pa.types.is_struct(data_type) and data_type.num_fields == 0)
    )


def _sizes(array: pa.Array) -> _Sizes:
    data_type = array.type
    if isinstance(data_type, pa.BaseExtensionType):
        return _sizes(array.storage)
    if _needs_no_bytes(data_type):
        return _NO_BYTES
    measure = next((measure for fits, measure in _MEASURES if fits(data_type)), None)
    if measure is None:
        return max(1, int(data_type.bit_width) // 8)
    if len(array) > _MAX_VALUES:
        raise LimitExceededError(
            f"a column of type {data_type} has {len(array)} values in one message,"
            f" the limit is {_MAX_VALUES}; send fewer rows at a time"
        )
    sizes = measure(array)
    return min(sizes, _MAX_VALUE_BYTES) if isinstance(sizes, int) else np.minimum(sizes, _MAX_VALUE_BYTES)


def _of_texts(array: pa.Array) -> _Vector:
    return _numbers(pc.binary_length(array)) + _ENTRY_BYTES


def _of_views(array: pa.Array) -> _Vector:
    return _numbers(view_lengths(array)) + 2 * _ENTRY_BYTES


def _of_dictionary(array: pa.DictionaryArray) -> _Sizes:
    entries = _sizes(array.dictionary)
    return entries if isinstance(entries, int) else _picked(entries, _numbers(array.indices))


def _of_runs(array: pa.RunEndEncodedArray) -> _Sizes:
    values = _sizes(array.values)
    if isinstance(values, int):
        return values
    ends = np.minimum(_numbers(array.run_ends), len(array))
    return np.repeat(values, np.diff(ends, prepend=0))[: len(array)]


def _of_lists(array: pa.Array) -> _Vector:
    offsets = _numbers(array.offsets)
    return _ranges(_sizes(array.values), offsets[:-1], offsets[1:]) + _ENTRY_BYTES


def _of_list_views(array: pa.Array) -> _Vector:
    starts = _numbers(array.offsets)
    return _ranges(_sizes(array.values), starts, starts + _numbers(array.sizes)) + 2 * _ENTRY_BYTES


def _of_fixed_size_lists(array: pa.FixedSizeListArray) -> _Sizes:
    values, count = _sizes(array.values), int(array.type.list_size)
    if isinstance(values, int):
        return values * count
    sums: _Vector = values[: len(array) * count].reshape(len(array), count).sum(axis=1)
    return sums


def _of_fields(array: pa.StructArray | pa.UnionArray) -> _Sizes:
    total: _Sizes = 1
    for index in range(array.type.num_fields):
        total = total + _sizes(array.field(index))
    return total


def _of_dense_union(array: pa.UnionArray) -> _Vector:
    sizes = np.zeros(len(array), np.int64)
    if not len(array):
        return sizes  # whose buffers may be missing
    codes = np.frombuffer(array.buffers()[1], np.int8, len(array))
    offsets = np.frombuffer(array.buffers()[2], np.int32, len(array))
    for index, code in enumerate(array.type.type_codes):
        is_this = codes == code
        fields = _sizes(array.field(index))
        sizes[is_this] = fields if isinstance(fields, int) else _picked(fields, offsets[is_this])
    return sizes


_MEASURES: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array], _Sizes]], ...] = (
    (is_view, _of_views),
    (lambda data_type: isinstance(data_type, pa.DictionaryType), _of_dictionary),
    (lambda data_type: isinstance(data_type, pa.RunEndEncodedType), _of_runs),
    (lambda data_type: isinstance(data_type, pa.ListViewType | pa.LargeListViewType), _of_list_views),
    (lambda data_type: isinstance(data_type, pa.FixedSizeListType), _of_fixed_size_lists),
    (lambda data_type: isinstance(data_type, pa.ListType | pa.LargeListType | pa.MapType), _of_lists),
    (lambda data_type: isinstance(data_type, pa.DenseUnionType), _of_dense_union),
    (lambda data_type: isinstance(data_type, pa.StructType | pa.SparseUnionType), _of_fields),
    (
        lambda data_type: data_type in {pa.string(), pa.large_string(), pa.binary(), pa.large_binary()},
        _of_texts,
    ),
)


def _numbers(array: pa.Array) -> _Vector:
    """Return integers, with zeros for nulls."""
    numbers: _Vector = array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return numbers


def _picked(sizes: _Vector, positions: npt.NDArray[np.integer]) -> _Vector:
    """Return the sizes at positions; of none, zeros: then the positions are of nulls."""
    return sizes[positions] if len(sizes) else np.zeros(len(positions), np.int64)


def _ranges(sizes: _Sizes, starts: _Vector, ends: _Vector) -> _Vector:
    """Return the sum of each range."""
    if isinstance(sizes, int):
        return (ends - starts) * sizes
    until = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    sums: _Vector = until[ends] - until[starts]
    return sums
