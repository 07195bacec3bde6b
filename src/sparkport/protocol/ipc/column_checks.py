"""Checks of columns that pyarrow calls valid and then reads out of bounds, or for hours.

- A view of text names a range of shared buffers. Ranges may overlap: a few megabytes can spell terabytes,
  all of which are read to be checked as text.
- The view of a null may hold anything, says Arrow; pyarrow's casts follow it wherever it points.
- The offsets of a list of no rows may be missing, or point anywhere, as writers of Arrow leave them inside of
  other lists. The check does not look at them, but `flatten` and `nbytes` do, and crash.

And of one that pyarrow calls invalid: DuckDB's TIME '24:00:00', the end of a day.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from sparkport.errors import InvalidRequestError

__all__ = ["check", "is_view", "needs_check", "normalized", "spelled_bytes", "validate", "view_lengths"]

_UNITS_PER_DAY = {unit: 86_400 * 1000**power for power, unit in enumerate(("s", "ms", "us", "ns"))}
_VIEW_WORDS = 4
_OFFSET_BYTES = 4
_LARGE_OFFSET_BYTES = 8


def is_view(data_type: pa.DataType) -> bool:
    """Return whether a column of this type is made of views."""
    return bool(pa.types.is_string_view(data_type) or pa.types.is_binary_view(data_type))


def needs_check(data_type: pa.DataType) -> bool:
    """Return whether `check` and `normalized` have anything to look at in a column of this type."""
    if isinstance(data_type, pa.BaseExtensionType):
        return needs_check(data_type.storage_type)
    if pa.types.is_dictionary(data_type):
        return needs_check(data_type.value_type)
    return is_view(data_type) or data_type.num_fields > 0


def check(column: pa.Array) -> int:
    """Check a column and all inside it, and sum the bytes that its views spell."""
    spelled = 0
    for array in _tree(column):
        if is_view(array.type):
            _check_views_of_nulls(array)
            spelled += spelled_bytes(array)
    return spelled


def validate(batch: pa.RecordBatch) -> None:
    """Check a batch as pyarrow does, but allow the time 24:00:00. Raises pa.ArrowInvalid."""
    for index, column in enumerate(batch.columns):
        try:
            _validate_column(column)
        except pa.ArrowInvalid as error:
            raise pa.ArrowInvalid(f"In column {index}: {error}") from error


def _validate_column(column: pa.Array) -> None:
    numbers = _times_as_numbers(column.type)
    if numbers.equals(column.type):
        column.validate(full=True)
        return
    column.view(numbers).validate(full=True)
    for times in _tree(column):
        if pa.types.is_time(times.type):
            _check_times(times)


def normalized(column: pa.Array) -> pa.Array:
    """Return a valid column with offsets that begin at zero in all lists of no rows.

    Raises InvalidRequestError where that cannot be had.
    """
    if not _has_bad_offsets(column):
        return column
    made_anew = pa.concat_arrays([column, column.slice(0, 0)])
    if _has_bad_offsets(made_anew):  # what dictionaries hold is kept as it is
        raise InvalidRequestError("an empty list has no offsets")
    return made_anew


def spelled_bytes(views: pa.Array) -> int:
    """Sum the lengths of all views of an array."""
    return int(pc.sum(view_lengths(views), min_count=0).as_py())


def view_lengths(views: pa.Array) -> pa.Array:
    """Return the length of each view, whether it is null or not."""
    words = pa.Array.from_buffers(
        pa.int32(),
        _VIEW_WORDS * len(views),
        [None, views.buffers()[1]],
        offset=_VIEW_WORDS * views.offset,
    )
    return pc.list_element(pa.FixedSizeListArray.from_arrays(words, _VIEW_WORDS), 0)


def _times_as_numbers(data_type: pa.DataType) -> pa.DataType:
    """Return a type of the same layout with integers in the place of times."""
    match data_type:
        case pa.Time32Type():
            return pa.int32()
        case pa.Time64Type():
            return pa.int64()
        case pa.StructType():
            return pa.struct([field.with_type(_times_as_numbers(field.type)) for field in data_type])
        case pa.ListType():
            return pa.list_(data_type.value_field.with_type(_times_as_numbers(data_type.value_type)))
        case pa.LargeListType():
            return pa.large_list(data_type.value_field.with_type(_times_as_numbers(data_type.value_type)))
        case pa.FixedSizeListType():
            return pa.list_(
                data_type.value_field.with_type(_times_as_numbers(data_type.value_type)), data_type.list_size
            )
        case pa.MapType():
            item = data_type.item_field.with_type(_times_as_numbers(data_type.item_type))
            key = data_type.key_field.with_type(_times_as_numbers(data_type.key_type))
            return pa.map_(key, item, data_type.keys_sorted)
    return data_type


def _check_times(times: pa.Array) -> None:
    ends = pc.min_max(times.view(_times_as_numbers(times.type)))
    low, high = ends["min"].as_py(), ends["max"].as_py()
    if low is not None and not 0 <= low <= high <= _UNITS_PER_DAY[times.type.unit]:
        raise pa.ArrowInvalid("a time is not between 00:00:00 and 24:00:00")


def _check_views_of_nulls(views: pa.Array) -> None:
    _, *buffers = views.buffers()
    everything = pa.Array.from_buffers(pa.binary_view(), len(views), [None, *buffers], offset=views.offset)
    everything.validate(full=True)


def _has_bad_offsets(column: pa.Array) -> bool:
    return any(
        not len(array) and _has_offsets(array.type) and not _begins_at_zero(array) for array in _tree(column)
    )


def _begins_at_zero(array: pa.Array) -> bool:
    width = _LARGE_OFFSET_BYTES if pa.types.is_large_list(array.type) else _OFFSET_BYTES
    offsets = array.buffers()[1]
    return offsets is not None and offsets[:width].to_pybytes() == bytes(width)


def _has_offsets(data_type: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(data_type) or pa.types.is_large_list(data_type) or pa.types.is_map(data_type)
    )


def _tree(column: pa.Array) -> Iterator[pa.Array]:
    yield column
    data_type = column.type
    if isinstance(data_type, pa.BaseExtensionType):
        yield from _tree(column.storage)
    elif pa.types.is_dictionary(data_type):
        yield from _tree(column.dictionary)
    elif pa.types.is_struct(data_type) or pa.types.is_union(data_type):
        for child in range(data_type.num_fields):
            yield from _tree(column.field(child))
    elif data_type.num_fields:
        yield from _tree(column.values)
