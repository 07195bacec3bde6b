"""The size of rows in bytes."""

from __future__ import annotations

import pyarrow as pa


def byte_size(batch: pa.RecordBatch) -> int:
    """Return the size of the rows of a batch, which may be a slice of a larger one.

    With nested columns it is the size of an IPC message: Arrow's `nbytes` reads the offsets of nested
    lists without rows, which may be missing, and crashes.
    """
    if any(_is_nested(field.type) for field in batch.schema):
        return int(pa.ipc.get_record_batch_size(batch))
    return int(batch.nbytes)


def _is_nested(arrow_type: pa.DataType) -> bool:
    if isinstance(arrow_type, pa.BaseExtensionType):
        return _is_nested(arrow_type.storage_type)
    if isinstance(arrow_type, pa.DictionaryType):
        return _is_nested(arrow_type.value_type)
    return bool(pa.types.is_nested(arrow_type))
