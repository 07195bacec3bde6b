"""Rows for a client that counts them and looks at no value.

DuckDB has no way to ask for a number of rows: it asks for some column and counts its values. Here that column
is nulls, which compress to almost nothing, and the other columns, which the client never touches, are
nulls without the memory that would be under them. A reader that looked at those would find too few bytes.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator

import pyarrow as pa

from sparkport.protocol.ipc.flight_data import Encoder, encode_frame
from sparkport.protocol.ipc.limits import batch_buffers
from sparkport.toolkit.bounded_cache import BoundedCache

_MAX_BATCH_BITS = 17
_MAX_CACHED = 1024
_ALIGNMENT = 8
_PAIR = struct.Struct("<qq")
_LENGTH = struct.Struct("<q")

_FRAMES: BoundedCache[tuple[bytes, int, int], list[bytes]] = BoundedCache(_MAX_CACHED)


def counted_rows(arrow_schema: pa.Schema, column: int, count: int) -> Iterator[bytes]:
    """Yield a DoGet stream of `count` rows for a client that asked for one column to count them."""
    columns = pa.schema([field.with_nullable(nullable=True) for field in arrow_schema], arrow_schema.metadata)
    schema_frame = Encoder(columns).schema()
    yield schema_frame
    dictionaries_sent = False
    for size in _batch_sizes(count):
        key = schema_frame, column, size
        frames = _FRAMES.get(key)
        if frames is None:
            frames = _frames(columns, column, size)
            _FRAMES.put(key, frames)
        yield from frames[-1:] if dictionaries_sent else frames
        dictionaries_sent = True


def _batch_sizes(count: int) -> Iterator[int]:
    """Cut a number into powers of two: few different batches, which are kept, make up any number of rows."""
    yield from itertools.repeat(1 << _MAX_BATCH_BITS, count >> _MAX_BATCH_BITS)
    yield from (1 << bit for bit in reversed(range(_MAX_BATCH_BITS)) if count >> bit & 1)


def _frames(arrow_schema: pa.Schema, column: int, count: int) -> list[bytes]:
    """Return the messages of the dictionaries, then that of the rows."""
    encoder = Encoder(arrow_schema, compression="lz4")
    *dictionaries, (header, pieces) = encoder.messages(_nulls(arrow_schema, count))
    body = memoryview(b"".join(pieces))
    buffers, pairs_at, length_at = batch_buffers(header)
    first = _buffer_count(arrow_schema, column)
    kept = range(first, _buffer_count(arrow_schema, column + 1))
    changed = bytearray(header)
    parts: list[memoryview | bytes] = []
    end = 0
    for number, (offset, length) in enumerate(buffers):
        size = length if number in kept else 0
        _PAIR.pack_into(changed, pairs_at + _PAIR.size * number, end, size)
        padding = -size % _ALIGNMENT
        parts += (body[offset : offset + size], bytes(padding))
        end += size + padding
    _LENGTH.pack_into(changed, length_at, end)
    return [encode_frame(*message) for message in dictionaries] + [encode_frame(bytes(changed), parts)]


def _buffer_count(arrow_schema: pa.Schema, columns: int) -> int:
    """Return how many buffers the first columns of a batch have."""
    some = pa.schema(list(arrow_schema)[:columns])
    if not columns:
        return 0
    *_, (header, _) = Encoder(some).messages(_nulls(some, 1))
    return len(batch_buffers(header)[0])


def _nulls(arrow_schema: pa.Schema, count: int) -> pa.RecordBatch:
    return pa.record_batch([pa.nulls(count, field.type) for field in arrow_schema], schema=arrow_schema)
