from __future__ import annotations

import struct

import pyarrow as pa
import pytest

from sparkport.errors import InvalidRequestError, LimitExceededError
from sparkport.protocol.ipc import column_checks
from sparkport.protocol.ipc.column_checks import check, needs_check, normalized
from sparkport.protocol.ipc.flight_data import Decoder, Encoder, Limits, decode

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


@pytest.mark.parametrize("offset", [b"", 1, 1024, (1 << 31) - 1], ids=repr)
@pytest.mark.parametrize(
    "kind", [pa.list_(pa.int8()), pa.large_list(pa.int8()), pa.map_(pa.int8(), pa.int8())]
)
def test_empty_lists_get_offsets_at_zero(kind: pa.DataType, offset: bytes | int) -> None:
    """Where a list of no rows begins does not matter until it is flattened, which aborts the process."""
    width = 8 if pa.types.is_large_list(kind) else 4
    given = offset if isinstance(offset, bytes) else offset.to_bytes(width, "little")
    buffers = [None, pa.py_buffer(given)]
    inner = pa.Array.from_buffers(kind, 0, buffers, children=[pa.array([], kind.field(0).type)])
    starts = pa.array([0, 0, 0], pa.int32()).buffers()[1]
    for column in (
        inner,
        pa.Array.from_buffers(pa.list_(kind), 2, [None, starts], children=[inner]),
        pa.StructArray.from_arrays([inner], ["a"]),
        pa.ExtensionArray.from_storage(pa.opaque(kind, "t", "v"), inner),
    ):
        column.validate(full=True)
        received = read(column, Limits()).column(0)

        received.validate(full=True)
        assert received.equals(column)
        assert received.nbytes == (8 if len(column) else 0)
        assert normalized(received) is received


def test_empty_lists_in_dictionaries_are_not_mended() -> None:
    """What cannot be made anew is refused."""
    hollow = pa.Array.from_buffers(
        pa.list_(pa.int8()), 0, [None, pa.py_buffer(b"")], children=[pa.array([], pa.int8())]
    )
    column = pa.DictionaryArray.from_arrays(pa.array([], pa.int8()), hollow)

    with pytest.raises(InvalidRequestError, match=r"^an empty list has no offsets$"):
        normalized(column)


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


_TIMES = pa.array([0, 86_400_000_000, None], pa.int64()).view(pa.time64("us"))


@pytest.mark.parametrize(
    "column",
    [
        _TIMES,
        pa.array([86_400_000_000_000], pa.int64()).view(pa.time64("ns")),
        pa.array([86_400], pa.int32()).view(pa.time32("s")),
        pa.ListArray.from_arrays([0, 1, 3], _TIMES),
        pa.StructArray.from_arrays([_TIMES], ["t"]),
        pa.MapArray.from_arrays([0, 2], ["a", "b"], _TIMES[:2]),
        pa.FixedSizeListArray.from_arrays(_TIMES[:2], 2),
    ],
    ids=lambda column: str(column.type),
)
def test_the_end_of_a_day_is_a_time(column: pa.Array) -> None:
    """DuckDB has TIME 24:00:00."""
    with pytest.raises(pa.ArrowInvalid):
        column.validate(full=True)

    column_checks.validate(pa.record_batch({"c": column}))


@pytest.mark.parametrize("value", [-1, 86_400_000_001])
def test_other_values_are_no_times(value: int) -> None:
    """Neither before a day begins, nor after it has ended; also inside of others."""
    times = pa.array([value], pa.int64()).view(pa.time64("us"))
    for column in (times, pa.ListArray.from_arrays([0, 1], times)):
        with pytest.raises(
            pa.ArrowInvalid, match=r"^In column 0: a time is not between 00:00:00 and 24:00:00$"
        ):
            column_checks.validate(pa.record_batch({"c": column}))
