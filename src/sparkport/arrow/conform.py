"""Bring incoming rows to the exact columns of a table.

Clients send what their own type system exports: DuckDB sends a UUID as text, a
list's child with another name, a large or view layout of a string. The values
are the same; only the Arrow types differ. A conversion that would change a
value is an error.
"""

from __future__ import annotations

import uuid

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparkport.errors import InvalidRequestError, SchemaMismatchError

_UTC_OFFSET_BITS = 57599  # DuckDB stores TIME WITH TIME ZONE offsets as 57599 - seconds


def conform_batch(batch: pa.RecordBatch, arrow_schema: pa.Schema) -> pa.RecordBatch:
    """Return the batch with the columns, order and types of `arrow_schema`.

    Columns are matched by name, first as spelled, then without regard to case.
    Raises SchemaMismatchError; nullability is not checked here.
    """
    if batch.schema.equals(arrow_schema, check_metadata=True):
        return batch
    if len(batch.schema) != len(arrow_schema):
        raise SchemaMismatchError(
            f"column mismatch: table has {len(arrow_schema)} columns, input has {len(batch.schema)}"
        )
    columns = [conform_column(batch.column(_find(batch.schema, field.name)), field) for field in arrow_schema]
    return batch_of(columns, arrow_schema, batch.num_rows)


def check_aligned(incoming: pa.Schema, columns: pa.Schema) -> None:
    """Raise SchemaMismatchError unless the input has exactly these columns, in any order."""
    if len(incoming) != len(columns):
        raise SchemaMismatchError(
            f"column mismatch: table has {len(columns)} columns, input has {len(incoming)}"
        )
    for field in columns:
        actual = incoming.field(_find(incoming, field.name))
        if actual.type != field.type:
            raise _mismatch(field, actual.type)


def conform_column(column: pa.Array, field: pa.Field) -> pa.Array:
    """Return the column with exactly the type of `field`."""
    if column.type == field.type:
        return column
    try:
        result = _conform(column, field.type)
    except (pa.ArrowException, ValueError, OverflowError) as error:
        raise _mismatch(field, column.type) from error
    if result.type != field.type:
        raise _mismatch(field, column.type)
    return result


def _mismatch(field: pa.Field, actual: pa.DataType) -> SchemaMismatchError:
    return SchemaMismatchError(f"column '{field.name}' has type {field.type}, input has {actual}")


def batch_of(columns: list[pa.Array], arrow_schema: pa.Schema, num_rows: int) -> pa.RecordBatch:
    """Return a batch, which has its number of rows even without any columns."""
    if columns:
        return pa.RecordBatch.from_arrays(columns, schema=arrow_schema)
    empty = pa.StructArray.from_arrays([], names=[], mask=pa.array([False] * num_rows))
    return pa.RecordBatch.from_struct_array(empty)


def row_ids(column: pa.Array) -> npt.NDArray[np.int64]:
    """Return the row ids of an UPDATE or DELETE batch."""
    if column.null_count:
        raise InvalidRequestError("a row id must not be NULL")
    try:
        ids: npt.NDArray[np.int64] = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
    except pa.ArrowException as error:
        raise SchemaMismatchError(f"the row id must be an integer, not {column.type}") from error
    return ids


def flat_type(arrow_type: pa.DataType) -> pa.DataType:
    """Return the type without dictionary and run-end encoding, which DuckDB shows wrongly."""
    if isinstance(arrow_type, pa.DictionaryType | pa.RunEndEncodedType):
        return flat_type(arrow_type.value_type)
    return arrow_type


def plain_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the values in a layout that Arrow's functions support: no extension, encoding or view."""
    empty = _plain(pa.nulls(0, column.type))
    return pa.chunked_array([_plain(chunk) for chunk in column.chunks], empty.type)


def _plain(array: pa.Array) -> pa.Array:
    if isinstance(array, pa.ExtensionArray):
        return _plain(array.storage)
    if isinstance(array, pa.DictionaryArray):
        return _plain(array.dictionary_decode())
    if isinstance(array, pa.RunEndEncodedArray):
        return _plain(pc.run_end_decode(array))
    if pa.types.is_string_view(array.type):
        return array.cast(pa.large_string())
    if pa.types.is_binary_view(array.type):
        return array.cast(pa.large_binary())
    return array


def _find(arrow_schema: pa.Schema, name: str) -> int:
    index = arrow_schema.get_field_index(name)
    if index >= 0:
        return int(index)
    matches = [i for i, other in enumerate(arrow_schema.names) if other.lower() == name.lower()]
    if len(matches) != 1:
        raise SchemaMismatchError(f"column '{name}' is missing in the input")
    return matches[0]


def _conform(array: pa.Array, target: pa.DataType) -> pa.Array:
    source = array.type
    if source == target:
        return array
    if pa.types.is_null(source):
        return pa.nulls(len(array), target)
    if isinstance(target, pa.BaseExtensionType):
        return _wrap(array, target)
    if isinstance(array, pa.ExtensionArray):
        return _unwrap(array, target)
    if isinstance(array, pa.RunEndEncodedArray):
        return _conform(pc.run_end_decode(array), target)
    if isinstance(target, pa.RunEndEncodedType):
        return pc.run_end_encode(_conform(array, target.value_type), run_end_type=target.run_end_type)
    if isinstance(source, pa.DictionaryType) and not isinstance(target, pa.DictionaryType):
        assert isinstance(array, pa.DictionaryArray)
        return _conform(array.dictionary_decode(), target)
    if isinstance(array, pa.ListViewArray | pa.LargeListViewArray):
        return _conform(_as_lists(array), target)
    if isinstance(target, pa.DictionaryType):
        values = _conform(array, target.value_type)
        return values.dictionary_encode().cast(target)
    return _conform_nested(array, target)


def _conform_nested(array: pa.Array, target: pa.DataType) -> pa.Array:
    if isinstance(target, pa.StructType) and isinstance(array, pa.StructArray):
        return _conform_struct(array, target)
    if isinstance(target, pa.UnionType) and isinstance(array, pa.UnionArray):
        return _conform_union(array, target)
    if isinstance(target, pa.MapType) and isinstance(array, pa.MapArray):
        keys, items = _conform(array.keys, target.key_type), _conform(array.items, target.item_type)
        return pa.MapArray.from_arrays(_offsets(array), keys, items, target)
    if isinstance(target, pa.ListType | pa.LargeListType) and isinstance(
        array, pa.ListArray | pa.LargeListArray
    ):
        return _conform_list(array, target)
    if isinstance(target, pa.FixedSizeListType) and isinstance(array, pa.FixedSizeListArray):
        return _conform_fixed_list(array, target)
    if isinstance(target, pa.ListViewType | pa.LargeListViewType):
        return _conform_list_view(array, target)
    return _cast(array, target)


def _cast(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Cast as Arrow does, but neither add nor drop a time zone, nor make a number infinite."""
    source = array.type
    are_timestamps = isinstance(source, pa.TimestampType) and isinstance(target, pa.TimestampType)
    if are_timestamps and (source.tz is None) != (target.tz is None):
        raise pa.ArrowInvalid("a timestamp with a time zone does not fit one without")
    result = array.cast(target)
    if pa.types.is_floating(source) and pa.types.is_floating(target):
        made_infinite = pc.and_(pc.is_inf(result), pc.is_finite(array))
        if pc.any(made_infinite).as_py():
            raise pa.ArrowInvalid(f"a number does not fit {target}")
    return result


def _conform_list(
    array: pa.ListArray | pa.LargeListArray, target: pa.ListType | pa.LargeListType
) -> pa.Array:
    child = _conform(array.values, target.value_type)
    if isinstance(target, pa.LargeListType):
        return pa.LargeListArray.from_arrays(_offsets(array).cast(pa.int64()), child, target)
    return pa.ListArray.from_arrays(_offsets(array).cast(pa.int32()), child, target)


def _conform_fixed_list(array: pa.FixedSizeListArray, target: pa.FixedSizeListType) -> pa.Array:
    if array.type.list_size != target.list_size:
        raise pa.ArrowInvalid("fixed-size lists have different sizes")
    size = target.list_size
    child = _conform(array.values.slice(array.offset * size, len(array) * size), target.value_type)
    return pa.FixedSizeListArray.from_arrays(child, type=target, mask=_mask(array))


def _conform_list_view(array: pa.Array, target: pa.ListViewType | pa.LargeListViewType) -> pa.Array:
    large = isinstance(target, pa.LargeListViewType)
    plain = (pa.large_list if large else pa.list_)(target.value_field)
    lists = _conform(array, plain)
    offsets = lists.offsets
    sizes = pc.subtract(offsets.slice(1), offsets.slice(0, len(lists)))
    array_class = pa.LargeListViewArray if large else pa.ListViewArray
    return array_class.from_arrays(
        pa.concat_arrays([offsets.slice(0, len(lists))]), sizes, lists.values, target, mask=_mask(lists)
    )


def _as_lists(array: pa.ListViewArray | pa.LargeListViewArray) -> pa.Array:
    """Return list views as lists; Arrow's own cast omits the last offset."""
    sizes = pc.if_else(array.is_valid(), array.sizes, 0).cast(pa.int64())
    offsets = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(sizes)])
    return pa.LargeListArray.from_arrays(offsets, array.flatten(), mask=_mask(array))


def _mask(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None


def _offsets(array: pa.Array) -> pa.Array:
    """Return the offsets with a null wherever the element itself is null."""
    offsets = array.offsets
    if not len(array):
        return pa.array([0], offsets.type)  # an array without rows may have no offsets
    if array.null_count == 0:
        return offsets
    valid = pa.concat_arrays([array.is_valid(), pa.array([True])])
    return pc.if_else(valid, offsets, pa.scalar(None, offsets.type))


def _conform_struct(array: pa.StructArray, target: pa.StructType) -> pa.Array:
    names = [array.type.field(i).name for i in range(array.type.num_fields)]
    fields = [target.field(i) for i in range(target.num_fields)]
    if sorted(names) != sorted(field.name for field in fields):
        raise pa.ArrowInvalid(f"struct fields {names} do not fit {[field.name for field in fields]}")
    children = [_conform(array.field(names.index(field.name)), field.type) for field in fields]
    return pa.StructArray.from_arrays(children, fields=fields, mask=_mask(array))


def _conform_union(array: pa.UnionArray, target: pa.UnionType) -> pa.Array:
    source = array.type
    names = [target.field(i).name for i in range(target.num_fields)]
    if names != [source.field(i).name for i in range(source.num_fields)]:
        raise pa.ArrowInvalid("unions have different members")
    codes = list(target.type_codes)
    tags = _union_buffer(array, 1, pa.int8())
    if list(source.type_codes) != codes:
        tags = pc.take(pa.array(codes, pa.int8()), pc.index_in(tags, pa.array(source.type_codes, pa.int8())))
    children = [_conform(array.field(i), target.field(i).type) for i in range(target.num_fields)]
    if isinstance(source, pa.DenseUnionType):
        if not isinstance(target, pa.DenseUnionType):
            raise pa.ArrowInvalid("a dense union does not fit a sparse one")
        return pa.UnionArray.from_dense(tags, _union_buffer(array, 2, pa.int32()), children, names, codes)
    if isinstance(target, pa.DenseUnionType):
        offsets = pa.array(range(len(array)), pa.int32())
        return pa.UnionArray.from_dense(tags, offsets, children, names, codes)
    return pa.UnionArray.from_sparse(tags, children, names, codes)


def _union_buffer(array: pa.UnionArray, index: int, arrow_type: pa.DataType) -> pa.Array:
    """Return the type codes or offsets; unlike pyarrow's own properties correct for a slice."""
    stored = pa.Array.from_buffers(
        arrow_type, len(array), [None, array.buffers()[index]], offset=array.offset
    )
    return pa.array(stored.to_numpy(), arrow_type)


def _wrap(array: pa.Array, target: pa.BaseExtensionType) -> pa.Array:
    kind = _kind(target)
    if isinstance(array, pa.ExtensionArray) and _kind(array.type) != kind:
        raise pa.ArrowInvalid("the extension types differ")
    storage = array.storage if isinstance(array, pa.ExtensionArray) else array
    if kind == "arrow.uuid" and _is_text(storage.type):
        storage = _uuid_bytes(storage)
    elif kind == "arrow.bool8" and pa.types.is_boolean(storage.type):
        storage = storage.cast(pa.int8())
    elif kind in {"hugeint", "uhugeint"} and pa.types.is_decimal(storage.type):
        storage = _huge_bytes(storage, signed=kind == "hugeint")
    elif kind == "time_tz" and pa.types.is_time64(storage.type):
        storage = _timetz_bytes(storage)
    return pa.ExtensionArray.from_storage(target, _conform(storage, target.storage_type))


def _unwrap(array: pa.ExtensionArray, target: pa.DataType) -> pa.Array:
    storage = array.storage
    kind = _kind(array.type)
    if kind == "arrow.bool8" and pa.types.is_boolean(target):
        return pc.not_equal(storage, pa.scalar(0, pa.int8()))
    if kind == "arrow.uuid" and _is_text(target):
        texts = [None if value is None else str(uuid.UUID(bytes=value)) for value in storage.to_pylist()]
        return pa.array(texts, target)
    return _conform(storage, target)


def _kind(extension: pa.BaseExtensionType) -> str:
    """Return the extension's name, or DuckDB's type name of an opaque one."""
    return str(extension.type_name if isinstance(extension, pa.OpaqueType) else extension.extension_name)


def _is_text(arrow_type: pa.DataType) -> bool:
    return arrow_type in {pa.string(), pa.large_string(), pa.string_view()}


def _uuid_bytes(texts: pa.Array) -> pa.Array:
    values = [None if text is None else uuid.UUID(text).bytes for text in texts.to_pylist()]
    return pa.array(values, pa.binary(16))


def _huge_bytes(decimals: pa.Array, *, signed: bool) -> pa.Array:
    values = [
        None if number is None else int(number).to_bytes(16, "little", signed=signed)
        for number in decimals.cast(pa.decimal256(76, 0)).to_pylist()
    ]
    return pa.array(values, pa.binary(16))


def _timetz_bytes(times: pa.Array) -> pa.Array:
    """Encode local times at offset zero, as a plain TIME has no zone."""
    micros = times.cast(pa.time64("us")).cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    bits = (micros.astype(np.uint64) << np.uint64(24)) | np.uint64(_UTC_OFFSET_BITS)
    packed = pa.Array.from_buffers(
        pa.binary(8), len(times), [None, pa.py_buffer(bits.astype("<u8").tobytes())]
    )
    return pc.if_else(times.is_valid(), packed, pa.scalar(None, pa.binary(8)))
