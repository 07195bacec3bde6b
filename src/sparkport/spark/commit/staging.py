"""Rows on their way into a table: a few in memory, many in files that are no part of it yet."""

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
from sparkport.spark.commit.row_group_writer import RowGroups
from sparkport.spark.delta.data_files import MAX_ROWS, DataFilesWriter, Layout, NewFile, discard
from sparkport.spark.errors import writing
from sparkport.spark.sql_names import staged_name
from sparkport.spark.storage.filesystem import storage_of
from sparkport.spark.storage.temp_folders import hold, named, remove_orphans

_PREFIX = "rows-"
_MAX_BYTES = 8 << 20  # of few rows, of which many statements may have some in memory


class Stage:
    """Rows that a statement has sent: a few are kept in memory, more go into files as they come.

    The files lie in a folder of the warehouse, where Spark's executors reach them, under a name that
    no reader takes for data. It goes with the statement; a server that died leaves it to the next.
    With a `layout`, on a local disk, they are data files of a table that only have to be moved to its
    folder; else they are for Spark to read.
    """

    def __init__(self, staging: str, layout: Layout | None = None) -> None:
        self.rows = 0
        self.bytes = 0
        self.layout = layout
        self.files: list[NewFile] = []
        self._staging = staging
        self._folder = new_folder(staging)
        self._few: list[pa.RecordBatch] | None = []
        self._form = Layout((), (), ())
        self._writer: DataFilesWriter | _SparkFile | None = None
        self._groups: RowGroups | None = None

    @property
    def is_small(self) -> bool:
        """Whether all rows are in memory."""
        return self._few is not None

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows; all batches have the same columns.

        Raises what `writing` does, and UnsupportedOperationError for a field with a name that cannot be.
        """
        if not self.rows:
            _check_fields(batch.schema)
        self.rows += batch.num_rows
        self.bytes += byte_size(batch)
        if self._few is None:
            self._write(batch)
            return
        self._few.append(batch)
        if self.rows > MAX_ROWS or self.bytes > _MAX_BYTES:
            self._write_few(self.layout)

    def close(self) -> None:
        """Finish the files: from now on the rows can be read. Raises what `writing` does."""
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
        """Yield all rows of a closed stage, some at a time."""
        if self._few is not None:
            yield from self._few
            return
        storage = storage_of(self._folder)
        for name in sorted(storage.names(self._folder)):
            with storage.open(f"{self._folder}/{name}") as source, pq.ParquetFile(source) as file:
                for batch in file.iter_batches():
                    yield batch.rename_columns(list(self._form.names))

    def on_disk(self) -> str:
        """Return a folder from which Spark can read the rows of a closed stage."""
        if self._few:
            self._write_few(None)
            self.close()
        return self._folder

    def name_on_disk(self, name: str) -> str:
        """Return what a column is called in that folder."""
        return dict(zip(self._form.names, self._form.names_in_files, strict=True))[name]

    def publish(self, folder: Path) -> list[NewFile]:
        """Move the files to the folder of their table; no commit names them yet."""
        try:
            self._move(folder)
        except BaseException:
            self.take_back()
            raise
        return self.files

    def take_back(self) -> None:
        """Move the files out of the folder of their table again: they are no part of it."""
        try:
            self._move(Path(self._folder))
        except OSError:  # the stage is gone
            discard(*(file.path for file in self.files if file.path.parent != Path(self._folder)))

    def beside(self, rows: pa.Table) -> Stage:
        """Return another stage, with these rows."""
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
        """Return a stage with other rows instead of these."""
        other = self.beside(rows)
        self.remove()
        return other

    def remove(self) -> None:
        """Forget the rows; files that were moved to their table stay there."""
        self._few = None
        groups, self._groups = self._groups, None
        if groups is not None:
            groups.stop()
        if self._writer is not None:
            # What cannot be finished is not needed either; what cannot be removed is swept later.
            with contextlib.suppress(OSError):
                self._writer.abandon()
            with contextlib.suppress(OSError):
                storage_of(self._folder).remove(self._folder)

    def _write_few(self, layout: Layout | None) -> None:
        """Go on in files, with the rows that are in memory first."""
        few, self._few = self._few or [], None
        with writing():
            hold(self._staging)
        if layout is None:
            self._form = _form_for_spark(few[0].schema.names)
            self._writer = _SparkFile(f"{self._folder}/rows.parquet", self._form)
        else:
            with writing():
                Path(self._folder).mkdir(parents=True)
            self._form = layout
            self._writer = DataFilesWriter(Path(self._folder), layout)
        self._groups = RowGroups(self._writer.write)
        for batch in few:
            self._write(batch)

    def _write(self, batch: pa.RecordBatch) -> None:
        assert self._groups is not None
        with writing():
            self._groups.add(batch)

    def _move(self, folder: Path) -> None:
        for at, file in enumerate(self.files):
            if file.path.parent != folder:
                # A rename, but for tables that lie on another disk than the warehouse.
                path = Path(shutil.move(file.path, folder / file.path.name))
                self.files[at] = replace(file, path=path)


class _SparkFile:
    """A file that is read once and soon: packing it would cost more than it saves."""

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
        """Finish the file, which is none of a table."""
        if self._file is not None:
            self._file.close()
        if self._sink is not None:
            self._sink.close()
        return []

    def abandon(self) -> None:
        """Let go of the file. Raises what finishing it does."""
        self.close()


def _form_for_spark(names: list[str]) -> Layout:
    return Layout(tuple(names), tuple(staged_name(name) for name in names), (None,) * len(names))


def _check_fields(arrow_schema: pa.Schema) -> None:
    """Refuse fields within columns whose values Spark would lose, see `staged_name`."""
    for column in arrow_schema:
        for name in _field_names(column.type):
            if staged_name(name) != name:
                raise UnsupportedOperationError("field", name, "writing: Spark would take its name apart")


def _field_names(kind: pa.DataType) -> Iterator[str]:
    for index in range(kind.num_fields):
        field = kind.field(index)
        yield field.name
        yield from _field_names(field.type)


def new_folder(staging: str) -> str:
    """Return a folder to be made that is swept when this server is gone. `hold` comes before making it."""
    return f"{staging}/{named(_PREFIX)}{uuid.uuid4().hex}"


def remove_orphaned_stages(folder: str) -> None:
    """Remove what servers have left behind that are gone."""
    remove_orphans(folder, _PREFIX)
