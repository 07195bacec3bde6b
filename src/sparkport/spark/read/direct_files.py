"""Direct reads: the files of a scan that DuckDB reads correctly by itself.

DuckDB gets a call of `read_parquet` with a schema that names each column as the file has it and as the
client sees it. A column that a file lacks is its default: the value of a partition, or null. One
thread of DuckDB's reads a call, so that a scan is several.
"""

from __future__ import annotations

import datetime as dt
import decimal
import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sparkport.catalog.rowid import is_rowid
from sparkport.catalog.scan import ClientCall
from sparkport.spark.delta.log.actions import DataFile
from sparkport.spark.model.columns import TableColumn
from sparkport.spark.read.file_scan import column_share
from sparkport.spark.read.lookups import leaves_few_rows
from sparkport.spark.read.parquet_types import FileTypes, duckdb_type, file_types
from sparkport.spark.read.planning import ScanPlan
from sparkport.spark.read.splits import partition_value
from sparkport.spark.storage.filesystem import arrow_location, is_local, storage_of
from sparkport.spark.worker.parquet import matching_share

PROPERTY = "sparkport.directReads"
"""The table property that allows (`true`) or forbids (`false`) direct reads whatever the server does."""

_MAX_FILES = 1000
_CALL_BYTES = 8 << 20
_MAX_CALLS = 256
# DuckDB decodes all rows of a file about three times as fast as the server decodes and sends them.
_MIN_SHARE = 0.3
_GLOB_CHARACTERS = frozenset("*?[")
_NO_FILES = "no file has a row that may match"
_NEEDS_IDS = "the query needs row ids"
_FEW_GROUPS = "the filter leaves few row groups of files"
_FEW_ROWS = "the filter asks for single values"
_QUERY_REASONS = {_NO_FILES, _NEEDS_IDS, _FEW_GROUPS, _FEW_ROWS}
_FIELD_ID = b"PARQUET:field_id"
_SCHEMA = pa.map_(
    pa.string(), pa.struct([("name", pa.string()), ("type", pa.string()), ("default_value", pa.string())])
)


@dataclass(frozen=True, slots=True)
class DirectFiles:
    """How the files of a scan are read: by DuckDB with these calls, and the rest by the server.

    `reasons` say why the rest is not read by DuckDB; those in `table_reasons` hold for other queries too.
    """

    calls: tuple[ClientCall, ...]
    rest: tuple[DataFile, ...]
    reasons: tuple[str, ...]

    @property
    def table_reasons(self) -> list[str]:
        """The reasons that lie in the table and not in the query."""
        return [reason for reason in self.reasons if reason not in _QUERY_REASONS]


@dataclass(frozen=True, slots=True)
class _Reading:
    """How DuckDB reads a file: the file's name of each column, and its value where there is none."""

    names: tuple[str, ...]
    defaults: tuple[str | None, ...]


def direct_files(plan: ScanPlan, root: str, columns: Sequence[TableColumn]) -> DirectFiles:
    """Decide which files of a scan DuckDB reads by itself; `columns` are all of the table."""
    reason = _unfit_scan(plan)
    if reason is not None:
        return DirectFiles((), plan.files, (reason,))
    readings: list[tuple[DataFile, _Reading]] = []
    rest: list[DataFile] = []
    reasons: dict[str, None] = {}
    for file in plan.files:
        reading = _reading(plan, root, file, columns)
        if isinstance(reading, str):
            rest.append(file)
            reasons[reading] = None
        else:
            readings.append((file, reading))
    share = column_share(plan.read, columns)
    return DirectFiles(tuple(_calls(plan.columns, readings, share)), tuple(rest), tuple(reasons))


def _unfit_scan(plan: ScanPlan) -> str | None:
    """Return why no file of a scan can be read by DuckDB, None if some may."""
    if plan.sql_reason is not None:
        return plan.sql_reason
    if not plan.files:
        return _NO_FILES
    if len(plan.files) > _MAX_FILES:
        return f"it has more than {_MAX_FILES} files"
    for column in plan.columns:
        if is_rowid(column.exact):
            return _NEEDS_IDS
        if not column.is_as_stored or column.is_year_month or _type_name(column) is None:
            return f"values of column '{column.exact.name}' are not in files as clients see them"
    return None


def _type_name(column: TableColumn) -> str | None:
    """Return DuckDB's type of a column, None if files have its values in another form."""
    stored = column.stored.type
    if not column.exact.type.equals(stored):
        return None
    # Fields of structs may have other names in files, which a call cannot say.
    if pa.types.is_nested(stored) and not column.physical.type.equals(stored):
        return None
    return duckdb_type(stored)


def _reading(plan: ScanPlan, root: str, file: DataFile, columns: Sequence[TableColumn]) -> _Reading | str:
    """Return how DuckDB reads a file, or why it cannot."""
    if file.deletion_vector is not None:
        return "files have deletion vectors"
    if not _GLOB_CHARACTERS.isdisjoint(file.path):
        return "the paths of files have characters that DuckDB takes for a pattern"
    types = _types_of(file.path)
    if types is None or _is_gone(file.path):
        return "files cannot be read"
    names, defaults = [], []
    for column in plan.columns:
        name = _name_in_file(column, types, by_id=plan.read.by_id)
        default = None
        if column.is_partition:
            name = None  # some writers store the values in the file too
            value = partition_value(file, root, column)
            default = _text(value)
            if default is None and value.is_valid:
                return f"values of partition column '{column.exact.name}' may be read otherwise by DuckDB"
        elif name is not None and not types.reads(name, column.stored.type):
            return f"files have column '{column.exact.name}' in another type"
        names.append(name)
        defaults.append(default)
    if plan.read.filter is not None and file.size > _CALL_BYTES:
        if leaves_few_rows(plan.options.filter, columns, file):
            return _FEW_ROWS
        share = matching_share(plan.read, arrow_location(file.path))
        if share < _MIN_SHARE:
            return _FEW_GROUPS
    return _Reading(
        tuple(name or types.absent_name(number) for number, name in enumerate(names)), tuple(defaults)
    )


def _name_in_file(column: TableColumn, types: FileTypes, *, by_id: bool) -> str | None:
    """Return the name of a column in a file, None if the file has no such column."""
    if by_id:
        number = (column.physical.metadata or {}).get(_FIELD_ID)
        return None if number is None else types.names_by_id.get(number)
    return column.physical.name if types.has_column(column.physical.name) else None


@functools.lru_cache(maxsize=16_384)  # a data file never changes
def _types_of(path: str) -> FileTypes | None:
    try:
        with storage_of(path).open(path) as source:
            return file_types(pq.read_metadata(source))
    except (OSError, pa.ArrowException):
        return None  # whoever reads the rows says what is wrong


def _is_gone(path: str) -> bool:
    """Return whether a file was removed since its types were read; the server tells clients why."""
    return is_local(path) and not Path(path).exists()


def _text(value: pa.Scalar) -> str | None:
    """Return a value as DuckDB reads it from text, None for types where that is not sure."""
    match value.as_py():
        case bool(flag):
            return str(flag).lower()
        case int() | str() | decimal.Decimal() as simple:
            return str(simple)
        case dt.datetime():
            return None
        case dt.date() as day:
            return day.isoformat()
    return None


def _calls(
    columns: Sequence[TableColumn], readings: Sequence[tuple[DataFile, _Reading]], share: float
) -> Iterator[ClientCall]:
    """Yield calls of about equal size, for files that are read in the same way."""
    total = sum(file.size for file, _ in readings) * share
    size = max(_CALL_BYTES, total / _MAX_CALLS)
    by_reading: dict[_Reading, list[DataFile]] = {}
    for file, reading in readings:
        by_reading.setdefault(reading, []).append(file)
    for reading, files in by_reading.items():
        schema = _schema(columns, reading)
        paths: list[str] = []
        weight = 0.0
        for file in files:
            paths.append(file.path)
            weight += file.size * share
            if weight >= size:
                yield _call(paths, schema)
                paths, weight = [], 0.0
        if paths:
            yield _call(paths, schema)


def _call(paths: list[str], schema: pa.Scalar) -> ClientCall:
    # Folders such as `a=1` add no column.
    return ClientCall("read_parquet", (paths,), {"schema": schema, "hive_partitioning": False})


def _schema(columns: Sequence[TableColumn], reading: _Reading) -> pa.Scalar:
    """Return the columns as DuckDB's reader of Parquet takes them: by their names in the file."""
    entries = [
        (name, {"name": column.exact.name, "type": _type_name(column), "default_value": default})
        for column, name, default in zip(columns, reading.names, reading.defaults, strict=True)
    ]
    return pa.scalar(entries, _SCHEMA)
