"""Data files that the server writes itself."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sparkport.spark.delta.files.data_files import DataFileWriter
from sparkport.spark.delta.files.layout import ColumnLayout, Layout

LAYOUT = Layout((ColumnLayout("n", "n"),))


def test_many_rows_lie_in_small_row_groups(tmp_path: Path) -> None:
    """A look-up decodes whole row groups, so that these are no larger than DuckDB's own."""
    writer = DataFileWriter(tmp_path, LAYOUT)
    writer.write(pa.table({"n": range(300_000)}))
    writer.write(pa.table({"n": range(300_000, 300_010)}))
    new_file = writer.close()

    metadata = pq.read_metadata(new_file.path)
    groups = [metadata.row_group(index).num_rows for index in range(metadata.num_row_groups)]
    assert groups == [122_880, 122_880, 54_240, 10]
    assert pq.read_table(new_file.path).column("n").to_pylist() == list(range(300_010))
    assert json.loads(json.loads(new_file.action)["add"]["stats"])["numRecords"] == 300_010
