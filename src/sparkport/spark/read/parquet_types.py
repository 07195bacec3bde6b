"""The types that DuckDB gives to the columns of a Parquet file.

By Parquet's own types: a writer may embed an Arrow schema that says more, which DuckDB does not look at.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from sparkport.spark.worker.julian_dates import legacy_columns

_FIELD_ID = b"PARQUET:field_id"
_CODECS = frozenset({"UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD", "BROTLI", "LZ4_RAW"})
_INTEGERS = {8: "TINYINT", 16: "SMALLINT", 32: "INTEGER", 64: "BIGINT"}
_PHYSICAL = {
    "BOOLEAN": "BOOLEAN",
    "INT32": "INTEGER",
    "INT64": "BIGINT",
    "FLOAT": "FLOAT",
    "DOUBLE": "DOUBLE",
    "BYTE_ARRAY": "BLOB",
}
_LEAVES = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "VARCHAR",
    pa.binary(): "BLOB",
    pa.date32(): "DATE",
    pa.timestamp("us"): "TIMESTAMP",
    pa.timestamp("us", "UTC"): "TIMESTAMP WITH TIME ZONE",
}
# What Spark and delta-rs call the elements of lists; DuckDB takes any name.
_ELEMENTS = ("element", "item")
# What DuckDB casts to a wider type without a change of value.
_NARROWER = {
    "SMALLINT": {"TINYINT"},
    "INTEGER": {"TINYINT", "SMALLINT"},
    "BIGINT": {"TINYINT", "SMALLINT", "INTEGER"},
    "DOUBLE": {"FLOAT"},
}


@dataclass(frozen=True, slots=True)
class FileTypes:
    """What DuckDB reads from a file: the type of each leaf by its path, and columns by their field ids.

    The type of a leaf that it reads otherwise than the server is empty.
    """

    leaves: Mapping[str, str]
    names_by_id: Mapping[bytes, str]

    def has_column(self, name: str) -> bool:
        """Return whether there is a column of that name or path, of whatever type."""
        return name in self.leaves or any(_belongs(path, name) for path in self.leaves)

    def absent_name(self, number: int) -> str:
        """Return a name that no column has, in whatever case, another one for each number."""
        name = f"absent {number}"
        while any(_belongs(path.lower(), name) for path in self.leaves):
            name += "'"
        return name

    def reads(self, name: str, wanted: pa.DataType) -> bool:
        """Return whether DuckDB gets from the column what the server would."""
        return all(
            (found := self.leaves.get(path)) == leaf or found in _NARROWER.get(leaf, ())
            for path, leaf in self._leaves(name, wanted)
        )

    def _leaves(self, path: str, wanted: pa.DataType) -> Iterator[tuple[str, str]]:
        """Yield path and type of each leaf that a column of the type has in this file."""
        match wanted:
            case pa.StructType():
                for field in wanted:
                    yield from self._leaves(f"{path}.{field.name}", field.type)
            case pa.ListType():
                elements = (f"{path}.list.{name}" for name in _ELEMENTS)
                found = next(filter(self.has_column, elements), "no such element")
                yield from self._leaves(found, wanted.value_type)
            case _:
                yield path, duckdb_type(wanted) or "no such type"


def file_types(metadata: pq.FileMetaData) -> FileTypes:
    """Return what DuckDB reads from the file with this footer."""
    legacy = legacy_columns(metadata)
    fields = metadata.schema.to_arrow_schema()
    mixed_up = _alike(fields.names)
    leaves = {}
    for index in range(metadata.num_columns):
        column = metadata.schema.column(index)
        # A writer compresses all row groups in the same way.
        codec = metadata.row_group(0).column(index).compression if metadata.num_row_groups else "SNAPPY"
        is_readable = column.path not in legacy and codec in _CODECS
        is_readable = is_readable and not any(_belongs(column.path, name) for name in mixed_up)
        leaves[column.path] = (_leaf_type(column) or "") if is_readable else ""
    return FileTypes(leaves, {(field.metadata or {}).get(_FIELD_ID, b""): field.name for field in fields})


def duckdb_type(kind: pa.DataType) -> str | None:
    """Return DuckDB's name of a type that is the same in Parquet files, None for others."""
    match kind:
        case pa.StructType():
            inner = [(field.name, duckdb_type(field.type)) for field in kind]
            if not inner or any(not field or name is None for field, name in inner):
                return None  # DuckDB has no fields without a name
            return f"STRUCT({', '.join(f'{_quoted(field)} {name}' for field, name in inner)})"
        case pa.ListType():
            element = duckdb_type(kind.value_type)
            return None if element is None else f"{element}[]"
        case pa.Decimal128Type():
            return f"DECIMAL({kind.precision},{kind.scale})"
    return _LEAVES.get(kind)


def _belongs(path: str, name: str) -> bool:
    """Return whether a leaf is in the column of that name."""
    return path == name or path.startswith(f"{name}.")


def _alike(names: Sequence[str]) -> list[str]:
    """Return the names that others differ from in case only: DuckDB takes them for one."""
    count = Counter(name.lower() for name in names)
    return [name for name in names if count[name.lower()] > 1]


def _leaf_type(column: pq.ColumnSchema) -> str | None:
    logical = json.loads(column.logical_type.to_json())
    match logical:
        case {"Type": "None"}:
            return _PHYSICAL.get(column.physical_type)
        case {"Type": "Int", "isSigned": True, "bitWidth": bits}:
            return _INTEGERS[bits]
        case {"Type": "String"}:
            return "VARCHAR"
        case {"Type": "Date"}:
            return "DATE"
        case {"Type": "Timestamp", "timeUnit": "microseconds", "isAdjustedToUTC": is_instant}:
            return "TIMESTAMP WITH TIME ZONE" if is_instant else "TIMESTAMP"
        case {"Type": "Decimal", "precision": precision, "scale": scale}:
            return f"DECIMAL({precision},{scale})"
    return None


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
