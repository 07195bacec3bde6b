"""Write files again without their deleted rows, for tables that have no deletion vectors."""

from __future__ import annotations

from collections.abc import Sequence

from sparkport.catalog.call import Call
from sparkport.spark.commit.row_group_writer import RowGroupWriter
from sparkport.spark.delta.files.data_files import NewFile, write_files
from sparkport.spark.delta.log.actions import DataFile
from sparkport.spark.read.snapshot import TableSnapshot


def rewritten(call: Call, snapshot: TableSnapshot, files: Sequence[DataFile], folder: str) -> list[NewFile]:
    """Return new files in a folder with the rows that the deletion vectors of files leave."""
    made: list[NewFile] = []
    groups = RowGroupWriter(lambda rows: made.extend(write_files(folder, snapshot.metadata, rows)))
    try:
        for batch in snapshot.stored_rows(call, files):
            if batch.num_rows:
                groups.add(batch)
        groups.finish()
    finally:
        groups.stop()
    return made
