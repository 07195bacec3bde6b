"""Which column statistics are kept, and for whom."""

from __future__ import annotations

import gc
import weakref

import pyarrow as pa

from sparkport.catalog import Call, ScanOptions, TimePoint, TimeUnit
from sparkport.flight.statistics_cache import StatisticsCache, StatisticsKey

_KEY = StatisticsKey("ada", TimePoint(TimeUnit.SNAPSHOT, "t:1"), "n", duckdb_types=True)


class Table:
    """A table without rows."""

    name = "t"
    comment = ""
    arrow_schema = pa.schema([("n", pa.int64())])

    def scan(self, call: Call, options: ScanOptions) -> pa.RecordBatchReader:
        """Return no rows."""
        del call, options
        return self.arrow_schema.empty_table().to_reader()


def test_statistics_are_those_of_a_caller_a_snapshot_and_a_column() -> None:
    """Whoever asks for another gets nothing, and a table of the same name is another table."""
    cache, table = StatisticsCache(), Table()
    cache.put(table, _KEY, b"known")

    assert cache.get(table, _KEY) == b"known"
    assert cache.get(Table(), _KEY) is None
    for other in (
        StatisticsKey("bob", _KEY.pin, "n", duckdb_types=True),
        StatisticsKey("ada", TimePoint(TimeUnit.SNAPSHOT, "t:2"), "n", duckdb_types=True),
        StatisticsKey("ada", _KEY.pin, "m", duckdb_types=True),
        StatisticsKey("ada", _KEY.pin, "n", duckdb_types=False),
    ):
        assert cache.get(table, other) is None


def test_no_table_is_kept_alive() -> None:
    """A dropped table may hold many rows."""
    cache, table = StatisticsCache(), Table()
    cache.put(table, _KEY, b"known")
    gone = weakref.ref(table)
    del table
    gc.collect()

    assert gone() is None
