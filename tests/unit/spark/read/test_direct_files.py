"""Files that clients may read by themselves."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparkport.catalog.rowid import rowid_field
from sparkport.spark.delta.actions import DataFile, DeletionVector
from sparkport.spark.model.columns import TableColumn
from sparkport.spark.read.direct_files import plain_files

PLAIN = pa.field("n", pa.int64())


def column(name: str, kind: pa.DataType) -> TableColumn:
    """Return a column that is stored as clients see it."""
    field = pa.field(name, kind)
    return TableColumn(field, field, field, name)


def written(folder: Path, table: pa.Table, vector: DeletionVector | None = None) -> DataFile:
    """Write a Parquet file."""
    path = folder / f"{len(list(folder.iterdir()))}.parquet"
    pq.write_table(table, path)
    return DataFile(str(path), {}, 1, 0, None, vector, table.num_rows)


def test_files_with_all_columns_are_plain(tmp_path: Path) -> None:
    """What a reader of Parquet gets is the table."""
    table = pa.table(
        {
            "n": [1],
            "s": ["x"],
            "t": pa.array([0], pa.timestamp("us", "UTC")),
            "l": pa.array([[{"a": 1}]], pa.list_(pa.struct([("a", pa.int32())]))),
        }
    )
    one, two = written(tmp_path, table), written(tmp_path, table)
    columns = [column(field.name, field.type) for field in table.schema]

    assert plain_files([one, two], columns) == [one.path, two.path]
    assert plain_files([], columns) is None


def test_file_that_lacks_a_column_or_has_another_type_is_not(tmp_path: Path) -> None:
    """Columns that were added or widened later are not in old files."""
    number = column("n", pa.int64())

    assert plain_files([written(tmp_path, pa.table({"m": [1]}))], [number]) is None
    assert plain_files([written(tmp_path, pa.table({"n": pa.array([1], pa.int32())}))], [number]) is None


def test_deleted_rows_forbid_it(tmp_path: Path) -> None:
    """A plain reader knows nothing of deletion vectors."""
    file = written(tmp_path, pa.table({"n": [1]}), DeletionVector("u", "x", 1, 1, 1))

    assert plain_files([file], [column("n", pa.int64())]) is None


@pytest.mark.parametrize(
    "odd",
    [
        TableColumn(PLAIN, PLAIN, PLAIN, "n", is_partition=True),
        TableColumn(PLAIN, PLAIN, PLAIN, "n", is_text_of_another=True),
        TableColumn(PLAIN, PLAIN, pa.field("col-1", pa.int64()), "n"),
        TableColumn(pa.field("n", pa.uint32()), PLAIN, PLAIN, "n"),
        TableColumn(rowid_field("n"), PLAIN, PLAIN, "n"),
    ],
)
def test_columns_that_are_not_in_files_as_they_are_shown_forbid_it(tmp_path: Path, odd: TableColumn) -> None:
    """Partition values, other names, other types and row ids are the server's business."""
    assert plain_files([written(tmp_path, pa.table({"n": [1]}))], [odd]) is None


def test_old_timestamps_forbid_it(tmp_path: Path) -> None:
    """DuckDB reads timestamps of 96 bits as something else than the server shows."""
    path = tmp_path / "old.parquet"
    table = pa.table({"t": pa.array([0], pa.timestamp("us"))})
    pq.write_table(table, path, use_deprecated_int96_timestamps=True)

    assert plain_files([DataFile(str(path), {}, 1, 0)], [column("t", pa.timestamp("us"))]) is None
