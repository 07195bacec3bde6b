"""Column statistics in the one-row form that the Airport client reads."""

from __future__ import annotations

import pyarrow as pa

from sparkport.catalog.tables import ColumnStatistics

# The client takes a null bound of texts for a text, and compares the first eight bytes.
_GREATEST_TEXT = "\U0010ffff" * 2
_LONG_TEXT = 64


def encode(statistics: ColumnStatistics, field: pa.Field) -> bytes:
    """Return an IPC stream with one row; minimum and maximum have the column's type."""
    texts = _is_text(field)
    columns = {
        "min": _bound(statistics.minimum, field.type, "" if texts else None),
        "max": _bound(statistics.maximum, field.type, _GREATEST_TEXT if texts else None),
        "has_not_null": pa.array([statistics.has_not_null]),
        "has_null": pa.array([statistics.has_null]),
        "distinct_count": pa.array([statistics.distinct_count], pa.uint64()),
    }
    if texts:
        # The client takes null for text here, so the optional fields come only when known.
        if statistics.contains_unicode is not None:
            columns["contains_unicode"] = pa.array([statistics.contains_unicode])
        if statistics.max_string_length is not None:
            columns["max_string_length"] = pa.array([statistics.max_string_length], pa.uint64())
    fields = [
        field.with_name(name).with_nullable(nullable=True)
        if name in {"min", "max"}
        else pa.field(name, a.type)
        for name, a in columns.items()
    ]
    batch = pa.RecordBatch.from_arrays(list(columns.values()), schema=pa.schema(fields))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def _bound(value: pa.Scalar, arrow_type: pa.DataType, widest: str | None) -> pa.Array:
    """Return a bound as a column; `widest` is the bound of texts that shuts nothing out."""
    storage_type = arrow_type.storage_type if isinstance(arrow_type, pa.BaseExtensionType) else arrow_type
    plain = value.value if isinstance(value, pa.ExtensionScalar) else value
    if plain is None or not plain.is_valid:
        storage = pa.array([widest], storage_type)
    elif widest is not None:
        text = plain.as_py()
        storage = pa.array([text if len(text) <= _LONG_TEXT else text[:_LONG_TEXT] + widest], storage_type)
    else:
        storage = pa.repeat(plain, 1).cast(storage_type)  # not through Python: it has no infinite dates
    if isinstance(arrow_type, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(arrow_type, storage)
    return storage


def _is_text(field: pa.Field) -> bool:
    arrow_type = field.type
    if isinstance(arrow_type, pa.BaseExtensionType):
        arrow_type = arrow_type.storage_type
    return bool(pa.types.is_string(arrow_type) or pa.types.is_large_string(arrow_type))
