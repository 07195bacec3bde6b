"""View columns on their way out: a slice of a few rows keeps the text of the whole column.

pyarrow truncates the buffers of every other type to what a slice shows; those of views it sends in full.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from sparkport.protocol.ipc.column_checks import is_view, spelled_bytes

__all__ = ["compact"]

_RAW_VIEW = pa.binary(16)


def compact(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Copy the text of view columns that show less than half of what they keep."""
    for index, data_type in enumerate(batch.schema.types):
        if is_view(data_type):
            column = batch.column(index)
            kept = sum(buffer.size for buffer in column.buffers()[2:])
            if kept > 2 * spelled_bytes(column):
                flat = pa.large_string() if pa.types.is_string_view(data_type) else pa.large_binary()
                copied = _without_views_of_nulls(column).cast(flat).cast(data_type)
                batch = batch.set_column(index, batch.schema.field(index), copied)
    return batch


def _without_views_of_nulls(views: pa.Array) -> pa.Array:
    # The view of a null may hold anything, and the cast would follow it.
    valid = views.is_valid()
    raw = pa.Array.from_buffers(_RAW_VIEW, len(views), [None, views.buffers()[1]], offset=views.offset)
    cleared = pc.if_else(valid, raw, pa.scalar(bytes(_RAW_VIEW.byte_width), _RAW_VIEW))
    buffers = [valid.buffers()[1], cleared.buffers()[1], *views.buffers()[2:]]
    return pa.Array.from_buffers(views.type, len(views), buffers)
