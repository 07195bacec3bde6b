"""How large rows are."""

from __future__ import annotations

import pyarrow as pa


def byte_size(batch: pa.RecordBatch) -> int:
    """Return the bytes that the rows of a batch take, which may be a part of a larger one.

    With nested columns these are the bytes of a message: Arrow's `nbytes` reads the offsets of lists of no
    rows inside of others, which need not be there, and crashes.
    """
    if any(_is_nested(field.type) for field in batch.schema):
        return int(pa.ipc.get_record_batch_size(batch))
    return int(batch.nbytes)


def _is_nested(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.BaseExtensionType):
        return _is_nested(kind.storage_type)
    if isinstance(kind, pa.DictionaryType):
        return _is_nested(kind.value_type)
    return bool(pa.types.is_nested(kind))
