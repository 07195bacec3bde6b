"""Rows for a client that only counts them: as many as there are, in next to no bytes."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sparkport.protocol.ipc.counted_rows import counted_rows
from tests.flight_client import table_of

from .arrow_samples import columns

_COUNTS = [0, 1, 5, 2047, 2048, (1 << 17) - 1, 1 << 17, (1 << 17) + 1, 300_001]
_SAMPLES = columns()


@pytest.mark.parametrize("count", _COUNTS)
def test_there_are_as_many_rows_as_asked_for(count: int) -> None:
    """Whatever number it is, and however many batches that takes."""
    arrow_schema = pa.schema([("text", pa.string()), pa.field("id", pa.int64(), nullable=False)])

    rows = table_of(list(counted_rows(arrow_schema, 1, count)))

    assert rows.num_rows == count
    rows.column("id").validate(full=True)


@pytest.mark.parametrize("name", _SAMPLES)
def test_the_column_that_was_asked_for_is_whole(name: str) -> None:
    """Whatever comes before and after it: DuckDB copies its values in a join."""
    fields = [
        pa.field("before", pa.list_(pa.string())),
        pa.field("asked for", _SAMPLES[name].type),
        pa.field("after", pa.struct([("a", pa.int32()), ("b", pa.dictionary(pa.int8(), pa.string()))])),
    ]

    rows = table_of(list(counted_rows(pa.schema(fields), 1, 5000)))

    assert rows.num_rows == 5000
    rows.column("asked for").validate(full=True)
    assert rows.column("asked for").to_pylist()[-1] is None


def test_a_million_rows_take_a_few_kilobytes() -> None:
    """Also of a table with many columns, none of which is unpacked by the client."""
    arrow_schema = pa.schema([("id", pa.int64()), *((f"c{i}", pa.decimal128(20, 2)) for i in range(50))])

    frames = list(counted_rows(arrow_schema, 0, 1 << 20))

    assert sum(map(len, frames)) < 100_000
