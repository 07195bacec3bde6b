from __future__ import annotations

import pyarrow as pa
import pytest

from sparkport.errors import LimitExceededError
from sparkport.protocol.ipc.flat_size import can_expand, flat_size
from sparkport.protocol.ipc.flight_data import Decoder, Limits, decode

from .arrow_samples import columns, frames_of, ipc_stream

MILLION = 1_000_000
TEXT = "x" * 1_000


def read(batch: pa.RecordBatch, limits: Limits | None = None) -> pa.RecordBatch:
    """Send a batch through the codec."""
    ((received, _),) = Decoder(map(decode, frames_of(ipc_stream(batch))), limits or Limits())
    return received


def runs(value: pa.Array, length: int) -> pa.Array:
    """Return one value that stands for many."""
    return pa.RunEndEncodedArray.from_arrays(pa.array([length], pa.int32()), value)


def same_lists(values: pa.Array, count: int) -> pa.Array:
    """Return views of lists that all show the same values."""
    return pa.ListViewArray.from_arrays(
        pa.array([0] * count, pa.int32()), pa.array([len(values)] * count, pa.int32()), values
    )


def without_columns(count: int) -> pa.RecordBatch:
    """Return rows that have no columns."""
    empty = pa.StructArray.from_arrays([], names=[], mask=pa.array([False] * count))
    return pa.RecordBatch.from_struct_array(empty)


BOMBS = {
    "null": pa.record_batch({"c": pa.nulls(60 * MILLION)}),
    "runs": pa.record_batch({"c": runs(pa.array([TEXT]), 60 * MILLION)}),
    "empty struct": pa.record_batch(
        {"c": pa.Array.from_buffers(pa.struct([]), 60 * MILLION, [None], null_count=0)}
    ),
    "binary of no bytes": pa.record_batch(
        {"c": pa.Array.from_buffers(pa.binary(0), 60 * MILLION, [None, pa.py_buffer(b"")], null_count=0)}
    ),
    "lists of no values": pa.record_batch(
        {
            "c": pa.Array.from_buffers(
                pa.list_(pa.int64(), 0),
                60 * MILLION,
                [None],
                null_count=0,
                children=[pa.array([], pa.int64())],
            )
        }
    ),
    "list of nulls": pa.record_batch(
        {"c": pa.ListArray.from_arrays(pa.array([0, 60 * MILLION], pa.int32()), pa.nulls(60 * MILLION))}
    ),
    "no columns": without_columns(2 * MILLION),
}


@pytest.mark.parametrize("name", BOMBS)
def test_rows_are_bounded_by_the_bytes_sent(name: str) -> None:
    """A message of a few bytes has at most about a million rows, of whatever type."""
    frames = frames_of(ipc_stream(BOMBS[name]))

    assert sum(map(len, frames)) < 2_000
    with pytest.raises(LimitExceededError, match=r"rows in \d+ bytes; a message of so few bytes has at most"):
        list(Decoder(map(decode, frames)))


def test_rows_without_bytes_may_be_many() -> None:
    """Clients send whole columns of nulls, and rows without columns, by the hundred thousand."""
    batch = pa.record_batch({"c": pa.nulls(MILLION), "d": runs(pa.array(["x"]), MILLION)})

    assert read(batch).num_rows == MILLION
    assert read(without_columns(MILLION)).num_rows == MILLION


def test_bits_are_bytes_enough() -> None:
    """Rows of one bit each are not taken for rows of none."""
    flags = pa.array([True, False] * 2 * MILLION)

    assert read(pa.record_batch({"c": flags, "n": pa.nulls(len(flags))})).num_rows == 4 * MILLION


DEEP = same_lists(same_lists(same_lists(pa.array([1] * 1_000, pa.int64()), 1_000), 1_000), 1_000)

EXPANDING = {
    "dictionary": pa.DictionaryArray.from_arrays(pa.array([0] * MILLION, pa.int8()), pa.array([TEXT * 2])),
    "runs": runs(pa.array([TEXT * 2]), MILLION),
    "list views": same_lists(pa.array([1] * 1_000, pa.int64()), MILLION),
    "list views in list views": DEEP,
    "list views in lists": pa.ListArray.from_arrays(
        pa.array([0, MILLION], pa.int32()), same_lists(pa.array([TEXT * 2]), MILLION)
    ),
    "dense union": pa.UnionArray.from_dense(
        pa.array([0] * MILLION, pa.int8()), pa.array([0] * MILLION, pa.int32()), [pa.array([TEXT * 2])]
    ),
    "struct": pa.StructArray.from_arrays([runs(pa.array([TEXT * 2]), MILLION)], ["a"]),
    "runs of lists of nulls": runs(
        pa.ListArray.from_arrays(pa.array([0, 1_000], pa.int32()), pa.nulls(1_000)), MILLION
    ),
    "extension": pa.ExtensionArray.from_storage(
        pa.opaque(pa.list_view(pa.int64()), "t", "v"), same_lists(pa.array([1] * 1_000, pa.int64()), MILLION)
    ),
}


@pytest.mark.parametrize("name", EXPANDING)
def test_size_of_all_values_is_limited(name: str) -> None:
    """Few bytes that stand for gigabytes are refused before they are written out."""
    batch = pa.record_batch({"c": EXPANDING[name]})

    assert batch.get_total_buffer_size() < 20 * MILLION
    with pytest.raises(LimitExceededError, match=r"^the batch has \d+ bytes when all values are written out"):
        read(batch)


def test_many_columns_of_nulls_are_counted_together() -> None:
    """Each column is within the limit of rows; all together they would fill the memory."""
    batch = pa.record_batch({f"c{number}": pa.nulls(MILLION) for number in range(1_000)})

    with pytest.raises(LimitExceededError, match="when all values are written out"):
        read(batch)


def test_values_of_an_expanding_column_are_counted_up_to_a_limit() -> None:
    """A column that takes too long to count is refused, and the text says what to do."""
    many = pa.Array.from_buffers(pa.int8(), 1 << 25, [None, pa.py_buffer(bytes(1 << 25))])
    column = pa.DictionaryArray.from_arrays(many, pa.array(["x"]))

    with pytest.raises(LimitExceededError, match=r"send fewer rows at a time$"):
        flat_size(column)


def test_overlapping_lists_are_counted_as_often_as_they_are_shown() -> None:
    """The size is that of the values, wherever they lie."""
    values = pa.array(["a", "bb", "ccc"])
    column = pa.ListViewArray.from_arrays(
        pa.array([0, 1, 0, 2], pa.int32()), pa.array([3, 2, 0, 1], pa.int32()), values
    )

    assert flat_size(column) == sum(
        16 + sum(8 + len(text) for text in texts)
        for texts in (["a", "bb", "ccc"], ["bb", "ccc"], [], ["ccc"])
    )


@pytest.mark.parametrize("name", columns())
def test_no_column_is_larger_than_counted(name: str) -> None:
    """The count of every type is at least what its values need, and not far from it."""
    column = columns()[name]
    plain = column.nbytes

    assert flat_size(column) >= (0 if can_expand(column.type) else plain / 2)
    assert flat_size(column) <= 64 * len(column) + 8 * plain


def test_flat_columns_are_not_counted() -> None:
    """Batches of plain columns pay nothing."""
    every = columns()

    assert not any(
        can_expand(every[name].type) for name in ("int64", "string", "list", "struct", "map", "uuid", "bool")
    )
    assert all(
        can_expand(every[name].type)
        for name in ("null", "dictionary", "list_view", "empty_struct", "dense_union")
    )
