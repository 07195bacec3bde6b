"""Rows that need no reading."""

from __future__ import annotations

import json
import struct
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyroaring import BitMap64

from sparkport.catalog.rowid import rowid_field
from sparkport.spark.delta.log.actions import DataFile, DeletionVector
from sparkport.spark.model.columns import TableColumn
from sparkport.spark.read.metadata_only import metadata_only_rows

ROWID = TableColumn(rowid_field(), pa.field("rowid", pa.int64()), pa.field("col-1", pa.int64()), "_id")
PLAIN = pa.field("n", pa.int64())
NUMBER = TableColumn(PLAIN, PLAIN, PLAIN, "n")


def file(rows: int, low: int | None = None, high: int | None = None, **more: Any) -> DataFile:
    """Return a file whose ids lie between two numbers."""
    statistics: dict[str, Any] = {"numRecords": rows, **more}
    if low is not None:
        statistics |= {"minValues": {"col-1": low}, "maxValues": {"col-1": high}, "nullCount": {"col-1": 0}}
    return DataFile("/f", {}, 1, 0, json.dumps({**statistics, **more}), None, rows)


def ids(*files: DataFile) -> list[int] | None:
    """Return the ids that are foreseen."""
    batches = metadata_only_rows(files, [ROWID])
    return None if batches is None else [row["rowid"] for batch in batches for row in batch.to_pylist()]


def test_rows_are_counted_without_columns() -> None:
    """The log knows how many there are, deleted ones taken away."""
    vector = DeletionVector("u", "x", 1, 1, 4)
    some = DataFile("/f", {}, 1, 0, None, vector, 10)
    batches = metadata_only_rows([file(100_000), some], [])

    assert batches is not None
    assert sum(batch.num_rows for batch in batches) == 100_006


def test_unknown_count_is_not_foreseen() -> None:
    """A file of a writer that does not count must be read."""
    assert metadata_only_rows([DataFile("/f", {}, 1, 0)], []) is None


def test_ids_without_gaps_are_foreseen() -> None:
    """As many ids as numbers in the range are just these numbers, file by file."""
    assert ids(file(3, 5, 7), file(2, 0, 1)) == [5, 6, 7, 0, 1]


def test_ids_that_are_not_sure_must_be_read() -> None:
    """Gaps, deleted rows, loose bounds, nulls or missing statistics leave the ids open."""
    deleted = DataFile("/f", {}, 1, 0, file(3, 5, 7).statistics, DeletionVector("u", "x", 1, 1, 1), 3)

    assert ids(file(3, 5, 8)) is None
    assert ids(deleted) is None
    assert ids(file(3, 5, 7, tightBounds=False)) is None
    assert ids(file(3, 5, 7, nullCount={"col-1": 1})) is None
    assert ids(file(3)) is None


def test_other_columns_must_be_read() -> None:
    """Only the id can be foreseen."""
    assert metadata_only_rows([file(3, 5, 7)], [ROWID, NUMBER]) is None


def test_long_ranges_come_in_batches() -> None:
    """No batch grows with the table."""
    batches = metadata_only_rows([file(200_000, 0, 199_999)], [ROWID])

    assert batches is not None
    assert [batch.num_rows for batch in batches] == [65_536, 65_536, 65_536, 3_392]


def test_numbers_of_rows_without_ids_are_foreseen(tmp_path: Path) -> None:
    """Where no row has an id the numbers follow from the log, less those of deleted rows."""
    data = struct.pack("<I", 1681511377) + BitMap64([1, 65_537]).serialize()
    (tmp_path / "v.bin").write_bytes(
        struct.pack(">I", len(data)) + data + struct.pack(">I", zlib.crc32(data))
    )
    vector = DeletionVector("p", str(tmp_path / "v.bin"), 0, len(data), 2)
    some = DataFile("/some", {}, 1, 0, '{"numRecords": 65540}', vector, 65_540)
    all_null = file(3, nullCount={"col-1": 3})
    absent = replace(ROWID, is_absent=True)
    numbers = {"/some": -1_000_000, "/f": -7}

    def found(column: TableColumn, *files: DataFile) -> list[int] | None:
        batches = metadata_only_rows(files, [column], root=str(tmp_path), numbers=numbers)
        return None if batches is None else [n for batch in batches for n in batch.column(0).to_pylist()]

    expected = [-1_000_000 - n for n in range(65_540) if n not in {1, 65_537}]
    assert found(absent, some, file(2)) == [*expected, -7, -8]
    assert found(ROWID, all_null) == [-7, -8, -9]
    assert found(ROWID, file(3, nullCount={"col-1": 1})) is None
    assert found(ROWID, file(3)) is None
