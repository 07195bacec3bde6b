from __future__ import annotations

import pyarrow as pa
import pytest

from sparkport.catalog import Call
from sparkport.catalog.user_code import UserCodeBoundary
from sparkport.errors import UserCodeError
from sparkport.flight.presentation.streams import resized, scan_shaper

PAIR = pa.schema([pa.field("a", pa.int64(), nullable=False), ("b", pa.string())])


def test_rows_that_come_slowly_are_not_held_back() -> None:
    """Small batches are joined while they come quickly; of slow ones each leaves when the next is there."""
    times = iter([0.0, 0.1, 0.2, 0.9, 1.0, 1.1, 1.2])
    batches = [pa.record_batch({"n": [number]}) for number in range(5)]
    sent = list(resized(batches, clock=lambda: next(times)))

    assert [batch["n"].to_pylist() for batch in sent] == [[0, 1, 2], [3, 4]]


def test_only_columns_that_were_not_asked_for_become_nulls() -> None:
    """What was asked for has to be there, in any order and spelling of its type."""
    boundary = UserCodeBoundary(Call(trace_id="t1"), "function", "s.f")
    both = scan_shaper(PAIR, None, boundary)
    only_b = scan_shaper(PAIR, ("b",), boundary)
    swapped = pa.record_batch({"b": pa.array(["x"], pa.large_string()), "a": pa.array([1], pa.int32())})

    assert both.shape(swapped).to_pydict() == {"a": [1], "b": ["x"]}
    assert only_b.shape(pa.record_batch({"b": ["x"]})).to_pydict() == {"a": [None], "b": ["x"]}
    with pytest.raises(UserCodeError) as missing:
        both.shape(pa.record_batch({"b": ["x"]}))
    with pytest.raises(UserCodeError) as wrong:
        only_b.shape(pa.record_batch({"a": [1], "b": [pa.scalar([1])]}))
    assert str(missing.value) == ("function 's.f' failed: TypeError: the column 'a' is missing (trace id t1)")
    assert str(wrong.value).startswith("function 's.f' failed: TypeError: the column 'b' is of type list<")
