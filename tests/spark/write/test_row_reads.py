"""How often UPDATE and DELETE read the rows that they change."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from sparkport.catalog import Call, CreateTableOptions
from sparkport.catalog.scan import ScanOptions
from sparkport.errors import ConstraintViolationError
from sparkport.spark.catalog.schema import SparkSchema
from sparkport.spark.read.arrow_scan import ArrowScan
from sparkport.spark.read.file_scan import FileScan
from sparkport.spark.session.jobs import Jobs
from sparkport.spark.table import DeltaTable

_COLUMNS = pa.schema([("k", pa.int64()), ("n", pa.int64())])


@pytest.fixture
def table(schema: SparkSchema) -> DeltaTable:
    """Return a table with a CHECK and three rows."""
    made = schema.create_table(Call(), "t", _COLUMNS, CreateTableOptions(check_constraints=("n < 100",)))
    made.insert(Call(), pa.table({"k": [1, 2, 3], "n": [10, 20, 30]}, _COLUMNS).to_reader())
    return made


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[FileScan]:
    """Return the scans of data files from now on."""
    scans: list[FileScan] = []
    original = ArrowScan.read

    def read(self: ArrowScan, call: Call, scan: FileScan) -> Iterator[pa.RecordBatch]:
        scans.append(scan)
        return original(self, call, scan)

    monkeypatch.setattr(ArrowScan, "read", read)
    return scans


def _rows(table: DeltaTable) -> dict[int, tuple[int, int]]:
    rows = table.scan(Call(), ScanOptions()).read_all().to_pylist()
    return {row["k"]: (row["rowid"], row["n"]) for row in rows}


@pytest.mark.parametrize(("returning", "most"), [(False, 1), (True, 2)])
def test_an_update_reads_a_row_at_most_twice(
    table: DeltaTable, reads: list[FileScan], returning: bool, most: int
) -> None:
    """Once for the values that it answers with, once for the commit; a CHECK reads nothing more."""
    ids = pa.array([_rows(table)[k][0] for k in (1, 2)])
    reads.clear()
    new = pa.table({"n": [11, 21]}, pa.schema([("n", pa.int64())]))

    done = table.update(Call(), ids, new.to_reader(), returning=returning)

    assert done.affected_rows == 2
    assert len(reads) == most
    assert {k: n for k, (_, n) in _rows(table).items()} == {1: 11, 2: 21, 3: 30}

    broken = pa.table({"n": [1000, 1]}, pa.schema([("n", pa.int64())]))
    with pytest.raises(ConstraintViolationError):
        table.update(Call(), ids, broken.to_reader(), returning=returning)

    assert {k: n for k, (_, n) in _rows(table).items()} == {1: 11, 2: 21, 3: 30}


@pytest.mark.parametrize(("returning", "most"), [(False, 1), (True, 2)])
def test_a_delete_reads_a_row_at_most_twice(
    table: DeltaTable, reads: list[FileScan], returning: bool, most: int
) -> None:
    """Once for the values that it answers with, once to find it."""
    ids = pa.array([_rows(table)[1][0]])
    reads.clear()

    done = table.delete(Call(), ids, returning=returning)

    assert done.affected_rows == 1
    assert len(reads) == most
    assert sorted(_rows(table)) == [2, 3]


def test_an_update_of_a_few_rows_needs_no_spark(table: DeltaTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """UPDATE ... RETURNING of ten rows is read, checked and committed by the server: no job for Spark."""
    numbers = list(range(10, 20))
    table.insert(Call(), pa.table({"k": numbers, "n": numbers}, _COLUMNS).to_reader())
    ids = pa.array([_rows(table)[k][0] for k in numbers])
    jobs: list[str] = []
    monkeypatch.setattr(Jobs, "_submit", lambda *_: jobs.append("job"))
    new = pa.table({"n": [n + 50 for n in numbers]}, pa.schema([("n", pa.int64())]))

    done = table.update(Call(), ids, new.to_reader(), returning=True)

    assert done.returning_data is not None
    assert sorted(done.returning_data.read_all()["n"].to_pylist()) == [n + 50 for n in numbers]
    assert jobs == []
