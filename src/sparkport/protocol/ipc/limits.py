"""What one Arrow IPC message claims, read from its flatbuffer before pyarrow acts on it.

pyarrow verifies a flatbuffer, then trusts its numbers: it allocates what a compressed buffer says it
unpacks to, and resizes vectors to counts it reads. So the numbers are checked here first, each against
the bytes that really came or against a limit.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sparkport.errors import InvalidRequestError, LimitExceededError

__all__ = [
    "DEFAULT_LIMITS",
    "Limits",
    "Message",
    "MessageKind",
    "batch_buffers",
    "body_length",
    "inspect",
]


@dataclass(frozen=True, slots=True)
class Limits:
    """Hold how much one incoming stream may ask for."""

    decompressed_bytes: int = 1 << 30
    """Bytes of all buffers of one message after decompression, and of the dictionaries kept at one time."""
    nesting_depth: int = 64
    columns: int = 20_000
    """Fields of a schema, nested ones included."""
    rows: int = (1 << 31) - 1
    """Rows of one batch."""
    rows_without_bytes: int = 1 << 20
    """Rows of one batch however few bytes it has: nulls, runs and rows without columns need none."""


DEFAULT_LIMITS = Limits()


class MessageKind(enum.IntEnum):
    """Name the messages a stream may hold (tensors may not)."""

    SCHEMA = 1
    DICTIONARY = 2
    BATCH = 3


@dataclass(frozen=True, slots=True)
class Message:
    """Hold what the reader of a stream needs to know about one message."""

    kind: MessageKind
    body_length: int
    size: int = 0
    """Bytes of the buffers after decompression."""
    is_compressed: bool = False
    dictionary_id: int = 0
    is_delta: bool = False


# Slots of the flatbuffer tables in Message.fbs and Schema.fbs of Apache Arrow.
_MESSAGE_VERSION, _MESSAGE_TYPE, _MESSAGE_HEADER, _MESSAGE_BODY_LENGTH = range(4)
_SCHEMA_ENDIANNESS, _SCHEMA_FIELDS = range(2)
_FIELD_NAME, _, _FIELD_TYPE_TYPE, _FIELD_TYPE, _, _FIELD_CHILDREN = range(6)
_DICTIONARY_ID, _DICTIONARY_DATA, _DICTIONARY_IS_DELTA = range(3)
_BATCH_LENGTH, _BATCH_NODES, _BATCH_BUFFERS, _BATCH_COMPRESSION, _BATCH_VARIADIC_COUNTS = range(5)
_TIMESTAMP_TIMEZONE = 1
_DECIMAL_SCALE = 1
_MAX_DECIMAL_DIGITS = 76
_INTERVAL_UNIT = 0
_MONTH_DAY_NANO = 2
_VERSION_V4, _VERSION_V5 = 3, 4

_PAIR_BYTES = 16
_PREFIX_BYTES = 8
_ALIGNMENT = 8
_STORED_AS_IS = -1
_ROWS_PER_BYTE = 8  # booleans; all else that is written out needs more

_uint8 = struct.Struct("<B").unpack_from
_int16 = struct.Struct("<h").unpack_from
_uint16 = struct.Struct("<H").unpack_from
_int32 = struct.Struct("<i").unpack_from
_uint32 = struct.Struct("<I").unpack_from
_int64 = struct.Struct("<q").unpack_from
_pairs = struct.Struct("<qq").iter_unpack
_offsets = struct.Struct("<I").iter_unpack


def body_length(header: bytes) -> int:
    """Read how many bytes of body follow a message."""
    return _root(header).int64(_MESSAGE_BODY_LENGTH)


def batch_buffers(header: bytes) -> tuple[list[tuple[int, int]], int, int]:
    """Read where the buffers of a batch lie in its body, and where the header says it.

    Returns offset and length of each, the position of the first of these pairs, and the position of the
    length of the body.
    """
    root = _root(header)
    content = root.table(_MESSAGE_HEADER)
    assert content is not None
    return (
        list(content.pairs(_BATCH_BUFFERS)),
        content.position(_BATCH_BUFFERS),
        root.at(_MESSAGE_BODY_LENGTH),
    )


def inspect(header: bytes, body: memoryview, limits: Limits) -> Message:
    """Check the claims of one message against its bytes and the limits."""
    try:
        return _inspect(header, body, limits)
    except (struct.error, UnicodeDecodeError) as error:
        raise InvalidRequestError("the Arrow message is damaged") from error


def _inspect(header: bytes, body: memoryview, limits: Limits) -> Message:
    root = _root(header)
    content = root.table(_MESSAGE_HEADER)
    length = root.int64(_MESSAGE_BODY_LENGTH)
    version = root.int16(_MESSAGE_VERSION)
    if content is None or not 0 <= length <= len(body):
        raise InvalidRequestError("the Arrow message does not fit its body")
    # Version 4 could name a compression in its metadata, out of sight of the sums below.
    if version != _VERSION_V5 and (version != _VERSION_V4 or b"ARROW:experimental_compression" in header):
        raise InvalidRequestError("the Arrow message has an unsupported metadata version")
    body = body[:length]
    match root.uint8(_MESSAGE_TYPE):
        case MessageKind.SCHEMA:
            _check_schema(content, limits)
            return Message(MessageKind.SCHEMA, length)
        case MessageKind.BATCH:
            return Message(MessageKind.BATCH, length, _size(content, body, limits), _is_compressed(content))
        case MessageKind.DICTIONARY:
            data = content.table(_DICTIONARY_DATA)
            if data is None:
                raise InvalidRequestError("the Arrow dictionary has no data")
            return Message(
                MessageKind.DICTIONARY,
                length,
                _size(data, body, limits),
                _is_compressed(data),
                content.int64(_DICTIONARY_ID),
                bool(content.uint8(_DICTIONARY_IS_DELTA)),
            )
        case _:
            raise InvalidRequestError("the Arrow message is neither a schema nor a batch")


def _check_schema(schema: _Table, limits: Limits) -> None:
    if schema.int16(_SCHEMA_ENDIANNESS) != 0:
        raise InvalidRequestError("big-endian Arrow data is not supported")
    # Tables may be shared, so the walk counts visits, not tables: a small message can spell a vast tree.
    seen = 0
    todo = [(field, 1) for field in schema.tables(_SCHEMA_FIELDS, limits.columns)]
    while todo:
        field, depth = todo.pop()
        seen += 1
        if depth > limits.nesting_depth:
            raise LimitExceededError(
                f"the columns are nested deeper than the limit of {limits.nesting_depth}"
            )
        _check_field(field)
        spare = limits.columns - seen - len(todo)
        todo.extend((child, depth + 1) for child in field.tables(_FIELD_CHILDREN, spare))


def _check_field(field: _Table) -> None:
    """Refuse what pyarrow reads and then fails or crashes on when it is used."""
    field.string(_FIELD_NAME).decode()
    parameters = field.table(_FIELD_TYPE)
    match field.uint8(_FIELD_TYPE_TYPE):
        case 7 if parameters and abs(parameters.int32(_DECIMAL_SCALE)) > _MAX_DECIMAL_DIGITS:  # Decimal
            raise InvalidRequestError(f"decimals have at most {_MAX_DECIMAL_DIGITS} digits after the point")
        case 10 if parameters:  # Timestamp
            parameters.string(_TIMESTAMP_TIMEZONE).decode()
        case 11 if not parameters or parameters.int16(_INTERVAL_UNIT) != _MONTH_DAY_NANO:  # Interval
            raise InvalidRequestError("intervals must be of months, days and nanoseconds")


def _size(batch: _Table, body: memoryview, limits: Limits) -> int:
    lengths = [batch.int64(_BATCH_LENGTH), *(rows for rows, _ in batch.pairs(_BATCH_NODES))]
    if min(lengths) < 0:
        raise InvalidRequestError("the Arrow batch has a negative number of rows")
    if max(lengths) > limits.rows:
        raise LimitExceededError(f"the batch has {max(lengths)} rows, the limit is {limits.rows}")
    buffers = list(batch.pairs(_BATCH_BUFFERS))
    if any(offset < 0 or length < 0 or offset + length > len(body) for offset, length in buffers):
        raise InvalidRequestError("the Arrow batch has a buffer outside its body")
    if any(offset % _ALIGNMENT for offset, _ in buffers):
        raise InvalidRequestError("the Arrow batch has a buffer that is not aligned to 8 bytes")
    # pyarrow makes room for as many buffers as a view column claims; each claim must have its buffers.
    counts = batch.int64s(_BATCH_VARIADIC_COUNTS)
    if any(count < 0 for count in counts) or sum(counts) > len(buffers):
        raise InvalidRequestError("the Arrow batch claims more buffers than it has")
    if _is_compressed(batch):
        size = sum(_unpacked(body[offset : offset + length]) for offset, length in buffers if length)
    else:
        size = sum(length for _, length in buffers)
    if size > limits.decompressed_bytes:
        raise LimitExceededError(
            f"the batch unpacks to {size} bytes, the limit is {limits.decompressed_bytes} bytes"
        )
    if max(lengths) > max(limits.rows_without_bytes, _ROWS_PER_BYTE * size):
        raise LimitExceededError(
            f"the batch has {max(lengths)} rows in {size} bytes; a message of so few bytes has at most"
            f" {limits.rows_without_bytes} rows"
        )
    return size


def _is_compressed(batch: _Table) -> bool:
    return batch.table(_BATCH_COMPRESSION) is not None


def _unpacked(buffer: memoryview) -> int:
    length = int(_int64(buffer)[0])
    if length < _STORED_AS_IS:
        raise InvalidRequestError("the Arrow batch has a compressed buffer of negative length")
    return len(buffer) - _PREFIX_BYTES if length == _STORED_AS_IS else length


def _root(header: bytes) -> _Table:
    return _Table(header, _uint32(header)[0])


class _Table:
    """Read one flatbuffer table; every read outside the bytes raises struct.error."""

    __slots__ = ("_data", "_position", "_slots", "_vtable")

    def __init__(self, data: bytes, position: int) -> None:
        self._data = data
        self._position = position
        self._vtable = position - int(_int32(data, position)[0])
        # struct counts a negative offset from the end, so it would not refuse this one.
        if self._vtable < 0:
            raise struct.error("vtable before the start")
        self._slots = (_uint16(data, self._vtable)[0] - 4) // 2

    def at(self, slot: int) -> int:
        return self._at(slot)

    def position(self, slot: int) -> int:
        return self._vector(slot)[0]

    def int16(self, slot: int) -> int:
        return self._scalar(_int16, slot)

    def int32(self, slot: int) -> int:
        return self._scalar(_int32, slot)

    def int64(self, slot: int) -> int:
        return self._scalar(_int64, slot)

    def uint8(self, slot: int) -> int:
        return self._scalar(_uint8, slot)

    def table(self, slot: int) -> _Table | None:
        at = self._target(slot)
        return _Table(self._data, at) if at else None

    def string(self, slot: int) -> bytes:
        at, count = self._vector(slot)
        return self._bytes(at, count)

    def tables(self, slot: int, limit: int) -> Iterator[_Table]:
        at, count = self._vector(slot)
        if count > limit:
            raise LimitExceededError("the schema has more columns than the limit")
        for element, (offset,) in enumerate(_offsets(self._bytes(at, 4 * count))):
            yield _Table(self._data, at + 4 * element + offset)

    def pairs(self, slot: int) -> Iterator[tuple[int, int]]:
        at, count = self._vector(slot)
        return _pairs(self._bytes(at, _PAIR_BYTES * count))

    def int64s(self, slot: int) -> tuple[int, ...]:
        at, count = self._vector(slot)
        return struct.unpack_from(f"<{count}q", self._bytes(at, 8 * count))

    def _scalar(self, read: Callable[[bytes, int], tuple[int]], slot: int) -> int:
        at = self._at(slot)
        return read(self._data, at)[0] if at else 0

    def _vector(self, slot: int) -> tuple[int, int]:
        at = self._target(slot)
        return (at + 4, int(_uint32(self._data, at)[0])) if at else (0, 0)

    def _target(self, slot: int) -> int:
        at = self._at(slot)
        return at + int(_uint32(self._data, at)[0]) if at else 0

    def _at(self, slot: int) -> int:
        if slot >= self._slots:
            return 0
        offset = int(_uint16(self._data, self._vtable + 4 + 2 * slot)[0])
        return self._position + offset if offset else 0

    def _bytes(self, at: int, length: int) -> bytes:
        if at + length > len(self._data):
            raise struct.error("vector past the end")
        return self._data[at : at + length]
