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

from sparkport.spark.delta.features import CHECK_PROPERTY, Work, unsupported_features
from sparkport.spark.delta.files.layout import Layout, layout_of
from sparkport.spark.delta.files.new_statistics import NewStatistics
from sparkport.spark.delta.files.partitions import PartitionValues, can_part_by, parted
from sparkport.spark.delta.log.actions import Metadata, Protocol
from sparkport.spark.delta.readable import are_nested_plain, with_nested
from sparkport.spark.storage.filesystem import is_local, location_of

MAX_ROWS = 50_000
"""Up to how many rows are kept in memory, and written to a file at once."""

_FILE_BYTES = 128 << 20  # from which size on rows go into another file
_GROUP_ROWS = 122_880  # as in DuckDB's own files: small, as a look-up decodes whole row groups

_KEPT_BY_SPARK = (
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
_NEWEST_WRITER = 7


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
    return is_local(location_of(root)) and reason_against_writing(protocol, metadata) is None


def reason_against_writing(protocol: Protocol, metadata: Metadata, *, work: Work = Work.APPEND) -> str | None:
    """Return what only Spark can do for a new file of a table, None if there is nothing."""
    if protocol.min_writer > _NEWEST_WRITER or unsupported_features(protocol, work):
        return "it has a feature for which Spark has to write the files"
    kept = _KEPT_BY_SPARK if work is Work.APPEND_CHECKED else (*_KEPT_BY_SPARK, CHECK_PROPERTY)
    if any(key.startswith(kept) for key in metadata.configuration):
        return "it has a property for which Spark has to write the files"
    fields = metadata.fields
    if any(_KEPT_NOTES & set(field.metadata) for field in with_nested(fields)):
        return "it has generated columns, or others for which Spark has to write the files"
    partitions = [field for field in fields if field.name in metadata.partition_columns]
    if not all(can_part_by(field.type) for field in partitions):
        return "only Spark can write partitions by columns of these types"
    if not all(map(are_nested_plain, fields)):
        return "it has NOT NULL within a nested column, or types in one that only Spark can write"
    return None


class DataFileWriter:
    """Writes one data file: a row group at a time, so that no more than one is in memory."""

    def __init__(
        self, folder: Path, layout: Layout, number: int = 0, values: PartitionValues | None = None
    ) -> None:
        """All rows are of the partition with these values."""
        self.path = folder / f"part-{number:05}-{uuid.uuid4()}-c000.snappy.parquet"
        self._layout = layout
        self._values = values or {}
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
            "partitionValues": dict(self._values),
            "size": self.size,
            "modificationTime": int(time.time() * 1000),
            "dataChange": True,
            "stats": statistics.as_json(),
        }
        return NewFile(self.path, json.dumps({"add": add}))

    def _open(self, arrow_schema: pa.Schema) -> pq.ParquetWriter:
        # Arrow's statistics leave NaN out, and Spark would skip the rows that have it.
        # What is nested has no statistics here; a name with a dot would be taken for that of a field.
        counted = [field.name for field in arrow_schema if _has_safe_statistics(field)]
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


def write_files(root: str, metadata: Metadata, rows: pa.Table) -> list[NewFile]:
    """Write the stored values of all columns, under their logical names, to new files on the local disk.

    There is one for each partition. Raises InvalidRequestError for a value that no partition can have.
    """
    layout = layout_of(metadata)
    written: list[NewFile] = []
    try:
        for values, part in parted(layout, rows):
            writer = DataFileWriter(Path(location_of(root)), layout, len(written), values)
            with removed_on_failure(writer.path):
                writer.write(part)
                written.append(writer.close())
    except BaseException:
        discard(*(file.path for file in written))
        raise
    return written


def _has_safe_statistics(field: pa.Field) -> bool:
    return not pa.types.is_floating(field.type) and not field.type.num_fields and "." not in field.name
