"""What a call has done so far."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sparkport.catalog import Call
from sparkport.catalog.meter import Meter, Progress
from sparkport.errors import CancelledError


def test_parts_of_a_call_count_together() -> None:
    """A call within a transaction, or on a snapshot, is counted as the call that it belongs to."""
    call = Call()
    part = call.in_transaction("t").based_on("1")
    list(part.counted([pa.record_batch({"a": [1, 2]})]))

    assert call.meter.rows_out == 2


def test_a_stream_that_stops_for_a_cancellation_has_not_ended() -> None:
    """Whoever reads the batches of a cancelled call never takes them for all."""
    call = Call()
    batches = call.counted([pa.record_batch({"a": [1]})])
    next(batches)
    call.cancel()

    with pytest.raises(CancelledError):
        next(batches)


def test_the_last_one_that_is_watched_tells_the_progress() -> None:
    """What has ended is not asked any more, and does not end what has taken its place."""
    meter = Meter()

    def first() -> Progress:
        return Progress(1, 4)

    def second() -> Progress:
        return Progress(0, 0)

    meter.watch(first)
    assert meter.progress() == Progress(1, 4)
    meter.watch(second)
    meter.unwatch(first)
    assert meter.progress() == Progress(0, 0)
    meter.unwatch(second)
    assert meter.progress() is None


@pytest.mark.parametrize(("done", "total", "fraction"), [(1, 4, 0.25), (0, 0, None), (5, 4, 1.0)])
def test_progress_is_a_fraction(done: int, total: int, fraction: float | None) -> None:
    """It is never above 1, and unknown while nothing is."""
    assert Progress(done, total).fraction == fraction
