"""Columns that share memory, on the wire."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sparkport.flight.presentation.streams import Shaper, encoded
from sparkport.protocol.ipc.flight_data import Decoder, decode
from sparkport.protocol.ipc.shared_buffers import zeros

KINDS = [
    pa.bool_(),
    pa.int8(),
    pa.int64(),
    pa.float16(),
    pa.float64(),
    pa.date32(),
    pa.time64("us"),
    pa.timestamp("us", "UTC"),
    pa.duration("s"),
    pa.decimal128(20, 3),
    pa.string(),
    pa.binary(),
]


def sent(schema: pa.Schema, *batches: pa.RecordBatch) -> tuple[pa.Table, int]:
    """Return what a client reads of a stream, and how many bytes that took."""
    frames = list(encoded(Shaper(schema), batches))
    found = [batch for batch, _ in Decoder(decode(frame) for frame in frames)]
    table = pa.Table.from_batches(found, schema)
    table.validate(full=True)
    return table, sum(map(len, frames))


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 1000])
@pytest.mark.parametrize("width", [None, 0, 4, 16])
def test_zeros_are_nulls(kind: pa.DataType, length: int, width: int | None) -> None:
    """A block of zeros is an array of nulls of every simple type, whatever values lie under them."""
    values = None if width is None else pa.py_buffer(b"\xff" * width * length)
    found = zeros(kind, length, pa.py_buffer(bytes(16 * (length + 1))), values)

    assert found is not None
    found.validate(full=True)
    assert found.null_count == length
    assert found.equals(pa.nulls(length, kind))


def test_columns_not_asked_for_cost_one_of_them() -> None:
    """However many there are, they are one block of zeros in the message."""
    rows = 10_000
    read = pa.record_batch({"c5": pa.array(range(rows))})
    wide = pa.schema([(f"c{i}", KINDS[i % len(KINDS)]) for i in range(100)]).set(
        5, pa.field("c5", pa.int64())
    )
    table, size = sent(wide, read)

    assert table["c5"].to_pylist() == list(range(rows))
    assert table["c6"].null_count == rows
    assert size < rows * (8 + 16) + 20_000


def test_numbers_not_asked_for_cost_almost_nothing() -> None:
    """Their values are those of the widest column that is sent, whichever part of a batch it is."""
    rows = 10_000
    sums = pa.array(range(3 * rows), pa.int64()).cast(pa.decimal128(20, 0))
    wide = pa.schema(
        [("n", pa.int64()), ("sum", sums.type), ("d", pa.date32()), ("f", pa.float64()), ("e", sums.type)]
    )
    table, size = sent(wide, pa.record_batch({"sum": sums}).slice(rows, rows))
    narrow, larger = sent(wide, pa.record_batch({"n": pa.array(range(rows))}))

    assert table["sum"].combine_chunks().equals(sums.slice(rows, rows))
    assert {table[name].null_count for name in "ndfe"} == {rows}
    assert size < rows * 16 + rows // 4 + 2_000
    assert narrow["n"].to_pylist() == list(range(rows))
    assert {narrow[name].null_count for name in ("sum", "d", "f", "e")} == {rows}
    assert larger < rows * (8 + 16) + 2_000


def test_values_and_nulls_stay_apart() -> None:
    """Sharing changes nothing for columns that have values, nested, sliced or empty."""
    schema = pa.schema(
        [
            ("a", pa.int32()),
            ("l", pa.list_(pa.struct([("x", pa.string())]))),
            ("n", pa.int32()),
            ("s", pa.string()),
            ("v", pa.string_view()),
            ("d", pa.dictionary(pa.int8(), pa.string())),
        ]
    )
    lists = pa.array([[{"x": "y"}], None, [], [{"x": None}]], schema.field("l").type)
    batch = pa.record_batch({"s": pa.array(["p", None, "", "q"]), "l": lists}).slice(1)
    table, _ = sent(schema, batch)

    assert table.to_pylist() == [
        {"a": None, "l": None, "n": None, "s": None, "v": None, "d": None},
        {"a": None, "l": [], "n": None, "s": "", "v": None, "d": None},
        {"a": None, "l": [{"x": None}], "n": None, "s": "q", "v": None, "d": None},
    ]


def test_same_column_twice_is_sent_once() -> None:
    """What has the same memory has the same place in the message."""
    values = pa.array(range(100_000))
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64())])
    table, size = sent(schema, pa.record_batch([values, values], schema=schema))

    assert table["a"].equals(table["b"])
    assert size < 8 * 100_000 + 2000


def test_rows_without_columns_are_counted() -> None:
    """COUNT(*) through a stream needs rows alone."""
    schema = pa.schema([("a", pa.int64()), ("s", pa.string())])
    empty = pa.record_batch([pa.nulls(70_000)], ["x"]).select([])
    table, _ = sent(schema, empty, empty)

    assert len(table) == 140_000
    assert table["s"].null_count == 140_000
