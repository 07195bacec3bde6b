"""Direct reads: which snapshots a plain Parquet reader reads correctly."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from sparkport.catalog.rowid import is_rowid
from sparkport.spark.delta.actions import DataFile
from sparkport.spark.model.columns import TableColumn
from sparkport.spark.storage.filesystem import storage_of

PROPERTY = "sparkport.directReads"
"""The table property that allows (`true`) or forbids (`false`) direct reads whatever the server does."""

_LEAVES = frozenset(
    {
        pa.bool_(),
        pa.int8(),
        pa.int16(),
        pa.int32(),
        pa.int64(),
        pa.float32(),
        pa.float64(),
        pa.string(),
        pa.binary(),
        pa.date32(),
        pa.timestamp("us"),
        pa.timestamp("us", "UTC"),
    }
)


def plain_files(files: Sequence[DataFile], columns: Sequence[TableColumn]) -> list[str] | None:
    """Return the paths of the files if they hold the columns just as clients see them, else None."""
    if not files or not all(_is_plain(column) for column in columns):
        return None
    fields = tuple((column.exact.name, column.stored.type) for column in columns)
    for file in files:
        if file.deletion_vector is not None or not _has_fields(file.path, fields):
            return None
    return [file.path for file in files]


def _is_plain(column: TableColumn) -> bool:
    if column.is_partition or column.is_text_of_another or column.is_year_month or is_rowid(column.exact):
        return False
    return (
        column.physical.name == column.exact.name
        and column.physical.type.equals(column.stored.type)
        and column.exact.type.equals(column.stored.type)
        and _has_same_type(column.stored.type)
    )


def _has_same_type(kind: pa.DataType) -> bool:
    """Return whether DuckDB reads this type from Parquet as the type that the server gives it."""
    match kind:
        case pa.StructType():
            return all(_has_same_type(field.type) for field in kind)
        case pa.ListType():
            return _has_same_type(kind.value_type)
        case pa.Decimal128Type():
            return True
    return kind in _LEAVES


@functools.lru_cache(maxsize=65_536)  # a data file never changes
def _has_fields(path: str, fields: tuple[tuple[str, pa.DataType], ...]) -> bool:
    """Return whether a file has these columns with these types; it lacks those that were added later."""
    with storage_of(path).open(path) as source:
        columns = pq.ParquetFile(source).metadata.schema.to_arrow_schema()
    return all(name in columns.names and columns.field(name).type == kind for name, kind in fields)
