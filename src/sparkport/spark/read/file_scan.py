"""The files of a scan, and how they are read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sparkport.spark.delta.log.actions import DataFile
from sparkport.spark.model.columns import TableColumn
from sparkport.spark.read.splits import ByteRange, ScanTask, file_slice
from sparkport.spark.worker.parquet import FileSlice, ReadPlan


@dataclass(frozen=True, slots=True)
class FileScan:
    """Files of a table and how they are read.

    `first_numbers` are, by path, the numbers of rows without an id; `file_numbers` are what tells files
    apart in rows that say where they are. `in_server` says that they are few enough for the server itself.
    """

    table: str
    root: str
    files: Sequence[DataFile]
    columns: Sequence[TableColumn]
    plan: ReadPlan
    first_numbers: Mapping[str, int]
    file_numbers: Mapping[str, int]
    in_server: bool = False

    @property
    def column_share(self) -> float:
        """How much of each file is read."""
        return column_share(self.plan, self.columns)

    @property
    def size(self) -> float:
        """About how many bytes of the files are read."""
        return bytes_read(self.plan, self.columns, self.files)

    def slices(self, task: ScanTask) -> list[FileSlice]:
        """Return what a task needs to know to read its ranges."""
        return [self._slice(part) for part in task.ranges]

    def whole_files(self) -> Iterator[FileSlice]:
        """Yield what it takes to read each file."""
        return (self._slice(ByteRange(file, 0, file.size)) for file in self.files)

    def _slice(self, part: ByteRange) -> FileSlice:
        path = part.file.path
        return file_slice(
            part, self.root, self.columns, self.first_numbers.get(path), self.file_numbers.get(path)
        )


def column_share(plan: ReadPlan, columns: Sequence[TableColumn]) -> float:
    """Return how much of each file a plan reads, as if all columns were equally large."""
    names = {column.physical.name for column in (*plan.columns, *plan.filter_columns)}
    return min(1.0, max(1, len(names)) / max(1, len(columns)))


def bytes_read(plan: ReadPlan, columns: Sequence[TableColumn], files: Iterable[DataFile]) -> float:
    """Return about how many bytes of the files a plan reads."""
    return column_share(plan, columns) * sum(file.size for file in files)
