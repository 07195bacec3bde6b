"""The JSON dialect: request bodies for DDL, DML and transactions.

A body is one JSON object. Unknown keys are ignored; a missing or null required
key, a flag that is not a boolean, or text after the object is an error.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeVar

import msgspec
import numpy as np
import pyarrow as pa

from sparkport.catalog import ddl
from sparkport.catalog.scan import TimePoint
from sparkport.errors import InvalidRequestError, LimitExceededError
from sparkport.protocol import msgpack, schemas
from sparkport.protocol.airport import requests
from sparkport.protocol.airport.requests import (
    AlterTableRequest,
    CreateSchemaRequest,
    CreateTableRequest,
    DropSchemaRequest,
    DropTableRequest,
)
from sparkport.protocol.decoding import decode_json
from sparkport.protocol.json_dialect import type_grammar
from sparkport.protocol.names import Name, explain

T = TypeVar("T")

_MAX_ROW_IDS = 1_000_000
_TOO_MANY_ROW_IDS = f"row_ids has more than {_MAX_ROW_IDS} ids, which is the limit; send several requests"
_MAX_JSON_BYTES = 32 << 20  # a million row ids of twenty digits, with room to spare

_EXTENSION_NAME = b"ARROW:extension:name"
_EXTENSION_METADATA = b"ARROW:extension:metadata"


@dataclass(frozen=True, slots=True)
class JsonCreateSchemaRequest:
    """`CreateSchema`; with `if_not_exists` an existing schema is no error."""

    request: CreateSchemaRequest
    if_not_exists: bool


@dataclass(frozen=True, slots=True)
class InsertCommand:
    """DoPut of new rows."""

    operation: ClassVar = "insert"
    schema: str
    table: str
    returning: bool


@dataclass(frozen=True, slots=True)
class UpdateCommand:
    """DoPut of replacement rows; the ids name them by position."""

    operation: ClassVar = "update"
    schema: str
    table: str
    row_ids: pa.Int64Array
    returning: bool
    if_version: str | None = None


@dataclass(frozen=True, slots=True)
class DeleteRequest:
    """DoAction `delete`."""

    schema: str
    table: str
    row_ids: pa.Int64Array
    returning: bool
    if_version: str | None = None


@dataclass(frozen=True, slots=True)
class BeginRequest:
    """`create_transaction` with an empty or JSON body."""

    auto_commit: bool
    auto_rollback: bool = False


@dataclass(frozen=True, slots=True)
class NamedEndpointsRequest:
    """`endpoints` by schema and table."""

    schema: str
    table: str
    time_point: TimePoint | None


@dataclass(frozen=True, slots=True)
class NamedFunctionRequest:
    """`table_function_flight_info` by name; a msgpack list of parameters and a map of named ones."""

    name: str
    parameters: bytes
    named: bytes = b"\x80"


@dataclass(frozen=True, slots=True)
class MetadataRequest:
    """`GetCatalogs`, `GetDbSchemas`, `GetTables` or `GetTableTypes`; patterns are SQL's LIKE.

    The Arrow schemas of tables have the row id only `with_row_id`.
    """

    catalog: str | None = None
    schema_pattern: str | None = None
    table_pattern: str | None = None
    table_types: tuple[str, ...] | None = None
    include_schema: bool = False
    with_row_id: bool = True


class _Metadata(msgspec.Struct):
    catalog: str | None = None
    db_schema_filter_pattern: str | None = None
    table_name_filter_pattern: str | None = None
    table_types: list[str] | None = None
    include_schema: bool = False


class _CreateSchema(msgspec.Struct):
    schema_name: Name
    if_not_exists: bool = False
    comment: str | None = None


class _DropSchema(msgspec.Struct):
    schema_name: Name
    if_exists: bool = False
    cascade: bool = False


class _Field(msgspec.Struct):
    name: str
    type: str
    nullable: bool = True
    fields: list[_Field] | None = None


class _Columns(msgspec.Struct):
    fields: list[_Field]
    metadata: dict[str, str] | None = None


class _CreateTable(msgspec.Struct):
    schema_name: Name
    table_name: Name
    schema: _Columns
    if_not_exists: bool = False
    comment: str | None = None


class _DropTable(msgspec.Struct):
    schema_name: Name
    table_name: Name
    if_exists: bool = False


class _AddColumn(msgspec.Struct):
    schema_name: Name
    table_name: Name
    column: _Field
    if_exists: bool = False


class _DropColumn(msgspec.Struct):
    schema_name: Name
    table_name: Name
    column_name: Name
    if_exists: bool = False


class _Put(msgspec.Struct):
    operation: Literal["insert", "update"]
    schema_name: Name
    table_name: Name
    row_ids: list[int] | None = None
    returning: bool = False
    if_version: str | None = None


class _Delete(msgspec.Struct):
    schema_name: Name
    table_name: Name
    row_ids: list[int]
    returning: bool = False
    if_version: str | None = None


class _Begin(msgspec.Struct):
    auto_commit: bool = True
    auto_rollback: bool = False


class _Transaction(msgspec.Struct):
    transaction_id: Name


class _StatementId(msgspec.Struct):
    statement_id: Name


class _TimePoint(msgspec.Struct):
    unit: str
    value: str


class _Endpoints(msgspec.Struct):
    schema: Name
    table: Name
    time_point: _TimePoint | None = None


class _Function(msgspec.Struct):
    name: Name
    parameters: msgspec.Raw = msgspec.Raw(b"\x90")
    named_parameters: msgspec.Raw = msgspec.Raw(b"\x80")


def create_schema(body: bytes) -> JsonCreateSchemaRequest:
    """Decode `CreateSchema`."""
    wire = _decode(body, _CreateSchema)
    request = CreateSchemaRequest("", wire.schema_name, ddl.CreateSchemaOptions(wire.comment or ""))
    return JsonCreateSchemaRequest(request, wire.if_not_exists)


def drop_schema(body: bytes) -> DropSchemaRequest:
    """Decode `DropSchema`."""
    wire = _decode(body, _DropSchema)
    return DropSchemaRequest("", wire.schema_name, ddl.DropSchemaOptions(wire.if_exists, wire.cascade))


def create_table(body: bytes) -> CreateTableRequest:
    """Decode `CreateTable`."""
    wire = _decode(body, _CreateTable)
    metadata = dict(wire.schema.metadata or {})
    columns = [_column(column, metadata) for column in wire.schema.fields]
    if not columns:
        raise InvalidRequestError("a table needs at least one column")
    conflict = ddl.OnConflict.IGNORE if wire.if_not_exists else ddl.OnConflict.ERROR
    options = ddl.CreateTableOptions(conflict, wire.comment or "")
    if wire.comment:
        metadata.setdefault("comment", wire.comment)
    arrow_schema = pa.schema(columns, metadata or None)
    schemas.check_limits(arrow_schema)
    return CreateTableRequest("", wire.schema_name, wire.table_name, arrow_schema, options)


def drop_table(body: bytes) -> DropTableRequest:
    """Decode `DropTable`."""
    wire = _decode(body, _DropTable)
    return DropTableRequest("", wire.schema_name, wire.table_name, ddl.DropTableOptions(wire.if_exists))


def add_column(body: bytes) -> AlterTableRequest:
    """Decode `AlterTableAddColumn`; `if_exists` is about the table only."""
    wire = _decode(body, _AddColumn)
    column = _column(wire.column, {})
    schemas.check_limits(pa.schema([column]))
    change = ddl.AddColumn(column)
    return AlterTableRequest("", wire.schema_name, wire.table_name, change, wire.if_exists)


def drop_column(body: bytes) -> AlterTableRequest:
    """Decode `AlterTableDropColumn`; `if_exists` is about the table and the column."""
    wire = _decode(body, _DropColumn)
    change = ddl.RemoveColumn(wire.column_name, if_exists=wire.if_exists)
    return AlterTableRequest("", wire.schema_name, wire.table_name, change, wire.if_exists)


def put_command(command: bytes) -> InsertCommand | UpdateCommand:
    """Decode the command of a DoPut."""
    wire = _decode(command, _Put)
    if wire.operation == "insert":
        return InsertCommand(wire.schema_name, wire.table_name, wire.returning)
    ids = _row_ids(wire.row_ids or [], "UPDATE")
    return UpdateCommand(wire.schema_name, wire.table_name, ids, wire.returning, wire.if_version)


def delete(body: bytes) -> DeleteRequest:
    """Decode `delete`."""
    wire = _decode(body, _Delete)
    ids = _row_ids(wire.row_ids, "DELETE")
    return DeleteRequest(wire.schema_name, wire.table_name, ids, wire.returning, wire.if_version)


def begin(body: bytes) -> BeginRequest:
    """Decode `create_transaction` of the JSON dialect."""
    wire = _decode(body, _Begin) if body.strip() else _Begin()
    return BeginRequest(wire.auto_commit, wire.auto_rollback)


def transaction_id(body: bytes) -> str:
    """Decode `get_transaction_status`, `commit_transaction` or `rollback_transaction`."""
    if is_json(body):
        return _decode(body, _Transaction).transaction_id
    return msgpack.decode(body, _Transaction).transaction_id


def statement_id(body: bytes) -> str:
    """Decode `cancel_statement`."""
    return _decode(body, _StatementId).statement_id


def endpoints(body: bytes) -> NamedEndpointsRequest:
    """Decode `endpoints` by name."""
    wire = msgpack.decode(body, _Endpoints)
    point = wire.time_point
    when = None if point is None else requests.time_point(point.unit, point.value)
    if point is not None and when is None:
        raise InvalidRequestError("a time point must have a unit and a value")
    return NamedEndpointsRequest(wire.schema, wire.table, when)


def table_function(body: bytes) -> NamedFunctionRequest:
    """Decode `table_function_flight_info` by name."""
    wire = msgpack.decode(body, _Function)
    return NamedFunctionRequest(wire.name, bytes(wire.parameters), bytes(wire.named_parameters))


def metadata(body: bytes) -> MetadataRequest:
    """Decode the filters of a metadata action: empty, JSON or msgpack."""
    if not body.strip():
        return MetadataRequest()
    wire = _decode(body, _Metadata) if is_json(body) else msgpack.decode(body, _Metadata)
    return MetadataRequest(
        wire.catalog,
        wire.db_schema_filter_pattern,
        wire.table_name_filter_pattern,
        None if wire.table_types is None else tuple(wire.table_types),
        wire.include_schema,
    )


def changed_column(change: ddl.TableChange) -> str:
    """Return the name of the column that one of the dialect's two changes is about."""
    match change:
        case ddl.AddColumn(column):
            return str(column.name)
        case ddl.RemoveColumn(name):
            return name
        case _:
            raise TypeError(f"{change} is not a change of the JSON dialect")


def is_json(body: bytes) -> bool:
    """Return whether a body is JSON rather than msgpack, in which `{` is the integer 123 and no request."""
    return not body.strip() or body.lstrip()[:1] == b"{"


def encode(answer: dict[str, object]) -> bytes:
    """Return the JSON of a successful answer."""
    return msgspec.json.encode({"status": "success", **answer})


def encode_rows(rows: pa.Table) -> bytes:
    """Return rows as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())


def encode_compressed(table: pa.Table) -> bytes:
    """Return a table as an Arrow IPC stream in one zstd frame."""
    data: bytes = pa.Codec("zstd").compress(encode_rows(table), asbytes=True)
    return data


def encode_put(affected: int, rows: pa.Table | None, version: str | None = None) -> bytes:
    """Return the msgpack answer of a DoPut."""
    data = None if rows is None else encode_rows(rows)
    answer = {"status": "success", "affected_rows": affected, "returning_data": data}
    return msgpack.encode(answer if version is None else {**answer, "version": version})


def encode_delete(affected: int, rows: pa.Table | None, version: str | None = None) -> bytes:
    """Return the JSON answer of a delete."""
    answer: dict[str, object] = {"affected_rows": affected}
    if rows is not None:
        answer["returning_data"] = base64.b64encode(encode_rows(rows)).decode()
    return encode(answer if version is None else {**answer, "version": version})


def _decode(body: bytes, shape: type[T]) -> T:
    # Decoding holds the GIL, so its time is bounded here.
    if len(body) > _MAX_JSON_BYTES:
        raise LimitExceededError(
            f"the JSON request has {len(body)} bytes, the limit is {_MAX_JSON_BYTES} bytes"
        )
    if body.count(b",") > 2 * _MAX_ROW_IDS:
        raise LimitExceededError(_TOO_MANY_ROW_IDS)
    try:
        return decode_json(body, shape)
    except RecursionError as error:
        raise LimitExceededError("the JSON request is nested too deeply") from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InvalidRequestError(f"malformed JSON request: {explain(error)}") from error


def _row_ids(ids: list[int], operation: str) -> pa.Int64Array:
    if not ids:
        raise InvalidRequestError(f"row_ids cannot be empty for {operation}")
    if len(ids) > _MAX_ROW_IDS:
        raise LimitExceededError(_TOO_MANY_ROW_IDS)
    try:
        numbers = np.array(ids, np.int64)
    except OverflowError as error:
        raise InvalidRequestError("a row id must be a 64-bit integer") from error
    if len(np.unique(numbers)) != len(numbers):
        raise InvalidRequestError("row_ids has a duplicate id")
    return pa.array(numbers)


def _column(wire: _Field, metadata: dict[str, str], depth: int = 1) -> pa.Field:
    if not wire.name:
        raise InvalidRequestError("a column needs a name")
    schemas.check_depth(depth)
    children = None if wire.fields is None else [_column(child, {}, depth + 1) for child in wire.fields]
    data_type = type_grammar.parse(wire.type, children)
    field = type_grammar.named_field(wire.name, data_type, nullable=wire.nullable)
    if wire.type.strip() != type_grammar.GEOMETRY:
        return field
    return field.with_metadata(_geometry(wire.name, metadata))


def _geometry(name: str, metadata: dict[str, str]) -> dict[bytes, bytes]:
    """Return the metadata that makes a WKB column a GEOMETRY for DuckDB."""
    srid = metadata.get(f"{name}.srid")
    geometry_type = metadata.get(f"{name}.geometry_type")
    reference = {"crs": f"EPSG:{srid}", "crs_type": "authority_code"} if srid else {}
    keys = {_EXTENSION_NAME: b"geoarrow.wkb", _EXTENSION_METADATA: json.dumps(reference).encode()}
    if srid:
        keys[b"srid"] = srid.encode()
    if geometry_type:
        keys[b"geometry_type"] = geometry_type.encode()
    return keys
