"""Data files that the server writes itself: how rows lie in them, and which tables they are good for."""

from __future__ import annotations

import contextlib
import json
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sparkport.spark.delta.features import Work, unsupported_features
from sparkport.spark.delta.files.new_statistics import NewStatistics
from sparkport.spark.delta.log.actions import Metadata, Protocol
from sparkport.spark.delta.mapping import column_id, mapping_mode, physical_name
from sparkport.spark.storage.filesystem import is_local, location_of

MAX_ROWS = 50_000
"""Up to how many rows are kept in memory, and written to a file at once."""

_FILE_BYTES = 128 << 20  # from which size on rows go into another file
_GROUP_ROWS = 122_880  # as in DuckDB's own files: small, as a look-up decodes whole row groups

_KEPT_BY_SPARK = (
    "delta.constraints.",
    "delta.dataSkippingStatsColumns",
    "delta.dataSkippingStringPrefixLength",
    "delta.enableRowTracking",
    "delta.randomizeFilePrefixes",
)
_KEPT_NOTES = frozenset(
    {
        "delta.generationExpression",
        "delta.identity.start",
        "delta.invariants",
        "__CHAR_VARCHAR_TYPE_STRING",
    }
)
_NUMBER = "PARQUET:field_id"
_FEATURES_LISTED = 7  # the writer version from which on a table lists its features


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file that no commit names yet, and the action that makes it part of the table, as JSON."""

    path: Path
    action: str


@contextlib.contextmanager
def removed_on_failure(path: Path) -> Iterator[None]:
    """Leave nothing of a file that could not be written."""
    try:
        yield
    except BaseException:
        discard(path)
        raise


def discard(*paths: Path) -> None:
    """Remove files in a table's folder that are no part of it."""
    for path in paths:
        with contextlib.suppress(OSError):  # VACUUM finds it as well
            path.unlink()


def can_write(root: str, protocol: Protocol, metadata: Metadata) -> bool:
    """Return whether a table is on the local disk, and a file of it needs nothing that only Spark can do."""
    if (
        not is_local(location_of(root))
        or protocol.min_writer < _FEATURES_LISTED
        or unsupported_features(protocol, Work.APPEND)
    ):
        return False
    if metadata.partition_columns or any(key.startswith(_KEPT_BY_SPARK) for key in metadata.configuration):
        return False
    fields = metadata.fields
    is_flat = all(isinstance(field.type, str) for field in fields)
    return is_flat and not any(_KEPT_NOTES & set(field.metadata) for field in fields)


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of files in their order: how rows name them, and the names and numbers they have there."""

    names: tuple[str, ...]
    names_in_files: tuple[str, ...]
    numbers: tuple[int | None, ...]

    def arrange(self, rows: pa.Table) -> pa.Table:
        """Return rows as they lie in a file."""
        columns = [rows.column(name) for name in self.names]
        fields = [
            pa.field(name, column.type, metadata=None if number is None else {_NUMBER: str(number)})
            for name, number, column in zip(self.names_in_files, self.numbers, columns, strict=True)
        ]
        return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def layout_of(metadata: Metadata) -> Layout:
    """Return how rows lie in the data files of a table."""
    mode, fields = mapping_mode(metadata), metadata.fields
    return Layout(
        tuple(field.name for field in fields),
        tuple(physical_name(field, mode) for field in fields),
        tuple(None if mode == "none" else column_id(field) for field in fields),
    )


class DataFileWriter:
    """Writes one data file: a row group at a time, so that no more than one is in memory."""

    def __init__(self, folder: Path, layout: Layout, number: int = 0) -> None:
        self.path = folder / f"part-{number:05}-{uuid.uuid4()}-c000.snappy.parquet"
        self._layout = layout
        self._file: tuple[pq.ParquetWriter, NewStatistics] | None = None

    def write(self, rows: pa.Table) -> None:
        """Write stored values of all columns; all calls have the same types."""
        arranged = self._layout.arrange(rows)
        if self._file is None:
            self._file = self._open(arranged.schema), NewStatistics(arranged.schema)
        file, statistics = self._file
        statistics.add(arranged)
        file.write_table(arranged, row_group_size=_GROUP_ROWS)

    @property
    def size(self) -> int:
        """How many bytes are on the disk."""
        return self.path.stat().st_size

    def close(self) -> NewFile:
        """Finish the file, which has rows."""
        assert self._file is not None
        file, statistics = self._file
        file.close()
        add = {
            "path": self.path.name,
            "partitionValues": {},
            "size": self.size,
            "modificationTime": int(time.time() * 1000),
            "dataChange": True,
            "stats": statistics.as_json(),
        }
        return NewFile(self.path, json.dumps({"add": add}))

    def _open(self, arrow_schema: pa.Schema) -> pq.ParquetWriter:
        # Arrow's statistics leave NaN out, and Spark would skip the rows that have it.
        counted = [field.name for field in arrow_schema if not pa.types.is_floating(field.type)]
        return pq.ParquetWriter(
            self.path, arrow_schema, compression="snappy", store_schema=False, write_statistics=counted
        )


class DataFilesWriter:
    """Writes rows to as many data files, one after the other, as they need."""

    def __init__(self, folder: Path, layout: Layout) -> None:
        self._folder = folder
        self._layout = layout
        self._writer: DataFileWriter | None = None
        self._done: list[NewFile] = []

    def write(self, rows: pa.Table) -> None:
        """Write a row group."""
        if self._writer is None:
            self._writer = DataFileWriter(self._folder, self._layout, len(self._done))
        self._writer.write(rows)
        if self._writer.size >= _FILE_BYTES:
            self._finish()

    def close(self) -> list[NewFile]:
        """Finish the last file, and return all."""
        if self._writer is not None:
            self._finish()
        return self._done

    def abandon(self) -> None:
        """Let go of the file that is being written."""
        self._writer = None

    def _finish(self) -> None:
        writer, self._writer = self._writer, None
        assert writer is not None
        self._done.append(writer.close())


def write_file(root: str, metadata: Metadata, rows: pa.Table) -> NewFile:
    """Write the stored values of all columns, under their logical names, to a new file on the local disk."""
    writer = DataFileWriter(Path(location_of(root)), layout_of(metadata))
    with removed_on_failure(writer.path):
        writer.write(rows)
        return writer.close()
