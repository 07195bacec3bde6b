from __future__ import annotations

import pyarrow as pa

from sparkport.memory.statistics import column_statistics


def test_distinct_values_of_large_columns_are_not_counted() -> None:
    """Counting them takes seconds, and a planner can do without; the range stays exact."""
    small = column_statistics(pa.chunked_array([pa.array(range(1000))]))
    large = column_statistics(pa.chunked_array([pa.array(range(100_001))]))

    assert small.distinct_count == 1000
    assert large.distinct_count == 0
    assert (large.minimum.as_py(), large.maximum.as_py()) == (0, 100_000)
