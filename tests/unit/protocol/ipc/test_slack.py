"""Bytes of a message that are no rows: they are not kept with the rows."""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from sparkport.protocol.ipc.flight_data import Decoder, Encoder, decode
from sparkport.protocol.ipc.limits import batch_buffers

from .arrow_samples import batches, field, frame

Longer = Callable[[bytes, bytes, int], tuple[bytes, bytes]]

MB = 1 << 20
NUMBERS = pa.record_batch({"n": pa.array(np.arange(16_384))})
FEW = pa.record_batch({"n": pa.array([1, 2, 3]), "s": ["one", "two", "three"]})
SAMPLES = batches()


def message(batch: pa.RecordBatch) -> tuple[bytes, bytes]:
    """Return the header and the body of a batch."""
    whole = bytes(batch.serialize())
    end = 8 + int.from_bytes(whole[4:8], "little")
    return whole[8:end], whole[end:]


def longer_body(header: bytes, body: bytes, slack: int) -> tuple[bytes, bytes]:
    """Declare a body that ends long after its last buffer."""
    *_, length_at = batch_buffers(header)
    changed = bytearray(header)
    struct.pack_into("<q", changed, length_at, len(body) + slack)
    return bytes(changed), body + bytes(slack)


def longer_buffer(header: bytes, body: bytes, slack: int) -> tuple[bytes, bytes]:
    """Declare a last buffer that is longer than its values."""
    longer, body = longer_body(header, body, slack)
    buffers, pairs_at, _ = batch_buffers(longer)
    changed = bytearray(longer)
    offset, _ = buffers[-1]
    struct.pack_into("<q", changed, pairs_at + 16 * (len(buffers) - 1) + 8, len(body) - offset)
    return bytes(changed), body


def longer_header(header: bytes, body: bytes, slack: int) -> tuple[bytes, bytes]:
    """Add bytes to the header that nothing refers to."""
    return header + bytes(slack), body


def read(arrow_schema: pa.Schema, *messages: bytes) -> tuple[pa.RecordBatch, int]:
    """Return the last batch of a stream, and the bytes that the stream was said to hold then."""
    held: list[int] = []
    decoder = Decoder(map(decode, [Encoder(arrow_schema).schema(), *messages]), hold=held.append)
    *_, (batch, _) = decoder
    return batch, held[-1]


def kept(batch: pa.RecordBatch) -> int:
    """Return the bytes of all memory that a batch keeps alive."""
    roots: dict[int, int] = {}
    for column in batch.columns:
        for buffer in filter(None, column.buffers()):
            root = buffer
            while root.parent is not None:
                root = root.parent
            roots[root.address] = root.size
    return sum(roots.values())


@pytest.mark.parametrize("rows", [FEW, NUMBERS], ids=["few", "many"])
@pytest.mark.parametrize("slack", [8192, 48 << 10, 4 * MB])
@pytest.mark.parametrize("longer", [longer_body, longer_buffer, longer_header])
def test_rows_do_not_keep_what_lies_around_them(rows: pa.RecordBatch, slack: int, longer: Longer) -> None:
    """A message may be larger than its rows need; what is kept with them is about what they need."""
    header, body = longer(*message(rows), slack)
    batch, _ = read(rows.schema, frame(header, body))

    assert batch.equals(rows)
    assert kept(batch) <= 1.2 * rows.nbytes + 4096


def aligned(before: bytes, header: bytes, body: bytes, after: bytes = b"") -> bytes:
    """Return a frame whose body need not be moved to be read."""
    frames = (before + field(77, bytes(number)) + frame(header, body) + after for number in range(8))
    return next(one for one in frames if pa.py_buffer(decode(one).body).address % 8 == 0)


@pytest.mark.parametrize("place", ["behind the body", "metadata", "another body"])
def test_rows_do_not_keep_the_frame(place: str) -> None:
    """Fields beside the body, or bytes behind it, are not kept with the rows."""
    header, body = message(NUMBERS)
    padded = {
        "behind the body": aligned(b"", header, body + bytes(MB)),
        "metadata": aligned(b"", header, body, field(3, bytes(MB))),
        "another body": aligned(field(1000, bytes(MB)), header, body),
    }[place]
    batch, _ = read(NUMBERS.schema, padded)
    whole = pa.py_buffer(padded)

    assert batch.equals(NUMBERS)
    assert not whole.address <= batch.column(0).buffers()[1].address < whole.address + whole.size


def test_rows_that_fill_their_message_are_not_copied() -> None:
    """What most clients send is used where it lies."""
    header, body = message(NUMBERS)
    data = decode(aligned(b"", header, body))
    start = pa.py_buffer(data.body).address
    ((batch, _),) = Decoder(iter([decode(Encoder(NUMBERS.schema).schema()), data]))

    assert start <= batch.column(0).buffers()[1].address < start + len(body)


@pytest.mark.parametrize("name", SAMPLES)
def test_every_type_survives_the_copy(name: str) -> None:
    """Whatever the columns are, rows are the same after they were copied out of their message."""
    rows = SAMPLES[name]
    *dictionaries, last = Encoder(rows.schema).batch(rows)
    data = decode(last)
    longer = longer_body if data.body else longer_header
    header, body = longer(bytes(data.header), bytes(data.body), 8192)
    batch, _ = read(rows.schema, *dictionaries, frame(header, body))

    assert batch.equals(rows)
    batch.validate(full=True)


def test_dictionary_holds_its_whole_body() -> None:
    """A dictionary is kept until the stream ends, with the bytes around it, and they are counted."""
    rows = pa.record_batch({"d": pa.array(["a", "b", "a"]).dictionary_encode()})
    words, numbers = Encoder(rows.schema).batch(rows)
    data = decode(words)
    changed = bytearray(data.header)
    at = bytes(changed).rindex(struct.pack("<q", len(data.body)))
    struct.pack_into("<q", changed, at, len(data.body) + MB)
    batch, held = read(rows.schema, frame(bytes(changed), bytes(data.body) + bytes(MB)), numbers)

    assert batch.equals(rows)
    assert held >= MB
