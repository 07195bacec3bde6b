"""Rows on their way into a table: kept in files that are no part of it."""

from __future__ import annotations

import contextlib
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sparkport.errors import UnsupportedOperationError
from sparkport.spark.errors import writing
from sparkport.spark.leftovers import owned, sweep, sweep_all
from sparkport.spark.names import staged_name

# Several servers, on several machines, may use one warehouse.
_PREFIX = f"{uuid.getnode():012x}-"
# Nobody can tell whether a server on another machine still runs, but no statement pauses for a day.
_UNUSED_SECONDS = 86_400.0


class Stage:
    """A folder with rows that a statement has sent, as Parquet. Memory is bounded by one batch.

    The folder lies in the warehouse, where Spark's executors reach it, under a name that no
    reader takes for data. It goes with the statement; a server that died leaves it to the next.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = new_folder(folder)
        self.rows = 0
        self._names: list[str] = []
        self._writer: pq.ParquetWriter | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows; all batches have the same columns.

        Raises what `writing` does, and UnsupportedOperationError for a field with a name that cannot be.
        """
        if self._writer is None:
            self._names = batch.schema.names
            _check_fields(batch.schema)
        batch = batch.rename_columns([staged_name(name) for name in self._names])
        with writing():
            if self._writer is None:
                self.folder.mkdir(parents=True)
                # Read once and soon: packing it would cost more than it saves.
                self._writer = pq.ParquetWriter(
                    self.folder / "rows.parquet", batch.schema, compression="none", store_schema=False
                )
            self._writer.write_batch(batch)
        self.rows += batch.num_rows

    def close(self) -> None:
        """Finish the file: from now on it can be read."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()

    def read(self) -> pa.Table:
        """Return all rows; there must be some."""
        return pq.read_table(self.folder / "rows.parquet").rename_columns(self._names)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows of a closed stage, some at a time."""
        with pq.ParquetFile(self.folder / "rows.parquet") as file:
            for batch in file.iter_batches():
                yield batch.rename_columns(self._names)

    def beside(self, rows: pa.Table) -> Stage:
        """Return another stage, with these rows."""
        other = Stage(self.folder.parent)
        for batch in rows.to_batches():
            other.add(batch)
        other.close()
        return other

    def replaced(self, rows: pa.Table) -> Stage:
        """Return a stage with other rows instead of these."""
        other = self.beside(rows)
        self.remove()
        return other

    def remove(self) -> None:
        """Forget the rows."""
        # What cannot be finished is not needed either.
        with contextlib.suppress(OSError):
            self.close()
        shutil.rmtree(self.folder, ignore_errors=True)


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


def new_folder(staging: Path) -> Path:
    """Return a folder to be made that is swept when this server is gone."""
    return staging / f"{owned(_PREFIX)}{uuid.uuid4().hex}"


def sweep_stages(folder: Path) -> None:
    """Remove what servers have left behind that are gone."""
    sweep(folder, _PREFIX)
    sweep_all(folder, unused_seconds=_UNUSED_SECONDS)
