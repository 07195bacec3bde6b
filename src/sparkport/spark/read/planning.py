"""What a scan reads, decided once: columns, files, filter, and whether Arrow or Spark SQL reads them."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from sparkport.catalog.lookup import find_column
from sparkport.catalog.measures import MEASURES
from sparkport.catalog.predicates import Expression, column_names
from sparkport.catalog.rowid import is_rowid
from sparkport.catalog.scan import ScanOptions, ScanSlice
from sparkport.spark.delta.log.actions import DataFile
from sparkport.spark.delta.log.snapshots import DeltaSnapshot
from sparkport.spark.delta.mapping import mapping_mode
from sparkport.spark.delta.readable import unreadable_reason
from sparkport.spark.delta.statistics import StoredColumn, bounds
from sparkport.spark.model.columns import TableColumn
from sparkport.spark.predicates import Bounds, arrow_expression, may_match, translate
from sparkport.spark.read.file_scan import bytes_read
from sparkport.spark.read.mode import ReadMode
from sparkport.spark.read.splits import SplitSizes, all_or_none, endpoint_count, files_of
from sparkport.spark.row_ids.provisional import first_numbers, lacks_all_ids
from sparkport.spark.worker.parquet import ReadPlan

_BATCH_ROWS = 65_536


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """A scan of one snapshot: whoever reads a slice of it decides nothing anew.

    `files` are those in which a row may match. `sql_reason` says why Spark SQL has to read them, None if
    Arrow can; `in_server` that it is small enough for the server itself. `first_numbers` are, by file,
    the numbers that rows without an id get in its place.
    """

    options: ScanOptions
    columns: tuple[TableColumn, ...]
    arrow_schema: pa.Schema
    files: tuple[DataFile, ...]
    sql_reason: str | None
    in_server: bool
    read: ReadPlan
    first_numbers: Mapping[str, int]
    slice_count: int

    def slice_files(self, part: ScanSlice | None) -> list[DataFile]:
        """Return the files of one slice; a scan by Spark SQL has all in the first."""
        return (files_of if self.sql_reason is None else all_or_none)(self.files, part)


def plan_scan(
    snapshot: DeltaSnapshot,
    columns: Sequence[TableColumn],
    arrow_schema: pa.Schema,
    options: ScanOptions,
    sizes: SplitSizes,
    mode: ReadMode,
) -> ScanPlan:
    """Plan a scan. Raises NotFoundError for a column that the snapshot does not have."""
    names = arrow_schema.names if options.columns is None else options.columns
    positions = dict.fromkeys(find_column(arrow_schema, name) for name in names)
    projected = tuple(columns[position] for position in positions)
    reason = sql_reason(snapshot, mode)
    # Spark SQL reads whole versions, and skips files by itself.
    files = matching_files(snapshot, columns, options.filter) if reason is None else list(snapshot.files)
    MEASURES.count("files_skipped", len(snapshot.files) - len(files))
    tested = _tested(columns, options.filter)
    expression = arrow_expression(options.filter, {c.exact.name: c.target() for c in tested})
    read = ReadPlan(
        columns=tuple(column.read for column in projected),
        by_id=mapping_mode(snapshot.metadata) == "id",
        filter=expression,
        filter_columns=() if expression is None else tuple(column.read for column in tested),
        batch_rows=min(options.batch_size or _BATCH_ROWS, _BATCH_ROWS),
        id_name=next((column.physical.name for column in columns if is_rowid(column.exact)), ""),
    )
    size = bytes_read(read, columns, files)
    return ScanPlan(
        options=replace(options, time_point=None, slice=None),
        columns=projected,
        arrow_schema=pa.schema([column.exact for column in projected], arrow_schema.metadata),
        files=tuple(files),
        sql_reason=reason,
        in_server=size <= sizes.in_server,
        read=read,
        first_numbers=missing_ids(snapshot, (*projected, *tested)),
        slice_count=endpoint_count(files, size, sizes) if reason is None else 1,
    )


def narrowed(
    plan: ScanPlan, files: Sequence[DataFile], columns: Sequence[TableColumn], sizes: SplitSizes
) -> ScanPlan:
    """Return the plan of a scan of some of its files."""
    size = bytes_read(plan.read, columns, files)
    return replace(
        plan,
        files=tuple(files),
        in_server=size <= sizes.in_server,
        slice_count=endpoint_count(files, size, sizes),
    )


def sql_reason(snapshot: DeltaSnapshot, mode: ReadMode) -> str | None:
    """Return why a snapshot has to be read by Spark SQL, None if Arrow can."""
    if mode is ReadMode.SQL:
        return "the read mode is sql"
    if any(file.deletion_vector and file.physical_rows is None for file in snapshot.files):
        return "a file with a deletion vector does not say how many rows it has"
    return unreadable_reason(snapshot.protocol, snapshot.metadata)


def matching_files(
    snapshot: DeltaSnapshot, columns: Sequence[TableColumn], predicate: Expression | None
) -> list[DataFile]:
    """Return the files in which a row may match."""
    if predicate is None:
        return list(snapshot.files)
    tested = {column.exact.name: column for column in _tested(columns, predicate)}
    condition = translate(predicate, {name: column.target() for name, column in tested.items()})
    logged: dict[tuple[str, ...], StoredColumn] = {}
    for column in tested.values():
        logged |= column.logged_fields
    tested_id = [column for column in tested.values() if is_rowid(column.exact)]
    ids = (tested_id[0].physical.name,) if tested_id else ()
    numbers = missing_ids(snapshot, tested_id)

    def file_bounds(file: DataFile, path: tuple[str, ...]) -> Bounds:
        column = logged.get(path)
        if column is None:
            return Bounds()
        recorded = bounds(file, column)
        if path == ids and file.path in numbers:
            # Rows without an id have a number that is less than any.
            lacks_all = lacks_all_ids(file, tested_id[0])
            maximum = pa.scalar(-1, pa.int64()) if lacks_all else recorded.maximum
            return Bounds(None, maximum, None, file.physical_rows)
        # Writers do not agree on whether a field of a struct that is NULL counts as one.
        nulls = recorded.null_count if len(path) == 1 else None
        return Bounds(recorded.minimum, recorded.maximum, nulls, file.physical_rows)

    return [file for file in snapshot.files if may_match(condition, functools.partial(file_bounds, file))]


def missing_ids(snapshot: DeltaSnapshot, columns: Iterable[TableColumn]) -> dict[str, int]:
    """Return the first numbers of the files that may have rows without ids, if the row id is read."""
    column = next((column for column in columns if is_rowid(column.exact)), None)
    return {} if column is None else first_numbers(snapshot, column)


def _tested(columns: Sequence[TableColumn], predicate: Expression | None) -> list[TableColumn]:
    names = set() if predicate is None else column_names(predicate)
    return [column for column in columns if column.exact.name in names]
