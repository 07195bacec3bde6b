"""Bring incoming rows to the exact columns of a table.

Clients send what their own type system exports: DuckDB sends a UUID as text, a
list's child under another name, a large or view layout of a string. The values
are the table's; only the Arrow spelling differs. What would lose or invent a
value is refused.
"""

from __future__ import annotations

import uuid

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkport.errors import SchemaMismatchError

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


def conform_column(column: pa.Array, field: pa.Field) -> pa.Array:
    """Return the column with exactly the type of `field`."""
    try:
        return _conform(column, field.type)
    except (pa.ArrowException, ValueError, OverflowError) as error:
        raise SchemaMismatchError(
            f"column '{field.name}' has type {field.type}, input has {column.type}"
        ) from error


def batch_of(columns: list[pa.Array], arrow_schema: pa.Schema, num_rows: int) -> pa.RecordBatch:
    """Make a batch; with no columns at all it still has its number of rows."""
    if columns:
        return pa.RecordBatch.from_arrays(columns, schema=arrow_schema)
    empty = pa.StructArray.from_arrays([], names=[], mask=pa.array([False] * num_rows))
    return pa.RecordBatch.from_struct_array(empty)


def flat_type(arrow_type: pa.DataType) -> pa.DataType:
    """Return the type without dictionaries and run-end encoding, which DuckDB shows wrongly."""
    if isinstance(arrow_type, pa.DictionaryType | pa.RunEndEncodedType):
        return flat_type(arrow_type.value_type)
    return arrow_type


def flat_schema(arrow_schema: pa.Schema) -> pa.Schema:
    """Return the schema with `flat_type` for every column."""
    for index, field in enumerate(arrow_schema):
        flat = flat_type(field.type)
        if flat != field.type:
            arrow_schema = arrow_schema.set(index, field.with_type(flat))
    return arrow_schema


def _find(arrow_schema: pa.Schema, name: str) -> int:
    index = arrow_schema.get_field_index(name)
    if index >= 0:
        return int(index)
    alike = [i for i, known in enumerate(arrow_schema.names) if known.lower() == name.lower()]
    if len(alike) != 1:
        raise SchemaMismatchError(f"column '{name}' is missing in the input")
    return alike[0]


def _conform(array: pa.Array, target: pa.DataType) -> pa.Array:
    source = array.type
    if source == target:
        return array
    if isinstance(target, pa.BaseExtensionType):
        return _wrap(array, target)
    if isinstance(array, pa.ExtensionArray):
        return _unwrap(array, target)
    if isinstance(source, pa.DictionaryType) and not isinstance(target, pa.DictionaryType):
        assert isinstance(array, pa.DictionaryArray)
        return _conform(array.dictionary_decode(), target)
    if isinstance(target, pa.DictionaryType):
        values = _conform(array, target.value_type)
        return values.dictionary_encode().cast(target)
    if isinstance(target, pa.StructType) and isinstance(array, pa.StructArray):
        return _conform_struct(array, target)
    if isinstance(target, pa.SparseUnionType) and isinstance(array, pa.UnionArray):
        return _conform_union(array, target)
    if isinstance(target, pa.MapType) and isinstance(array, pa.MapArray):
        keys, items = _conform(array.keys, target.key_type), _conform(array.items, target.item_type)
        return pa.MapArray.from_arrays(_offsets(array), keys, items, target)
    if isinstance(target, pa.ListType | pa.LargeListType) and isinstance(
        array, pa.ListArray | pa.LargeListArray
    ):
        return _conform_list(array, target)
    return array.cast(target)


def _conform_list(
    array: pa.ListArray | pa.LargeListArray, target: pa.ListType | pa.LargeListType
) -> pa.Array:
    child = _conform(array.values, target.value_type)
    if isinstance(target, pa.LargeListType):
        return pa.LargeListArray.from_arrays(_offsets(array).cast(pa.int64()), child, target)
    return pa.ListArray.from_arrays(_offsets(array).cast(pa.int32()), child, target)


def _offsets(array: pa.Array) -> pa.Array:
    """Return the offsets with a null wherever the element itself is null."""
    offsets = array.offsets
    if array.null_count == 0:
        return offsets
    valid = pa.concat_arrays([array.is_valid(), pa.array([True])])
    return pc.if_else(valid, offsets, pa.scalar(None, offsets.type))


def _conform_struct(array: pa.StructArray, target: pa.StructType) -> pa.Array:
    names = [array.type.field(i).name for i in range(array.type.num_fields)]
    wanted = [target.field(i) for i in range(target.num_fields)]
    if sorted(names) != sorted(field.name for field in wanted):
        raise pa.ArrowInvalid(f"struct fields {names} do not fit {[field.name for field in wanted]}")
    children = [_conform(array.field(names.index(field.name)), field.type) for field in wanted]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=wanted, mask=mask)


def _conform_union(array: pa.UnionArray, target: pa.SparseUnionType) -> pa.Array:
    if array.type.num_fields != target.num_fields or not isinstance(array.type, pa.SparseUnionType):
        raise pa.ArrowInvalid("unions differ in their members")
    children = [_conform(array.field(i), target.field(i).type) for i in range(target.num_fields)]
    names = [target.field(i).name for i in range(target.num_fields)]
    return pa.UnionArray.from_sparse(array.type_codes, children, names, list(target.type_codes))


def _wrap(array: pa.Array, target: pa.BaseExtensionType) -> pa.Array:
    storage = array.storage if isinstance(array, pa.ExtensionArray) else array
    kind = _kind(target)
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
        for number in decimals.to_pylist()
    ]
    return pa.array(values, pa.binary(16))


def _timetz_bytes(times: pa.Array) -> pa.Array:
    """Encode local times at offset zero, which is all that a plain TIME says."""
    micros = times.cast(pa.time64("us")).cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    bits = (micros.astype(np.uint64) << np.uint64(24)) | np.uint64(_UTC_OFFSET_BITS)
    packed = pa.Array.from_buffers(
        pa.binary(8), len(times), [None, pa.py_buffer(bits.astype("<u8").tobytes())]
    )
    return pc.if_else(times.is_valid(), packed, pa.scalar(None, pa.binary(8)))
