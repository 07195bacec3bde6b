from __future__ import annotations

import struct
from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkport.errors import CancelledError, InvalidRequestError
from sparkport.protocol.ipc.flight_data import Decoder, Encoder, FlightData, decode, encode_metadata

from .arrow_samples import batches, field, frame, frames_of, ipc_stream, varint

SAMPLES = batches()
CONTINUATION = b"\xff\xff\xff\xff"

NUMBERS = pa.record_batch({"n": pa.array([1, 2, 3], pa.int64())})


def encode(*rows: pa.RecordBatch) -> list[bytes]:
    """Encode a stream."""
    encoder = Encoder(rows[0].schema)
    return [encoder.schema(), *(message for batch in rows for message in encoder.batch(batch))]


def read(frames: list[bytes]) -> list[pa.RecordBatch]:
    """Decode a stream."""
    return [batch for batch, _ in Decoder(map(decode, frames))]


def read_with_pyarrow(frames: list[bytes]) -> list[pa.RecordBatch]:
    """Strip the frames off a stream and let pyarrow read the rest."""
    stream = bytearray()
    for data in map(decode, frames):
        padding = bytes(-len(data.header) % 8)
        stream += CONTINUATION + struct.pack("<i", len(data.header) + len(padding))
        stream += bytes(data.header) + padding + bytes(data.body)
    return list(pa.ipc.open_stream(bytes(stream)))


def same(left: list[pa.RecordBatch], right: list[pa.RecordBatch]) -> bool:
    """Compare two streams, metadata and row counts included."""
    return len(left) == len(right) and all(
        a.equals(b, check_metadata=True) and a.num_rows == b.num_rows
        for a, b in zip(left, right, strict=True)
    )


# Frames


def test_frame_is_cut_into_its_fields() -> None:
    """The four fields of FlightData are found, in whatever order they come."""
    data = decode(field(1000, b"body") + field(3, b"meta") + field(2, b"head") + field(1, b"\x08\x02"))

    assert data.descriptor == b"\x08\x02"
    assert bytes(data.header) == b"head"
    assert data.app_metadata == b"meta"
    assert bytes(data.body) == b"body"


def test_empty_frame_has_no_descriptor_and_no_bytes() -> None:
    """Absent fields are empty, and an absent descriptor differs from an empty one."""
    assert decode(b"") == FlightData(None, memoryview(b""), b"", memoryview(b""))
    assert decode(b"\x0a\x00").descriptor == b""


def test_unknown_fields_are_skipped() -> None:
    """Fields of later versions of the protocol, and known ones of another wire type, do no harm."""
    later = [varint(9 << 3) + b"\xff\x01", varint(9 << 3 | 1) + bytes(8), varint(9 << 3 | 5) + bytes(4)]
    data = decode(b"".join(later) + field(77, b"new") + b"\x10\x05" + field(2, b"head"))

    assert bytes(data.header) == b"head"


def test_last_of_a_repeated_field_wins_and_descriptors_merge() -> None:
    """Repeated fields are treated as every protobuf parser treats them."""
    data = decode(field(3, b"a") + field(1, b"\x08\x01") + field(3, b"b") + field(1, b"\x1a\x01t"))

    assert data.app_metadata == b"b"
    assert data.descriptor == b"\x08\x01\x1a\x01t"


def test_body_is_not_copied() -> None:
    """The body is a view of the frame."""
    message = frame(b"head", b"body")

    assert decode(message).body.obj is message


@pytest.mark.parametrize(
    ("garbage", "reason"),
    [
        (b"\x12", "a number does not end"),
        (b"\x12\x80", "a number does not end"),
        (b"\x12" + b"\xff" * 10 + b"\x01", "a number does not end"),
        (b"\x12\x05head", "a field goes past the end"),
        (b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "a field goes past the end"),
        (b"\x49\x00", "a field goes past the end"),
        (b"\x02\x00", "no such field number"),
        (b"\x92\x80\x80\x80\x10\x00", "no such field number"),
        (b"\x4b\x4c", "no such wire type"),
    ],
)
def test_garbage_is_refused(garbage: bytes, reason: str) -> None:
    """A frame that is not protobuf is refused with the reason."""
    with pytest.raises(InvalidRequestError) as caught:
        decode(garbage)

    assert str(caught.value) == f"the FlightData message is damaged: {reason}"


def test_metadata_frame_carries_nothing_else() -> None:
    """A frame of metadata is one protobuf field."""
    assert encode_metadata(b"hi") == b"\x1a\x02hi"
    assert decode(encode_metadata(b"x" * 300)).app_metadata == b"x" * 300


@given(st.binary(max_size=64))
def test_any_bytes_are_cut_or_refused(data: bytes) -> None:
    """Cutting raises nothing but InvalidRequestError."""
    try:
        decode(data)
    except InvalidRequestError:
        return


# Round trips


@pytest.mark.parametrize("name", SAMPLES)
def test_every_type_comes_back_equal(name: str) -> None:
    """What the encoder writes is read equal by the decoder and by pyarrow, whole, sliced and empty."""
    whole = SAMPLES[name]
    rows = [whole, whole.slice(1, 1), whole.slice(2), whole.slice(0, 0), whole]
    frames = encode(*rows)

    assert same(read(frames), rows)
    assert same(read_with_pyarrow(frames), rows)


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
@pytest.mark.parametrize("name", SAMPLES)
def test_what_pyarrow_writes_is_read_equal(name: str, compression: str | None) -> None:
    """Streams of pyarrow's own writer are read, compressed ones too."""
    whole = SAMPLES[name]
    frames = frames_of(ipc_stream(whole, whole.slice(2), compression=compression))

    assert same(read(frames), [whole, whole.slice(2)])


def test_streams_of_metadata_version_4_are_read() -> None:
    """Writers from before Arrow 1.0 are understood."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(metadata_version=pa.ipc.MetadataVersion.V4)
    with pa.ipc.new_stream(sink, NUMBERS.schema, options=options) as writer:
        writer.write_batch(NUMBERS)

    assert same(read(frames_of(sink.getvalue().to_pybytes())), [NUMBERS])


_CELLS = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float64(): st.floats(allow_nan=False),
    pa.string(): st.text(max_size=20),
    pa.string_view(): st.text(max_size=20),
    pa.bool_(): st.booleans(),
    pa.list_(pa.int16()): st.lists(st.none() | st.integers(-9, 9), max_size=3),
    pa.dictionary(pa.int8(), pa.string()): st.sampled_from(["a", "b", "c"]),
    pa.struct([("x", pa.binary())]): st.fixed_dictionaries({"x": st.none() | st.binary(max_size=4)}),
}


@st.composite
def _tables(draw: st.DrawFn) -> list[pa.RecordBatch]:
    kinds = draw(st.lists(st.sampled_from(list(_CELLS)), min_size=1, max_size=4))
    names = draw(st.lists(st.text(max_size=4), min_size=len(kinds), max_size=len(kinds)))
    schema = pa.schema(list(zip(names, kinds, strict=True)))
    rows = []
    for size in draw(st.lists(st.integers(0, 20), min_size=1, max_size=3)):
        cells = (draw(st.lists(st.none() | _CELLS[kind], min_size=size, max_size=size)) for kind in kinds)
        columns = [pa.array(values, kind) for values, kind in zip(cells, kinds, strict=True)]
        batch = pa.RecordBatch.from_arrays(columns, schema=schema)
        rows.append(batch.slice(draw(st.integers(0, size)), draw(st.integers(0, size))))
    return rows


@settings(max_examples=60, deadline=None)
@given(_tables())
def test_any_table_comes_back_equal(rows: list[pa.RecordBatch]) -> None:
    """Round trips hold for tables, slices and changing dictionaries that nobody thought of."""
    frames = encode(*rows)

    assert same(read(frames), rows)
    assert same(read_with_pyarrow(frames), rows)


# Encoder


def test_schema_frame_carries_the_descriptor() -> None:
    """The schema message names the flight where one is given, and has no body."""
    data = decode(Encoder(NUMBERS.schema).schema(b"\x08\x02"))

    assert data.descriptor == b"\x08\x02"
    assert bytes(data.body) == b""
    assert decode(Encoder(NUMBERS.schema).schema()).descriptor is None


def test_metadata_goes_with_the_batch_not_with_its_dictionaries() -> None:
    """The app_metadata of a batch is on the last of its messages only."""
    messages = Encoder(SAMPLES["dictionary"].schema).batch(SAMPLES["dictionary"], b"meta")

    assert [decode(message).app_metadata for message in messages] == [b"", b"meta"]


def test_dictionary_is_sent_again_only_when_it_changed() -> None:
    """A dictionary precedes the first batch that needs it and every batch that replaces it."""
    first, other = (
        pa.record_batch({"d": pa.array(words).dictionary_encode()}) for words in (["a", "b"], ["c", "d"])
    )
    encoder = Encoder(first.schema)
    counts = [len(encoder.batch(batch)) for batch in (first, first, other, first)]

    assert counts == [2, 1, 2, 2]


@pytest.mark.parametrize("kind", [pa.int64(), pa.string(), pa.string_view(), pa.binary_view()])
def test_slice_is_sent_without_the_rest_of_its_buffers(kind: pa.DataType) -> None:
    """A slice costs what it shows."""
    texts = pa.array([f"{number:020}" for number in range(10_000)])
    column = texts.cast(kind)
    frames = encode(pa.record_batch({"c": column}).slice(5_000, 10))

    assert len(frames[1]) < 1_000
    assert read(frames)[0].column(0).equals(column.slice(5_000, 10))


# Decoder


def test_frames_without_a_message_are_skipped() -> None:
    """Frames of a descriptor or of metadata alone may stand anywhere in a stream."""
    schema, batch = encode(NUMBERS)
    descriptor, metadata = field(1, b"\x08\x02"), encode_metadata(b"hello")
    decoder = Decoder(
        map(decode, [descriptor, metadata, schema, metadata, batch, descriptor, batch, metadata])
    )

    assert decoder.arrow_schema.equals(NUMBERS.schema)
    assert same([rows for rows, _ in decoder], [NUMBERS, NUMBERS])


def test_each_batch_comes_with_the_metadata_of_its_message() -> None:
    """The app_metadata that a batch was sent with is given back beside it."""
    words = SAMPLES["dictionary"]
    encoder = Encoder(words.schema)
    frames = [
        encoder.schema(),
        *encoder.batch(words, b"one"),
        *encoder.batch(words),
        *encoder.batch(words, b"3"),
    ]

    assert [metadata for _, metadata in Decoder(map(decode, frames))] == [b"one", b"", b"3"]


def test_growing_dictionaries_are_read() -> None:
    """A dictionary that a client extends instead of replacing is put together."""
    rows = [
        pa.record_batch({"d": pa.array(words).dictionary_encode()})
        for words in (["a"], ["a", "b"], ["a", "b", "c"], ["x"])
    ]
    batches = read(frames_of(ipc_stream(*rows, deltas=True)))

    assert [batch.column(0).to_pylist() for batch in batches] == [["a"], ["a", "b"], ["a", "b", "c"], ["x"]]


@pytest.mark.parametrize("offset", range(8))
def test_body_at_any_address_gives_aligned_columns(offset: int) -> None:
    """Wherever gRPC placed the body, the columns start on word boundaries."""
    schema, message = map(decode, encode(NUMBERS))
    body = memoryview(bytes(offset) + bytes(message.body))[offset:]
    batch, _ = next(iter(Decoder(iter([schema, FlightData(None, message.header, b"", body)]))))

    assert batch.equals(NUMBERS)
    assert batch.column(0).buffers()[1].address % 8 == 0


def test_frames_are_asked_for_one_batch_at_a_time() -> None:
    """A slow consumer holds its client back: nothing is read ahead."""
    asked = 0

    def counted() -> Iterator[FlightData]:
        nonlocal asked
        for message in encode(NUMBERS, NUMBERS, NUMBERS):
            asked += 1
            yield decode(message)

    decoder = Decoder(counted())
    counts = [asked]
    assert decoder.arrow_schema == NUMBERS.schema
    counts.append(asked)
    for _ in decoder:
        counts.append(asked)  # noqa: PERF401

    assert counts == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("sent", [0, 1, 2])
def test_error_of_the_transport_comes_out_unchanged(sent: int) -> None:
    """What the frames raise is what the reader of batches sees, the same object."""
    gone = CancelledError()

    def broken() -> Iterator[FlightData]:
        yield from map(decode, encode(NUMBERS)[:sent])
        raise gone

    with pytest.raises(CancelledError) as caught:
        list(Decoder(broken()))

    assert caught.value is gone


def test_stream_without_a_schema_is_refused() -> None:
    """A stream starts with its schema message."""
    with pytest.raises(InvalidRequestError, match=r"^the stream ended before its schema message$"):
        read([encode_metadata(b"hello")])
    with pytest.raises(InvalidRequestError, match=r"^the stream has data before its schema message$"):
        read(encode(NUMBERS)[1:])


def test_second_schema_message_is_refused() -> None:
    """A stream has one schema."""
    schema, batch = encode(NUMBERS)

    with pytest.raises(InvalidRequestError, match=r"^the stream has a second schema message$"):
        read([schema, batch, schema, batch])


def test_batch_of_another_schema_is_refused() -> None:
    """A batch must have the columns that the stream announced."""
    other = pa.record_batch({"a": pa.array([1.5]), "b": pa.array(["x"])})

    with pytest.raises(
        InvalidRequestError, match=r"^the batch is not valid Arrow data: Ran out of field metadata"
    ):
        read([encode(other)[0], encode(NUMBERS)[1]])


def test_missing_dictionary_is_refused() -> None:
    """A batch cannot refer to a dictionary that was not sent."""
    schema, _, batch = encode(SAMPLES["dictionary"])

    with pytest.raises(
        InvalidRequestError, match=r"^the batch is not valid Arrow data: IPC stream did not have"
    ):
        read([schema, batch])


@pytest.mark.parametrize(
    ("batch", "good", "bad", "reason"),
    [
        (
            pa.record_batch({"s": ["pond"]}),
            b"pond",
            b"p\xffnd",
            "In column 0: Invalid UTF8 sequence at string index 0",
        ),
        (
            pa.record_batch({"d": pa.array([7, 8, 8]).dictionary_encode()}),
            struct.pack("<iii", 0, 1, 1),
            struct.pack("<iii", 0, 1, 9),
            (
                "In column 0: Dictionary indices invalid: "
                "Value at position 2 out of bounds: 9 (should be in [0, 1])"
            ),
        ),
        (
            pa.record_batch({"l": pa.array([[1], [2]], pa.list_(pa.int8()))}),
            struct.pack("<iii", 0, 1, 2),
            struct.pack("<iii", 0, 9, 2),
            "In column 0: Offset invariant failure: offset for slot 1 out of bounds: 9 > 2",
        ),
    ],
    ids=["text", "dictionary", "list"],
)
def test_bad_values_are_refused(batch: pa.RecordBatch, good: bytes, bad: bytes, reason: str) -> None:
    """Values are checked before anybody uses them, and the message says where the bad one is."""
    frames = encode(batch)
    frames[-1] = frames[-1].replace(good, bad)

    with pytest.raises(InvalidRequestError) as caught:
        read(frames)

    assert str(caught.value) == f"the batch is not valid Arrow data: {reason}"


def test_nothing_is_read_after_a_failure() -> None:
    """A stream that failed stays failed."""
    texts = pa.record_batch({"s": ["pond"]})
    schema, good = encode(texts)
    decoder = Decoder(map(decode, [schema, good.replace(b"pond", b"p\xffnd"), good]))

    with pytest.raises(InvalidRequestError, match="UTF8"):
        list(decoder)
    with pytest.raises(
        InvalidRequestError, match=r"^the stream is damaged; nothing more can be read from it$"
    ):
        list(decoder)


def test_failing_extension_type_is_a_bad_request() -> None:
    """Metadata that an extension type cannot read is the client's fault."""
    bad = {"ARROW:extension:name": "arrow.fixed_shape_tensor", "ARROW:extension:metadata": "{"}
    schema = pa.schema([pa.field("t", pa.list_(pa.int8(), 4), metadata=bad)])

    with pytest.raises(InvalidRequestError, match=r"^the schema is not valid Arrow data: "):
        read([Encoder(schema).schema()])


@pytest.mark.parametrize("rows", [1, 8_191, 8_192, 8_193, 20_000])
def test_small_and_large_batches_take_turns(rows: int) -> None:
    """Batches on both sides of what counts as small are read in one stream, in their order."""
    large = pa.record_batch({"n": pa.array(range(rows), pa.int64())})
    frames = encode(large, NUMBERS, large, NUMBERS)

    assert read(frames) == [large, NUMBERS, large, NUMBERS]
    assert read_with_pyarrow(frames) == [large, NUMBERS, large, NUMBERS]
