"""Split the files of a snapshot into endpoints, and endpoints into Spark tasks."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from sparkport.catalog.scan import ScanSlice
from sparkport.errors import NotFoundError
from sparkport.spark.delta.errors import PartitionValueError
from sparkport.spark.delta.files.deletion_vectors import keep_mask
from sparkport.spark.delta.log.actions import DataFile
from sparkport.spark.delta.values import partition_scalar
from sparkport.spark.model.columns import TableColumn
from sparkport.spark.read.mode import DEFAULT_LOCAL_SCAN_BYTES
from sparkport.spark.storage.filesystem import arrow_location
from sparkport.spark.worker.parquet import FileSlice

FILE_NUMBER = "\0file"
"""The name of the column that has, on request, the number of the file that a row is from."""
_MIB = 1 << 20
_END = 1 << 62


@dataclass(frozen=True, slots=True)
class SplitSizes:
    """Target sizes of the parts of a scan, in bytes of Parquet that have to be read.

    A scan begins with small tasks, so that its first rows come soon. One of at most `in_server` bytes
    needs no tasks at all; its endpoints are smaller, so that a client with several threads decodes on several
    of the server's.
    """

    in_server: int = DEFAULT_LOCAL_SCAN_BYTES
    endpoint_in_server: int = 16 * _MIB
    endpoint: int = 256 * _MIB
    first_task: int = 8 * _MIB
    task: int = 32 * _MIB
    max_endpoints: int = 64


@dataclass(frozen=True, slots=True)
class ByteRange:
    """A range of bytes of a file."""

    file: DataFile
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class ScanTask:
    """What one task reads."""

    ranges: tuple[ByteRange, ...]


def endpoint_count(files: Sequence[DataFile], size: float, sizes: SplitSizes) -> int:
    """Return into how many endpoints a scan of these files is best cut, of which so many bytes are read."""
    if size <= sizes.in_server:
        count = size / sizes.endpoint_in_server
    else:
        count = sum(file.size for file in files) / sizes.endpoint
    return max(1, min(len(files), sizes.max_endpoints, round(count)))


def files_of(files: Sequence[DataFile], part: ScanSlice | None) -> list[DataFile]:
    """Return the files of one endpoint: a run of the list, cut by size, the same at every call."""
    if part is None:
        return list(files)
    _check(part)
    total = sum(file.size for file in files) or 1
    selected, before = [], 0
    for file in files:
        middle = before + file.size / 2
        if min(int(middle * part.count / total), part.count - 1) == part.index:
            selected.append(file)
        before += file.size
    return selected


def all_or_none(files: Sequence[DataFile], part: ScanSlice | None) -> list[DataFile]:
    """Return all files for the first endpoint and none for others: how a scan is cut that cannot be."""
    if part is None:
        return list(files)
    _check(part)
    return [] if part.index else list(files)


def scan_tasks(
    files: Sequence[DataFile], sizes: SplitSizes, *, share: float, small: int
) -> Iterator[ScanTask]:
    """Yield the tasks of an endpoint, in the order of its files.

    `share` is how much of each file is read; the first `small` tasks are small ones.
    """
    ranges: list[ByteRange] = []
    weight = 0.0
    count = 0
    for part in _byte_ranges(files, sizes, share):
        ranges.append(part)
        weight += (part.stop - part.start) * share
        if weight >= (sizes.first_task if count < small else sizes.task):
            yield ScanTask(tuple(ranges))
            ranges, weight, count = [], 0.0, count + 1
    if ranges:
        yield ScanTask(tuple(ranges))


def _check(part: ScanSlice) -> None:
    if not 0 <= part.index < part.count:
        raise NotFoundError("slice", str(part.index))


def file_slice(
    part: ByteRange,
    root: str,
    columns: Sequence[TableColumn],
    first_number: int | None = None,
    file_number: int | None = None,
) -> FileSlice:
    """Return what a task needs to know to read a part of a file.

    Rows without an id are numbered from `first_number`; with `file_number` each row tells its file.
    """
    file = part.file
    constants = tuple(
        (column.physical.name, partition_value(file, root, column))
        for column in columns
        if column.is_partition
    )
    if file_number is not None:
        constants += ((FILE_NUMBER, pa.scalar(file_number, pa.int32())),)
    kept = None
    if file.deletion_vector is not None:
        assert file.physical_rows is not None
        kept = keep_mask(file.deletion_vector, root, file.physical_rows)
    # The last range has no end: should the log be wrong about the size, no row is lost.
    stop = part.stop if part.stop < file.size else _END
    return FileSlice(arrow_location(file.path), part.start, stop, constants, kept, first_number)


def partition_value(file: DataFile, root: str, column: TableColumn) -> pa.Scalar:
    """Return the value that all rows of a file have in a partition column. Raises PartitionValueError."""
    name, kind = column.physical.name, column.stored.type
    text = file.partition_values.get(name)
    try:
        return partition_scalar(text, kind)
    except (ValueError, KeyError, ArithmeticError) as error:
        raise PartitionValueError(root, name, text, kind) from error


def _byte_ranges(files: Sequence[DataFile], sizes: SplitSizes, share: float) -> Iterator[ByteRange]:
    """Yield whole files, and large ones in ranges: a task reads the row groups that begin in its range."""
    for file in files:
        count = max(1, round(file.size * share / (2 * sizes.task)))
        cuts = [file.size * number // count for number in range(count + 1)]
        for start, stop in itertools.pairwise(cuts):
            yield ByteRange(file, start, stop)
