"""Several endpoints of one scan, and scans of a state that is over."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from sparkport.catalog import Call, ScanOptions, ScanSlice
from sparkport.catalog.measures import MEASURES
from sparkport.catalog.predicates import Column, Comparison, ComparisonOperator, Constant
from sparkport.errors import NotFoundError
from sparkport.spark.engine import Engine
from sparkport.spark.read.splits import SplitSizes
from sparkport.spark.session.host import SparkHost
from tests.spark.read.lake import Lake, Way, ids


@pytest.fixture
def finely(lake: Lake, spark_host: SparkHost) -> Iterator[Lake]:
    """Return the same lake, read in many small parts."""
    engine = Engine(
        spark_host, sizes=SplitSizes(in_server=0, endpoint=4_000, first_task=500, task=1_500, max_endpoints=7)
    )
    yield lake.with_engine(engine)
    engine.jobs.close()


@pytest.fixture(scope="module", autouse=True)
def steps(lake: Lake) -> None:
    """Make a table of several files, one of them large, with deleted rows."""
    for start, stop, files in ((0, 3000, 3), (3000, 23_000, 1)):
        lake.spark.range(start, stop, 1, files).write.format("delta").mode("append").option(
            "delta.enableDeletionVectors", "true"
        ).option("parquet.block.size", 8_000).save(str(lake.root("steps")))
    lake.run("steps", "DELETE FROM {t} WHERE id % 1000 = 999")


_EXPECTED = [number for number in range(23_000) if number % 1000 != 999]


def test_slices_are_together_the_table(finely: Lake) -> None:
    """Every row is in exactly one slice, however many there are, and in the same order each time."""
    table = finely.table("steps")
    count = table.slice_count(Call(), ScanOptions())
    whole = ids(finely.read("steps"))
    parts = [ids(finely.read("steps", ScanOptions(slice=ScanSlice(i, count)))) for i in range(count)]
    many = [ids(finely.read("steps", ScanOptions(slice=ScanSlice(i, 6)))) for i in range(6)]

    assert 1 < count <= 4
    assert sorted(whole) == _EXPECTED
    assert [number for part in parts for number in part] == whole
    assert [number for part in many for number in part] == whole
    assert ids(finely.read("steps")) == whole


def test_slices_of_filtered_files_are_together_the_matches(finely: Lake) -> None:
    """Slices cut what is left after skipping, for the same filter alike."""
    small = Comparison(ComparisonOperator.LESS, Column("id"), Constant(pa.scalar(2500, pa.int64())))
    options = ScanOptions(filter=small)
    skipped = MEASURES.value("files_skipped")
    count = finely.table("steps").slice_count(Call(), options)
    skipped = MEASURES.value("files_skipped") - skipped
    parts = [
        ids(finely.read("steps", ScanOptions(filter=small, slice=ScanSlice(i, count)))) for i in range(count)
    ]

    assert sorted(number for part in parts for number in part) == [n for n in _EXPECTED if n < 2500]
    assert skipped > 0


def test_slices_by_spark_sql_are_together_the_table(lake: Lake) -> None:
    """Where a scan cannot be cut, the first slice has it all."""
    parts = [lake.read("steps", ScanOptions(slice=ScanSlice(i, 3)), way=Way.SQL).num_rows for i in range(3)]
    counts = [
        lake.read("steps", ScanOptions((), slice=ScanSlice(i, 3)), way=Way.SQL).num_rows for i in range(3)
    ]

    assert lake.table("steps", way=Way.SQL).slice_count(Call(), ScanOptions()) == 1
    assert parts == [22_977, 0, 0]
    assert counts == [22_977, 0, 0]


@pytest.mark.parametrize("index", [-1, 3])
def test_a_slice_that_is_not_there_is_told(lake: Lake, index: int) -> None:
    """A slice beyond the last is no empty one."""
    for way in Way:
        with pytest.raises(NotFoundError, match=f"slice '{index}' not found"):
            lake.read("steps", ScanOptions(slice=ScanSlice(index, 3)), way=way)


def test_a_pinned_state_stays_while_others_write(finely: Lake) -> None:
    """The time point of a snapshot reads the same rows after inserts, deletes and OPTIMIZE."""
    table = finely.table("steps")
    pin = table.snapshot(Call(), None)
    options = ScanOptions(time_point=pin.time_point)
    before = ids(finely.read("steps", options))
    reader = table.scan(Call(), options)
    first = reader.read_next_batch()
    finely.run("steps", "INSERT INTO {t} VALUES (1000000)", "DELETE FROM {t} WHERE id < 5000", "OPTIMIZE {t}")
    rest = reader.read_all()
    newest = table.snapshot(Call(), None)

    assert first["id"].to_pylist() + rest["id"].to_pylist() == before
    assert ids(finely.read("steps", options)) == before
    assert sorted(ids(finely.read("steps", options, way=Way.SQL))) == _EXPECTED
    assert table.snapshot(Call(), pin.time_point) == pin
    assert (pin.row_count, newest.row_count) == (22_977, 17_983)
    assert sorted(ids(finely.read("steps"))) == [*(n for n in _EXPECTED if n >= 5000), 1_000_000]
