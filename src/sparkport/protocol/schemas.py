"""Arrow schemas on the wire: reading a client's, and dressing a table's for DuckDB."""

from __future__ import annotations

import hashlib

import pyarrow as pa

from sparkport.catalog.rowid import is_rowid
from sparkport.catalog.tables import TableConstraints
from sparkport.errors import InvalidRequestError, LimitExceededError, PreconditionError
from sparkport.protocol import msgpack

_MAX_COLUMNS = 10_000
_MAX_NESTING = 64
_MAX_DUCKDB_PRECISION = 38
_EXTENSION_NAME = b"ARROW:extension:name"
_STATISTICS_EXTENSIONS = frozenset({"arrow.uuid", "arrow.json", "arrow.bool8"})
# Most columns of most tables are of these kinds: to know them by number makes listings fast.
_STATISTICS_KINDS = frozenset(
    kind.id
    for kind in (
        pa.bool_(),
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
        *(pa.float32(), pa.float64(), pa.decimal128(1)),
        *(pa.date32(), pa.date64(), pa.time32("s"), pa.time64("us"), pa.timestamp("us")),
        *(pa.string(), pa.large_string()),
    )
)
_KINDS_AS_THEY_ARE = _STATISTICS_KINDS | {pa.binary().id, pa.large_binary().id}


class NoDuckDBTypeError(PreconditionError):
    """DuckDB has no type for a column."""


def decode(data: bytes) -> pa.Schema:
    """Return the schema of an encapsulated IPC schema message."""
    try:
        arrow_schema = pa.ipc.read_schema(pa.py_buffer(data))
        for name in arrow_schema.names:
            name.encode()
    except (pa.ArrowException, OSError, UnicodeError, ValueError) as error:
        raise InvalidRequestError("malformed request body: not an Arrow schema") from error
    check_limits(arrow_schema)
    return arrow_schema


def check_limits(arrow_schema: pa.Schema) -> None:
    """Raise LimitExceededError for more columns or deeper types than a table can have."""
    if len(arrow_schema) > _MAX_COLUMNS:
        raise LimitExceededError(f"a table has at most {_MAX_COLUMNS} columns")
    for field in arrow_schema:
        check_depth(_depth(field.type))


def check_depth(levels: int) -> None:
    """Raise LimitExceededError for a type of more levels than every client can read."""
    if levels > _MAX_NESTING:
        raise LimitExceededError(f"types nest at most {_MAX_NESTING} levels deep")


def decode_single_field(data: bytes) -> pa.Field:
    """Return the one field of a column schema."""
    arrow_schema = decode(data)
    if len(arrow_schema) != 1:
        raise InvalidRequestError(
            f"a column schema must have exactly one field, this one has {len(arrow_schema)}"
        )
    return arrow_schema.field(0)


def encode(arrow_schema: pa.Schema) -> bytes:
    """Return the schema as an encapsulated IPC message."""
    return bytes(arrow_schema.serialize())


def to_duckdb_types(arrow_schema: pa.Schema) -> pa.Schema:
    """Return the columns in types that DuckDB reads right.

    Raises NoDuckDBTypeError where there is none.
    """
    for index, field in enumerate(arrow_schema):
        data_type = field.type
        shown = _to_duckdb_type(data_type)
        if shown is not data_type and shown != data_type:
            arrow_schema = arrow_schema.set(index, field.with_type(shown))
    return arrow_schema


def add_airport_metadata(
    arrow_schema: pa.Schema, constraints: TableConstraints | None, *, statistics: bool
) -> pa.Schema:
    """Return the schema with the metadata that the Airport client acts upon."""
    metadata = dict(arrow_schema.metadata or {})
    metadata.pop(b"check_constraints", None)
    metadata.pop(b"can_produce_statistics", None)
    if constraints is not None and constraints.checks:
        metadata[b"check_constraints"] = msgpack.encode({"constraints": list(constraints.checks)})
    if statistics and all(_has_statistics(field.type) or is_rowid(field) for field in arrow_schema):
        metadata[b"can_produce_statistics"] = b"1"
    return arrow_schema.with_metadata(metadata or None)


def fingerprint(arrow_schema: pa.Schema) -> str:
    """Return a short fingerprint of what decides how a client reads the columns.

    The client never compares the stream with the schema it has cached, so the
    server has to notice that the two differ.
    """
    digest = hashlib.sha256()
    for field in arrow_schema:
        metadata = field.metadata
        extension = metadata.get(_EXTENSION_NAME, b"").decode(errors="replace") if metadata else ""
        marked = bool(metadata) and is_rowid(field)
        digest.update(f"{field.name}\0{field.type}\0{extension}\0{marked}\n".encode())
    return digest.hexdigest()[:12]


def _to_duckdb_type(arrow_type: pa.DataType) -> pa.DataType:
    if arrow_type.id in _KINDS_AS_THEY_ARE:
        return arrow_type
    if isinstance(arrow_type, pa.DictionaryType | pa.RunEndEncodedType):
        return _to_duckdb_type(arrow_type.value_type)
    if pa.types.is_float16(arrow_type):
        return pa.float32()
    if pa.types.is_decimal256(arrow_type):
        if arrow_type.precision > _MAX_DUCKDB_PRECISION:
            raise NoDuckDBTypeError(f"DuckDB has no type for {arrow_type}")
        return pa.decimal128(arrow_type.precision, arrow_type.scale)
    for child in _children(arrow_type):
        if _to_duckdb_type(child) != child:
            raise NoDuckDBTypeError(f"DuckDB has no type for {arrow_type}")
    if isinstance(arrow_type, pa.DenseUnionType) or (
        isinstance(arrow_type, pa.StructType) and not arrow_type.num_fields
    ):
        raise NoDuckDBTypeError(f"DuckDB has no type for {arrow_type}")
    return arrow_type


def _children(arrow_type: pa.DataType) -> list[pa.DataType]:
    if isinstance(arrow_type, pa.BaseExtensionType | pa.DictionaryType | pa.RunEndEncodedType):
        return []
    return [arrow_type.field(i).type for i in range(arrow_type.num_fields)]


def _depth(arrow_type: pa.DataType) -> int:
    if isinstance(arrow_type, pa.BaseExtensionType):
        return _depth(arrow_type.storage_type)
    if isinstance(arrow_type, pa.DictionaryType | pa.RunEndEncodedType):
        return 1 + _depth(arrow_type.value_type)
    return 1 + max((_depth(child) for child in _children(arrow_type)), default=0)


def _has_statistics(arrow_type: pa.DataType) -> bool:
    """Return whether DuckDB can use exact statistics of such a column.

    It reads BLOB bounds in an escaped text form that sorts differently, and fails
    on types it does not know here, so tables with such columns do not opt in.
    """
    if isinstance(arrow_type, pa.BaseExtensionType):
        return arrow_type.extension_name in _STATISTICS_EXTENSIONS
    return arrow_type.id in _STATISTICS_KINDS
