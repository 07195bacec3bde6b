"""Values on their way to storage and back."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from sparkport.errors import InvalidRequestError, SchemaMismatchError
from sparkport.spark.types.codec import Codec
from sparkport.spark.types.errors import BatchTooLargeError, StoredValueError
from sparkport.spark.types.fields import codec_of


def encode(values: pa.Array | pa.ChunkedArray, field: pa.Field) -> pa.Array:
    """Return the stored form of exact values; the same array where nothing needs to be done.

    Raises SchemaMismatchError for values of another type and InvalidRequestError for a value that
    the type should not have, such as a date64 in the middle of a day.
    """
    codec = codec_of(field)
    if values.type != field.type:
        raise SchemaMismatchError(f"column '{field.name}' is {field.type}, not {values.type}")
    chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
    try:
        return _join([codec.encode(chunk) for chunk in chunks], codec.storage)
    except pa.ArrowInvalid as error:
        raise InvalidRequestError(f"column '{field.name}' cannot be stored: {error}") from error


def decode(values: pa.Array | pa.ChunkedArray, field: pa.Field) -> pa.Array:
    """Return the exact values of stored ones, which may have any Arrow layout of their type.

    Fields of structs are taken by position. Raises StoredValueError for what somebody else has
    written into the table and is no value of the exact type, and BatchTooLargeError for more rows or
    distinct values than a run-end or dictionary type counts.
    """
    codec = codec_of(field)
    array = _join(values.chunks, values.type) if isinstance(values, pa.ChunkedArray) else values
    return _decode_array(array, field, codec)


def encode_batch(batch: pa.RecordBatch, arrow_schema: pa.Schema) -> pa.RecordBatch:
    """Return the stored form of a batch that has these columns, or some of them."""
    fields = [arrow_schema.field(name) for name in batch.schema.names]
    arrays = [encode(array, field) for array, field in zip(batch.columns, fields, strict=True)]
    stored = [
        pa.field(field.name, array.type, field.nullable) for array, field in zip(arrays, fields, strict=True)
    ]
    return _batch(arrays, stored, batch.num_rows)


def decode_batch(batch: pa.RecordBatch, arrow_schema: pa.Schema) -> pa.RecordBatch:
    """Return the exact form of a stored batch that has these columns, or some of them."""
    fields = [arrow_schema.field(name) for name in batch.schema.names]
    arrays = [decode(array, field) for array, field in zip(batch.columns, fields, strict=True)]
    return _batch(arrays, fields, batch.num_rows)


def decode_batches(batch: pa.RecordBatch, arrow_schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the exact form of a stored batch, in halves where a type cannot count its rows."""
    try:
        decoded = decode_batch(batch, arrow_schema)
    except BatchTooLargeError:
        if batch.num_rows <= 1:
            raise
    else:
        yield decoded
        return
    half = batch.num_rows // 2
    yield from decode_batches(batch.slice(0, half), arrow_schema)
    yield from decode_batches(batch.slice(half), arrow_schema)


def _decode_array(array: pa.Array, field: pa.Field, codec: Codec) -> pa.Array:
    try:
        return codec.decode(array)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise StoredValueError(str(field.type), str(error), column=field.name) from error


def _join(chunks: list[pa.Array], kind: pa.DataType) -> pa.Array:
    match chunks:
        case []:
            return pa.array([], kind)
        case [only]:
            return only
        case _:
            return pa.concat_arrays(chunks)


def _batch(arrays: list[pa.Array], fields: list[pa.Field], rows: int) -> pa.RecordBatch:
    if not arrays:
        # A batch without columns still has rows.
        return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
