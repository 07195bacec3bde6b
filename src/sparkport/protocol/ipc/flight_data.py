"""FlightData: the protobuf frame that carries one Arrow IPC message, and streams of such frames.

A frame is cut and joined by hand. A batch is copied once on its way out (the join), and on its way in
only where its buffers are compressed or misaligned. A small one is copied once more: DuckDB calls
functions with 16 KB at a time, and then the steps count, not the bytes.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pyarrow as pa

from sparkport.errors import InvalidRequestError, LimitExceededError
from sparkport.protocol.ipc import column_checks, flat_size, shared_buffers, view_columns
from sparkport.protocol.ipc.limits import DEFAULT_LIMITS, Limits, Message, MessageKind, body_length, inspect
from sparkport.protocol.ipc.shared_buffers import FileSlice

__all__ = ["Decoder", "Encoder", "FlightData", "Limits", "decode", "encode_frame", "encode_metadata"]

# A protobuf tag is the field number and the wire type; all four fields are length-delimited.
_DESCRIPTOR = 1 << 3 | 2
_HEADER = 2 << 3 | 2
_APP_METADATA = 3 << 3 | 2
_BODY = 1000 << 3 | 2
_MAX_TAG = (1 << 32) - 1
_MAX_VARINT_BITS = 64

_MAX_SLACK_BYTES = 256 << 10  # of a message beside its body: a schema may be as large
# What of a body, beside its rows, is kept with them: the share of a length or two, and of alignment.
_SLACK_SHARE = 8
_MIN_SLACK_BYTES = 1 << 10
_CONTINUATION = b"\xff\xff\xff\xff"
_PREFIX_BYTES = 8
_DETAIL_LENGTH = 200
_ALIGNMENT = 8
_SMALL_BYTES = 1 << 16
_SMALL_ROWS = _SMALL_BYTES // 8


class FlightData(NamedTuple):
    """Hold the fields of one frame; the views share the memory of the frame."""

    descriptor: bytes | None
    """The serialized FlightDescriptor, None where the field is absent."""
    header: memoryview
    app_metadata: bytes
    body: memoryview


def decode(frame: bytes) -> FlightData:
    """Cut a frame into its fields without copying the body."""
    view = memoryview(frame)
    descriptor: bytes | None = None
    header = body = view[:0]
    app_metadata = b""
    at = 0
    while at < len(view):
        tag, at = _read_varint(view, at)
        start, at = _field_range(view, at, tag)
        if tag == _BODY:
            body = view[start:at]
        elif tag == _HEADER:
            header = view[start:at]
        elif tag == _APP_METADATA:
            app_metadata = bytes(view[start:at])
        elif tag == _DESCRIPTOR:
            # Protobuf merges a message field that comes twice, and merging is concatenation.
            descriptor = (descriptor or b"") + bytes(view[start:at])
    return FlightData(descriptor, header, app_metadata, body)


def encode_metadata(app_metadata: bytes) -> bytes:
    """Build a frame that carries nothing but app_metadata."""
    return b"".join((_varint(_APP_METADATA), _varint(len(app_metadata)), app_metadata))


class Encoder:
    """Turn one outgoing stream of batches into frames."""

    def __init__(self, arrow_schema: pa.Schema, *, compression: str | None = None) -> None:
        self._arrow_schema = arrow_schema
        self._pipe = _Pipe()
        options = pa.ipc.IpcWriteOptions(compression=compression)
        self._writer = pa.ipc.new_stream(self._pipe, arrow_schema, options=options)
        self._started = False
        self._has_views = any(map(column_checks.is_view, arrow_schema.types))
        # One column shares no buffer with another; of such a type its size is known.
        self._is_plain = len(arrow_schema) == 1 and pa.types.is_primitive(arrow_schema.types[0])

    def schema(self, descriptor: bytes | None = None) -> bytes:
        """Build the schema message, which is sent once and first."""
        header = self._arrow_schema.serialize()[_PREFIX_BYTES:]
        named = () if descriptor is None else (_varint(_DESCRIPTOR), _varint(len(descriptor)), descriptor)
        return b"".join((*named, _varint(_HEADER), _varint(len(header)), header))

    def batch(self, batch: pa.RecordBatch, app_metadata: bytes = b"") -> list[bytes]:
        """Build the messages of the dictionaries that changed, then of the batch with its metadata."""
        if self._has_views:
            batch = view_columns.compact(batch)
        if self._is_plain and batch.num_rows <= _SMALL_ROWS:
            return [_small_frame(batch, app_metadata)]
        *dictionaries, rows = self.messages(batch)
        if batch.num_columns > 1:
            rows = shared_buffers.send_once(*rows)
        return [encode_frame(header, body) for header, body in dictionaries] + [
            encode_frame(*rows, app_metadata)
        ]

    def messages(self, batch: pa.RecordBatch) -> list[tuple[bytes, list[FileSlice]]]:
        """Return header and body of the same messages, not yet in frames."""
        self._writer.write_batch(batch)
        messages = list(self._messages())
        if not self._started:
            # pyarrow writes its schema message along with the first batch; `schema` has built ours.
            del messages[0]
            self._started = True
        return messages

    def _messages(self) -> Iterator[tuple[bytes, list[FileSlice]]]:
        while self._pipe:
            prefix = bytes(self._pipe.read(_PREFIX_BYTES))
            header = bytes(self._pipe.read(int.from_bytes(prefix[4:], "little")))
            yield header, self._pipe.take(body_length(header))


class Decoder:
    """Turn one incoming stream of frames into batches, asking for frames only as batches are asked for."""

    def __init__(
        self,
        frames: Iterator[FlightData],
        limits: Limits = DEFAULT_LIMITS,
        hold: Callable[[int], None] = lambda _: None,
        count: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Make a decoder; `hold` gets the bytes that the stream takes from now on, before it takes them.

        What it raises ends the stream. `count` gets the number of rows of each batch.
        """
        self._count = count
        self._frames = frames
        self._limits = limits
        self._hold = hold
        self._pipe = _Pipe()
        self._reader: pa.RecordBatchReader | None = None
        self._to_check: list[int] = []
        self._expanding: list[int] = []
        self._failed = False
        self._dictionaries = _DictionarySizes(limits.decompressed_bytes)
        self._has_dictionaries = False
        self._last = (b"", 0, Message(MessageKind.SCHEMA, 0))

    @property
    def arrow_schema(self) -> pa.Schema:
        """Read up to the schema message, once, and return the columns it announces."""
        return self._open().schema

    def __iter__(self) -> Iterator[tuple[pa.RecordBatch, bytes]]:
        """Yield each batch with the app_metadata of its message."""
        reader = self._open()
        for frame, header, message in self._arrow_messages():
            match message.kind:
                case MessageKind.SCHEMA:
                    raise InvalidRequestError("the stream has a second schema message")
                case MessageKind.DICTIONARY:
                    self._dictionaries.add(message, len(header))
                    self._hold(self._dictionaries.held + len(frame.body))
                    self._feed(frame, header, message)
                case MessageKind.BATCH:
                    self._dictionaries.waiting = 0
                    batch = self._batch(reader, frame, header, message)
                    self._count(batch.num_rows)
                    yield batch, frame.app_metadata

    def _open(self) -> pa.RecordBatchReader:
        if self._reader is None:
            self._feed(*self._first_message())
            with self._reading("the schema"):
                reader = pa.ipc.open_stream(self._pipe)
                data_types = reader.schema.types
                self._to_check = [
                    i for i, data_type in enumerate(data_types) if column_checks.needs_check(data_type)
                ]
                self._expanding = [
                    i for i, data_type in enumerate(data_types) if flat_size.can_expand(data_type)
                ]
                self._has_dictionaries = any(map(_has_dictionary, data_types))
            self._reader = reader
        return self._reader

    def _first_message(self) -> tuple[FlightData, bytes, Message]:
        for frame, header, message in self._arrow_messages():
            if message.kind is not MessageKind.SCHEMA:
                raise InvalidRequestError("the stream has data before its schema message")
            return frame, header, message
        raise InvalidRequestError("the stream ended before its schema message")

    def _arrow_messages(self) -> Iterator[tuple[FlightData, bytes, Message]]:
        for frame in self._frames:
            if frame.header:
                # A copy of the small header is aligned, and stays what it was when it was inspected.
                header = bytes(frame.header)
                yield frame, header, self._inspected(header, frame.body)

    def _inspected(self, header: bytes, body: memoryview) -> Message:
        last_header, last_length, message = self._last
        if header != last_header or len(body) != last_length:
            message = inspect(header, body, self._limits)
            if not message.is_compressed:  # then the body was not looked into
                self._last = (header, len(body), message)
        return message

    def _feed(self, frame: FlightData, header: bytes, message: Message) -> int:
        """Let pyarrow read a message; return how many bytes its body keeps in memory."""
        # The whole message is in the pipe before pyarrow reads it, so that what `frames` raises never
        # passes through pyarrow, which would wrap it.
        self._pipe.write(_CONTINUATION + len(header).to_bytes(4, "little"))
        self._pipe.write(header)
        # Rows may be kept for long, and with them the message that they are a part of.
        whole = len(memoryview(frame.body.obj))
        is_padded = whole - message.body_length > _MAX_SLACK_BYTES
        self._pipe.write(_aligned(frame.body[: message.body_length], copies=is_padded))
        return message.body_length if is_padded else whole

    def _batch(
        self, reader: pa.RecordBatchReader, frame: FlightData, header: bytes, message: Message
    ) -> pa.RecordBatch:
        unpacked = message.size if message.is_compressed else 0
        held = self._dictionaries.held + len(frame.body) + unpacked
        self._hold(held)
        is_small = message.body_length <= _SMALL_BYTES and not self._has_dictionaries
        kept = len(header) + message.body_length if is_small else self._feed(frame, header, message)
        with self._reading("the batch"):
            if is_small:
                batch = _small_batch(header, frame.body[: message.body_length], reader.schema)
            else:
                batch = reader.read_next_batch()
            # The quick check makes it safe to look at the columns, the full one to use them.
            batch.validate()
            self._check_columns(batch)
            column_checks.validate(batch)
            if self._expanding:
                self._hold(held + self._flat_size(batch))
            return self._compacted(self._normalized(batch), kept + unpacked, held)

    def _compacted(self, batch: pa.RecordBatch, kept: int, held: int) -> pa.RecordBatch:
        """Copy rows out of a message that is much larger than they are.

        Whoever keeps rows counts the bytes of the rows, and would keep the whole message.
        """
        size = pa.ipc.get_record_batch_size(batch)
        if kept - size <= size // _SLACK_SHARE + _MIN_SLACK_BYTES:
            return batch
        self._hold(held + size)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        return pa.ipc.open_stream(sink.getvalue()).read_next_batch()

    def _normalized(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        for index in self._to_check:
            column = batch.column(index)
            usable = column_checks.normalized(column)
            if usable is not column:
                batch = batch.set_column(index, batch.schema.field(index), usable)
        return batch

    def _flat_size(self, batch: pa.RecordBatch) -> int:
        """Return the bytes of what the columns say in fewer, if they are not too many."""
        size = sum(flat_size.flat_size(batch.column(index)) for index in self._expanding)
        limit = self._limits.decompressed_bytes
        if size > limit:
            raise LimitExceededError(
                f"the batch has {size} bytes when all values are written out, the limit is {limit} bytes"
            )
        return size

    def _check_columns(self, batch: pa.RecordBatch) -> None:
        spelled = sum(column_checks.check(batch.column(column)) for column in self._to_check)
        limit = self._limits.decompressed_bytes
        if spelled > limit:
            raise LimitExceededError(
                f"the views of the batch spell {spelled} bytes, the limit is {limit} bytes"
            )

    @contextlib.contextmanager
    def _reading(self, what: str) -> Iterator[None]:
        """Turn what pyarrow raises into our errors, and let nothing be read after a failure."""
        # What a failed read leaves in the pipe was never inspected as a message.
        if self._failed:
            raise InvalidRequestError("the stream is damaged; nothing more can be read from it")
        self._failed = True
        try:
            yield
        except (InvalidRequestError, LimitExceededError):
            raise
        except MemoryError as error:
            raise LimitExceededError(f"{what} does not fit in memory") from error
        except Exception as error:  # the code of an extension type runs in here and may raise anything
            detail = str(error).partition("\n")[0].replace("Invalid: ", "")[:_DETAIL_LENGTH]
            raise InvalidRequestError(f"{what} is not valid Arrow data: {detail}") from error
        self._failed = bool(self._pipe)


class _DictionarySizes:
    """Refuse dictionaries that are small one by one and together without bound."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._sizes: dict[int, int] = {}
        self._kept = 0
        self.waiting = 0

    @property
    def held(self) -> int:
        """The bytes of all dictionaries that are kept or wait to be read."""
        return self._kept + self.waiting

    def add(self, message: Message, header: int) -> None:
        """Count a dictionary that is read with the next batch: one more, a larger one, or a new one."""
        before = self._sizes.get(message.dictionary_id, 0)
        size = max(message.size, message.body_length)  # a body may be larger than what is in it
        after = size + (before if message.is_delta else 0)
        self._sizes[message.dictionary_id] = after
        self._kept += after - before
        self.waiting += size + header
        if max(self._kept, self.waiting) > self._limit:
            raise LimitExceededError(f"the dictionaries unpack to more than the limit of {self._limit} bytes")


class _Pipe:
    """Pass pieces of bytes to and from pyarrow as a file, without copying them."""

    closed = False

    def __init__(self) -> None:
        self._pieces: deque[FileSlice] = deque()

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def write(self, piece: FileSlice) -> None:
        """Add a piece at the end."""
        if len(piece):
            self._pieces.append(piece)

    def read(self, size: int) -> FileSlice:
        """Take at most `size` bytes, never more: pyarrow copies what it gets into `size` bytes of room."""
        pieces = self.take(size)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def take(self, size: int) -> list[FileSlice]:
        """Take the pieces that make up the next `size` bytes, or all where there are fewer."""
        taken: list[FileSlice] = []
        while size > 0 and self._pieces:
            piece = self._pieces.popleft()
            if len(piece) > size:
                self._pieces.appendleft(piece[size:])
                piece = piece[:size]
            taken.append(piece)
            size -= len(piece)
        return taken


def _aligned(body: memoryview, *, copies: bool) -> pa.Buffer:
    """Move a body to an aligned address: gRPC places it anywhere, arrow wants words on word boundaries.

    The read option `ensure_alignment` is no help: it crashes on dictionaries inside of dictionaries.
    """
    buffer = pa.py_buffer(body)
    if buffer.address % _ALIGNMENT == 0 and not copies:
        return buffer
    copy = pa.allocate_buffer(len(body))
    pa.FixedSizeBufferWriter(copy).write(buffer)
    return copy


def _has_dictionary(data_type: pa.DataType) -> bool:
    if isinstance(data_type, pa.BaseExtensionType):
        return _has_dictionary(data_type.storage_type)
    return bool(pa.types.is_dictionary(data_type)) or any(
        _has_dictionary(data_type.field(index).type) for index in range(data_type.num_fields)
    )


def _small_batch(header: bytes, body: memoryview, arrow_schema: pa.Schema) -> pa.RecordBatch:
    """Read a batch in one step, out of a copy in which header and body are next to each other, aligned."""
    padding = bytes(-len(header) % _ALIGNMENT)
    length = (len(header) + len(padding)).to_bytes(4, "little")
    whole = b"".join((_CONTINUATION, length, header, padding, body))
    return pa.ipc.read_record_batch(pa.py_buffer(whole), arrow_schema)


def _small_frame(batch: pa.RecordBatch, app_metadata: bytes) -> bytes:
    """Build the frame of a batch in one step, out of a copy."""
    whole = memoryview(batch.serialize())
    end = _PREFIX_BYTES + int.from_bytes(whole[4:_PREFIX_BYTES], "little")
    return encode_frame(whole[_PREFIX_BYTES:end], [whole[end:]], app_metadata)


def encode_frame(header: bytes | memoryview, body: list[FileSlice], app_metadata: bytes = b"") -> bytes:
    """Build the frame of a message."""
    named = (_varint(_APP_METADATA), _varint(len(app_metadata)), app_metadata) if app_metadata else ()
    size = sum(map(len, body))
    return b"".join(
        (_varint(_HEADER), _varint(len(header)), header, *named, _varint(_BODY), _varint(size), *body)
    )


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:  # noqa: PLR2004
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _read_varint(view: memoryview, at: int) -> tuple[int, int]:
    number = shift = 0
    while at < len(view) and shift < _MAX_VARINT_BITS:
        byte = view[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004
            return number, at
        shift += 7
    raise InvalidRequestError("the FlightData message is damaged: a number does not end")


def _field_range(view: memoryview, at: int, tag: int) -> tuple[int, int]:
    """Find where the value of a field starts and ends."""
    if not 1 << 3 <= tag <= _MAX_TAG:
        raise InvalidRequestError("the FlightData message is damaged: no such field number")
    match tag & 7:
        case 0:
            start, end = at, _read_varint(view, at)[1]
        case 1:
            start, end = at, at + 8
        case 2:
            length, start = _read_varint(view, at)
            end = start + length
        case 5:
            start, end = at, at + 4
        case _:
            raise InvalidRequestError("the FlightData message is damaged: no such wire type")
    if end > len(view):
        raise InvalidRequestError("the FlightData message is damaged: a field goes past the end")
    return start, end
