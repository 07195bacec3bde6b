from __future__ import annotations

import pyarrow as pa

from sparkport.flight.streams import resized


def test_rows_that_come_slowly_are_not_held_back() -> None:
    """Small batches are joined while they come quickly; of slow ones each leaves when the next is there."""
    times = iter([0.0, 0.1, 0.2, 0.9, 1.0, 1.1, 1.2])
    batches = [pa.record_batch({"n": [number]}) for number in range(5)]
    sent = list(resized(batches, clock=lambda: next(times)))

    assert [batch["n"].to_pylist() for batch in sent] == [[0, 1, 2], [3, 4]]
