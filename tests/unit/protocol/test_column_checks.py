from __future__ import annotations

import struct

import pyarrow as pa
import pytest

from sparkport.errors import InvalidRequestError, LimitExceededError
from sparkport.protocol.column_checks import check, needs_check
from sparkport.protocol.flight_data import Decoder, Encoder, Limits, decode

from .arrow_samples import columns

LONG = "a text longer than twelve bytes"


def read(column: pa.Array, limits: Limits) -> pa.RecordBatch:
    """Send a column through the codec."""
    batch = pa.record_batch({"c": column})
    encoder = Encoder(batch.schema)
    encoder._has_views = False
    ((received, _),) = Decoder(map(decode, [encoder.schema(), *encoder.batch(batch)]), limits)
    return received


def views_of(text: bytes, count: int) -> pa.Array:
    """Build an array of views that all show the same text."""
    view = struct.pack("<i4sii", len(text), text[:4], 0, 0)
    return pa.Array.from_buffers(
        pa.string_view(), count, [None, pa.py_buffer(view * count), pa.py_buffer(text)]
    )


def test_views_that_overlap_are_counted_as_often_as_they_are_read() -> None:
    """The limit is on the text that views spell, not on the bytes they share."""
    column = views_of(b"x" * 1_000, 100)

    assert read(column, Limits(decompressed_bytes=100_000)).column(0).equals(column)
    with pytest.raises(LimitExceededError) as caught:
        read(column, Limits(decompressed_bytes=99_999))
    assert str(caught.value) == "the views of the batch spell 100000 bytes, the limit is 99999 bytes"


@pytest.mark.parametrize("kind", [pa.string_view(), pa.binary_view()])
def test_view_of_a_null_must_not_point_outside(kind: pa.DataType) -> None:
    """A null whose view points nowhere is refused, because casts would follow it."""
    good = struct.pack("<i4sii", 20, b"xxxx", 0, 0)
    wild = struct.pack("<iiii", 1 << 20, 0, 7, 1 << 30)
    buffers = [pa.py_buffer(b"\x01"), pa.py_buffer(good + wild), pa.py_buffer(b"x" * 20)]
    column = pa.Array.from_buffers(kind, 2, buffers)
    column.validate(full=True)

    with pytest.raises(InvalidRequestError, match=r"^the batch is not valid Arrow data: View at slot 1"):
        read(column, Limits())


@pytest.mark.parametrize(
    ("kind", "offset"),
    [
        (pa.list_(pa.int8()), struct.pack("<i", 1024)),
        (pa.list_(pa.int8()), struct.pack("<i", 1)),
        (pa.large_list(pa.int8()), struct.pack("<q", 1 << 40)),
    ],
)
def test_empty_list_must_not_start_outside_its_values(kind: pa.DataType, offset: bytes) -> None:
    """A list of no rows whose offset points nowhere is refused, because flattening it aborts the process."""
    column = pa.Array.from_buffers(kind, 0, [None, pa.py_buffer(offset)], children=[pa.array([], pa.int8())])
    column.validate(full=True)

    with pytest.raises(InvalidRequestError, match=r"^an empty list starts outside its values$"):
        check(column)


VIEWS = pa.array(["duck", LONG, None], pa.string_view())


@pytest.mark.parametrize(
    "column",
    [
        VIEWS,
        VIEWS.cast(pa.binary_view()),
        pa.StructArray.from_arrays([VIEWS], ["v"]),
        pa.FixedSizeListArray.from_arrays(VIEWS, 3),
        pa.ListArray.from_arrays(pa.array([0, 3], pa.int32()), VIEWS),
        pa.ListViewArray.from_arrays(pa.array([0], pa.int32()), pa.array([3], pa.int32()), VIEWS),
        pa.MapArray.from_arrays(pa.array([0, 3], pa.int32()), pa.array([1, 2, 3]), VIEWS),
        pa.DictionaryArray.from_arrays(pa.array([0, 1]), VIEWS),
        pa.RunEndEncodedArray.from_arrays(pa.array([1, 2, 3], pa.int32()), VIEWS),
        pa.UnionArray.from_sparse(pa.array([0, 0, 0], pa.int8()), [VIEWS]),
        pa.ExtensionArray.from_storage(pa.opaque(pa.string_view(), "t", "v"), VIEWS),
    ],
    ids=lambda column: str(column.type),
)
def test_views_are_found_inside_of_every_type(column: pa.Array) -> None:
    """Views are checked wherever they are nested."""
    assert needs_check(column.type)
    assert check(column) == 4 + len(LONG)


def test_flat_columns_need_no_check() -> None:
    """Batches of plain columns pay nothing."""
    every = columns()

    assert not any(
        needs_check(every[name].type) for name in ("int64", "string", "dictionary", "uuid", "null")
    )
