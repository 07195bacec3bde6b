"""Stage the rows of a statement before its commit: a few in memory, many in files."""

from __future__ import annotations

import contextlib
import shutil
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sparkport.arrow.sizes import byte_size
from sparkport.errors import UnsupportedOperationError
from sparkport.spark.commit.row_group_writer import RowGroupWriter
from sparkport.spark.delta.files.data_files import MAX_ROWS, DataFilesWriter, NewFile, discard
from sparkport.spark.delta.files.layout import ColumnLayout, Layout
from sparkport.spark.errors import writing
from sparkport.spark.sql_names import staged_name
from sparkport.spark.storage.filesystem import storage_of
from sparkport.spark.storage.temp_folders import hold, named, remove_orphans

_PREFIX = "rows-"
_MAX_BYTES = 8 << 20  # in memory, for each of many statements


class Stage:
    """Rows that a statement has sent: a few are kept in memory, more are written to files as they arrive.

    The files are in a hidden folder of the warehouse, where Spark's executors reach them. It is removed
    with the statement; that of a server that died is removed by the next server to start.
    With a `layout`, on a local disk, they are data files of a table that only have to be moved to its
    folder; else Spark reads them.
    """

    def __init__(self, staging: str, layout: Layout | None = None) -> None:
        self.rows = 0
        self.bytes = 0
        self.layout = layout
        self.files: list[NewFile] = []
        self._staging = staging
        self._folder = new_folder(staging)
        self._in_memory: list[pa.RecordBatch] | None = []
        self._file_layout = Layout(())
        self._writer: DataFilesWriter | _SparkFile | None = None
        self._groups: RowGroupWriter | None = None

    @property
    def is_small(self) -> bool:
        """Whether all rows are in memory."""
        return self._in_memory is not None

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows; all batches have the same columns.

        Raises what `writing` does, and UnsupportedOperationError for a field name that Spark cannot read.
        """
        if not self.rows:
            _check_fields(batch.schema)
        self.rows += batch.num_rows
        self.bytes += byte_size(batch)
        if self._in_memory is None:
            self._write(batch)
            return
        self._in_memory.append(batch)
        if self.rows > MAX_ROWS or self.bytes > _MAX_BYTES:
            self._move_to_files(self.layout)

    def close(self) -> None:
        """Finish the files, so that the rows can be read. Raises what `writing` does."""
        groups, self._groups = self._groups, None
        if groups is None or self._writer is None:
            return
        with writing():
            groups.finish()
            self.files = self._writer.close()

    def read(self) -> pa.Table:
        """Return all rows of a closed stage; there must be some."""
        return pa.Table.from_batches(self.batches())

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows of a closed stage in batches."""
        if self._in_memory is not None:
            yield from self._in_memory
            return
        storage = storage_of(self._folder)
        for name in sorted(storage.names(self._folder)):
            with storage.open(f"{self._folder}/{name}") as source, pq.ParquetFile(source) as file:
                for batch in file.iter_batches():
                    yield batch.rename_columns(list(self._file_layout.names))

    def on_disk(self) -> str:
        """Return a folder from which Spark can read the rows of a closed stage."""
        if self._in_memory:
            self._move_to_files(None)
            self.close()
        return self._folder

    def name_on_disk(self, name: str) -> str:
        """Return the name of a column in the files of that folder."""
        layout = self._file_layout
        return dict(zip(layout.names, layout.names_in_files, strict=True))[name]

    def publish(self, folder: Path) -> list[NewFile]:
        """Move the files to the folder of their table, where no commit refers to them yet."""
        try:
            self._move(folder)
        except BaseException:
            self.unpublish()
            raise
        return self.files

    def unpublish(self) -> None:
        """Move the files out of the folder of their table again, before any commit refers to them."""
        try:
            self._move(Path(self._folder))
        except OSError:  # the folder of the stage was removed
            discard(*(file.path for file in self.files if file.path.parent != Path(self._folder)))

    def beside(self, rows: pa.Table) -> Stage:
        """Return another stage in the same place, with these rows."""
        other = Stage(self._staging)
        try:
            for batch in rows.to_batches():
                other.add(batch)
            other.close()
        except BaseException:
            other.remove()
            raise
        return other

    def replaced(self, rows: pa.Table) -> Stage:
        """Remove this stage and return one with other rows."""
        other = self.beside(rows)
        self.remove()
        return other

    def remove(self) -> None:
        """Discard the rows; files that were moved to their table stay there."""
        self._in_memory = None
        groups, self._groups = self._groups, None
        if groups is not None:
            groups.stop()
        if self._writer is not None:
            # An unfinished file is of no use; what cannot be removed now is removed as an orphan later.
            with contextlib.suppress(OSError):
                self._writer.abandon()
            with contextlib.suppress(OSError):
                storage_of(self._folder).remove(self._folder)

    def _move_to_files(self, layout: Layout | None) -> None:
        """Write the rows in memory to files, and all later rows after them."""
        batches, self._in_memory = self._in_memory or [], None
        with writing():
            hold(self._staging)
        if layout is None:
            self._file_layout = _layout_for_spark(batches[0].schema.names)
            self._writer = _SparkFile(f"{self._folder}/rows.parquet", self._file_layout)
        else:
            with writing():
                Path(self._folder).mkdir(parents=True)
            self._file_layout = layout
            self._writer = DataFilesWriter(Path(self._folder), layout)
        self._groups = RowGroupWriter(self._writer.write)
        for batch in batches:
            self._write(batch)

    def _write(self, batch: pa.RecordBatch) -> None:
        assert self._groups is not None
        with writing():
            self._groups.add(batch)

    def _move(self, folder: Path) -> None:
        for at, file in enumerate(self.files):
            if file.path.parent != folder:
                # A rename, except for tables on another disk than the warehouse.
                path = Path(shutil.move(file.path, folder / file.path.name))
                self.files[at] = replace(file, path=path)


class _SparkFile:
    """A file that Spark reads once and soon: compressing it would cost more than it saves."""

    def __init__(self, location: str, layout: Layout) -> None:
        self._location = location
        self._layout = layout
        self._sink: pa.NativeFile | None = None
        self._file: pq.ParquetWriter | None = None

    def write(self, rows: pa.Table) -> None:
        """Write a row group."""
        arranged = self._layout.arrange(rows)
        if self._file is None:
            self._sink = storage_of(self._location).create(self._location)
            self._file = pq.ParquetWriter(self._sink, arranged.schema, compression="none", store_schema=False)
        self._file.write_table(arranged, row_group_size=max(1, len(arranged)))

    def close(self) -> list[NewFile]:
        """Finish the file; return no data files, as it is not part of a table."""
        if self._file is not None:
            self._file.close()
        if self._sink is not None:
            self._sink.close()
        return []

    def abandon(self) -> None:
        """Close the file. Raises what finishing it does."""
        self.close()


def _layout_for_spark(names: list[str]) -> Layout:
    return Layout(tuple(ColumnLayout(name, staged_name(name)) for name in names))


def _check_fields(arrow_schema: pa.Schema) -> None:
    """Raise UnsupportedOperationError for a nested field that Spark cannot read, see `staged_name`."""
    for column in arrow_schema:
        for name in _field_names(column.type):
            if staged_name(name) != name:
                raise UnsupportedOperationError(
                    "field", name, "writing: Spark cannot read a nested field of that name; rename it"
                )


def _field_names(arrow_type: pa.DataType) -> Iterator[str]:
    for index in range(arrow_type.num_fields):
        field = arrow_type.field(index)
        yield field.name
        yield from _field_names(field.type)


def new_folder(staging: str) -> str:
    """Return the path of a new folder, an orphan when this server is gone. Call `hold` before using it."""
    return f"{staging}/{named(_PREFIX)}{uuid.uuid4().hex}"


def remove_orphaned_stages(folder: str) -> None:
    """Remove the stages of servers that no longer run."""
    remove_orphans(folder, _PREFIX)
