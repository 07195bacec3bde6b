from __future__ import annotations

import struct

import pyarrow as pa
import pytest

from sparkport.errors import InvalidRequestError, LimitExceededError
from sparkport.protocol.ipc import limits as ipc_limits
from sparkport.protocol.ipc.flight_data import Decoder, Encoder, Limits, decode

from .arrow_samples import batches, frame, frames_of, ipc_stream

NUMBERS = pa.record_batch({"a": pa.array([1, 2, 3]), "b": pa.array([4, 5, 6])})


def read(frames: list[bytes], limits: Limits = ipc_limits.DEFAULT_LIMITS) -> list[pa.RecordBatch]:
    """Decode a stream."""
    return [batch for batch, _ in Decoder(map(decode, frames), limits)]


def header_table(header: bytes) -> ipc_limits._Table:
    """Find the table of the schema or batch in a message."""
    table = ipc_limits._root(header).table(ipc_limits._MESSAGE_HEADER)
    assert table is not None
    return table


def patched(message: bytes, at: int, value: bytes) -> bytes:
    """Overwrite bytes of the header of a message."""
    data = decode(message)
    header = bytearray(data.header)
    header[at : at + len(value)] = value
    return frame(bytes(header), bytes(data.body))


def type_of_first_field(header: bytes) -> ipc_limits._Table:
    """Find the type table of the first column of a schema message."""
    fields = header_table(header).tables(ipc_limits._SCHEMA_FIELDS, 1)
    kind = next(fields).table(ipc_limits._FIELD_TYPE)
    assert kind is not None
    return kind


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_batch_that_unpacks_past_the_limit_is_refused(compression: str) -> None:
    """A small message that unpacks to much is refused before it is unpacked."""
    zeros = pa.record_batch({"z": pa.array([0] * 100_000, pa.int64())})
    frames = frames_of(ipc_stream(zeros, compression=compression))

    assert len(frames[1]) < 10_000
    assert read(frames, Limits(decompressed_bytes=800_000))[0].equals(zeros)
    with pytest.raises(LimitExceededError) as caught:
        read(frames, Limits(decompressed_bytes=799_999))
    assert str(caught.value) == "the batch unpacks to 800000 bytes, the limit is 799999 bytes"


def test_claimed_length_of_a_compressed_buffer_is_not_trusted() -> None:
    """A buffer that says it unpacks to an exabyte allocates nothing."""
    zeros = pa.record_batch({"z": pa.array([0] * 1_000, pa.int64())})
    schema, batch = frames_of(ipc_stream(zeros, compression="zstd"))
    data = decode(batch)
    bomb = frame(bytes(data.header), struct.pack("<q", 1 << 60) + bytes(data.body[8:]))
    negative = frame(bytes(data.header), struct.pack("<q", -2) + bytes(data.body[8:]))

    with pytest.raises(LimitExceededError, match=r"^the batch unpacks to 1152921504606846976 bytes"):
        read([schema, bomb])
    with pytest.raises(InvalidRequestError, match="compressed buffer of negative length"):
        read([schema, negative])


def test_each_compressed_body_is_looked_into() -> None:
    """A batch with the header of the one before may still claim another length within its body."""
    zeros = pa.record_batch({"n": pa.array([0] * 100_000, pa.int64())})
    schema, batch = frames_of(ipc_stream(zeros, compression="zstd"))
    claim = (800_000).to_bytes(8, "little")
    assert batch.count(claim) == 1
    more = batch.replace(claim, (900_000).to_bytes(8, "little"))
    limits = Limits(decompressed_bytes=800_000)

    assert len(read([schema, batch, batch], limits)) == 2
    with pytest.raises(LimitExceededError, match="unpacks to 900000 bytes"):
        read([schema, batch, more], limits)


def test_compression_named_in_old_metadata_is_refused() -> None:
    """The way that version 4 named a compression would escape the limit."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(metadata_version=pa.ipc.MetadataVersion.V4)
    with pa.ipc.new_stream(sink, NUMBERS.schema, options=options) as writer:
        writer.write_batch(NUMBERS, custom_metadata={"ARROW:experimental_compression": "zstd"})

    with pytest.raises(InvalidRequestError, match=r"^the Arrow message has an unsupported metadata version$"):
        read(frames_of(sink.getvalue().to_pybytes()))


def test_dictionaries_that_grow_without_end_are_refused() -> None:
    """Each addition to a dictionary is small; the dictionary they make is limited."""
    words = [f"word {number:04}" for number in range(400)]
    rows = [
        pa.record_batch({"d": pa.DictionaryArray.from_arrays([0], words[:count])})
        for count in range(100, 401, 100)
    ]
    frames = frames_of(ipc_stream(*rows, deltas=True))

    assert len(read(frames)) == 4
    with pytest.raises(LimitExceededError) as caught:
        read(frames, Limits(decompressed_bytes=4_000))
    assert str(caught.value) == "the dictionaries unpack to more than the limit of 4000 bytes"


def test_dictionaries_without_a_batch_do_not_pile_up() -> None:
    """Dictionaries that replace each other while no batch comes are limited together."""
    schema, dictionary, _ = frames_of(ipc_stream(batches()["dictionary"]))

    with pytest.raises(LimitExceededError):
        read([schema, *[dictionary] * 100], Limits(decompressed_bytes=4_000))


def test_batch_of_too_many_rows_is_refused() -> None:
    """Columns of type null can claim any number of rows without a byte."""
    schema, batch = frames_of(ipc_stream(pa.record_batch({"n": pa.nulls(1_000)})))
    length = header_table(bytes(decode(batch).header))._at(ipc_limits._BATCH_LENGTH)

    assert read([schema, batch], Limits(rows=1_000))[0].num_rows == 1_000
    with pytest.raises(LimitExceededError, match=r"^the batch has 1000 rows, the limit is 999$"):
        read([schema, batch], Limits(rows=999))
    with pytest.raises(
        LimitExceededError, match=r"^the batch has 1099511627776 rows, the limit is 2147483647$"
    ):
        read([schema, patched(batch, length, struct.pack("<q", 1 << 40))])


def test_deep_nesting_is_refused() -> None:
    """Columns may be nested as deep as the limit and no deeper."""
    kind = pa.int8()
    for _ in range(9):
        kind = pa.list_(kind)
    frames = [Encoder(pa.schema([("deep", kind)])).schema()]

    assert read(frames, Limits(nesting_depth=10)) == []
    with pytest.raises(LimitExceededError, match=r"^the columns are nested deeper than the limit of 9$"):
        read(frames, Limits(nesting_depth=9))


def test_nested_columns_count() -> None:
    """The limit of columns is one of all fields, however they are nested."""
    wide = pa.schema([("s", pa.struct([(f"f{n}", pa.int8()) for n in range(5)])), ("a", pa.int8())])
    frames = [Encoder(wide).schema()]

    assert read(frames, Limits(columns=7)) == []
    with pytest.raises(LimitExceededError, match=r"^the schema has more columns than the limit$"):
        read(frames, Limits(columns=6))


def test_columns_of_different_lengths_are_refused() -> None:
    """All columns of a batch have its number of rows."""
    schema, batch = frames_of(ipc_stream(NUMBERS))
    nodes, count = header_table(bytes(decode(batch).header))._vector(ipc_limits._BATCH_NODES)

    assert count == 2
    with pytest.raises(InvalidRequestError, match="Array length did not match record batch length"):
        read([schema, patched(batch, nodes + 16, struct.pack("<q", 2))])
    with pytest.raises(InvalidRequestError, match=r"^the Arrow batch has a negative number of rows$"):
        read([schema, patched(batch, nodes, struct.pack("<q", -1))])


@pytest.mark.parametrize(
    ("buffer", "reason"),
    [
        ((0, 1 << 40), "outside its body"),
        ((-8, 8), "outside its body"),
        ((0, -8), "outside its body"),
        (((1 << 63) - 8, 16), "outside its body"),
        ((4, 8), "not aligned to 8 bytes"),
    ],
)
def test_buffer_must_lie_in_the_body(buffer: tuple[int, int], reason: str) -> None:
    """A buffer is a range of the bytes that came, on a word boundary."""
    schema, batch = frames_of(ipc_stream(NUMBERS))
    buffers, _ = header_table(bytes(decode(batch).header))._vector(ipc_limits._BATCH_BUFFERS)

    with pytest.raises(InvalidRequestError, match=reason):
        read([schema, patched(batch, buffers + 16, struct.pack("<qq", *buffer))])


def test_body_shorter_than_announced_is_refused() -> None:
    """A message whose body was cut off is not read."""
    schema, batch = frames_of(ipc_stream(NUMBERS))
    data = decode(batch)

    with pytest.raises(InvalidRequestError, match=r"^the Arrow message does not fit its body$"):
        read([schema, frame(bytes(data.header), bytes(data.body[:-1]))])


def test_claimed_number_of_view_buffers_is_not_trusted() -> None:
    """A view column cannot claim more buffers than the batch has."""
    schema, batch = frames_of(ipc_stream(pa.record_batch({"v": pa.array(["x" * 40], pa.string_view())})))
    counts, _ = header_table(bytes(decode(batch).header))._vector(ipc_limits._BATCH_VARIADIC_COUNTS)

    with pytest.raises(InvalidRequestError, match=r"^the Arrow batch claims more buffers than it has$"):
        read([schema, patched(batch, counts, struct.pack("<q", (1 << 31) - 1))])


@pytest.mark.parametrize("unit", [0, 1])
def test_intervals_that_pyarrow_cannot_show_are_refused(unit: int) -> None:
    """Intervals of months or of days alone have no Python class in pyarrow."""
    schema, _ = frames_of(ipc_stream(batches()["interval"]))
    at = type_of_first_field(bytes(decode(schema).header))._at(ipc_limits._INTERVAL_UNIT)

    with pytest.raises(InvalidRequestError, match=r"^intervals must be of months, days and nanoseconds$"):
        read([patched(schema, at, struct.pack("<h", unit))])


@pytest.mark.parametrize("scale", [77, -77, 1 << 30])
def test_absurd_scale_of_a_decimal_is_refused(scale: int) -> None:
    """A scale of a billion digits crashes pyarrow's cast to an integer."""
    schema, _ = frames_of(ipc_stream(batches()["decimal128"]))
    at = type_of_first_field(bytes(decode(schema).header))._at(ipc_limits._DECIMAL_SCALE)

    with pytest.raises(InvalidRequestError, match=r"^decimals have at most 76 digits after the point$"):
        read([patched(schema, at, struct.pack("<i", scale))])


def test_big_endian_data_is_refused() -> None:
    """Data of the other byte order is refused by name, not swapped before it is checked."""
    schema, _ = frames_of(ipc_stream(NUMBERS))
    table = header_table(bytes(decode(schema).header))
    # The field is absent for little-endian; its slot now points to the offset of the columns, which is not 0.
    slot = table._vtable + 4
    elsewhere = table._at(ipc_limits._SCHEMA_FIELDS) - table._position

    with pytest.raises(InvalidRequestError, match=r"^big-endian Arrow data is not supported$"):
        read([patched(schema, slot, struct.pack("<H", elsewhere))])


def test_column_name_must_be_text() -> None:
    """A name that is not UTF-8 is refused with the schema, not when somebody looks at it."""
    schema = Encoder(pa.schema([("pond", pa.int8())])).schema()

    with pytest.raises(InvalidRequestError, match=r"^the Arrow message is damaged$"):
        read([schema.replace(b"pond", b"p\xffnd")])


def test_time_zone_must_be_text() -> None:
    """A time zone that is not UTF-8 is refused with the schema."""
    schema = Encoder(pa.schema([("t", pa.timestamp("us", tz="Europe/Paris"))])).schema()

    with pytest.raises(InvalidRequestError, match=r"^the Arrow message is damaged$"):
        read([schema.replace(b"Paris", b"P\xffris")])


def test_tensors_are_refused() -> None:
    """A stream of batches has no tensors."""
    sink = pa.BufferOutputStream()
    pa.ipc.write_tensor(pa.Tensor.from_numpy(pa.array([1, 2]).to_numpy()), sink)
    message = pa.ipc.read_message(sink.getvalue())

    with pytest.raises(InvalidRequestError, match=r"^the Arrow message is neither a schema nor a batch$"):
        read([frame(message.metadata, message.body)])


@pytest.mark.parametrize("header", [b"\x00", bytes(8), b"\xff" * 64, b"\x04\x00\x00\x00\x10\x00\x00\x00"])
def test_header_that_is_no_flatbuffer_is_refused(header: bytes) -> None:
    """Reads outside the header end in an error, never in other bytes."""
    with pytest.raises(InvalidRequestError):
        read([frame(header)])
