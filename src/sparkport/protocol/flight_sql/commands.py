"""Commands of Flight SQL: what the command of a flight descriptor asks for.

A command is a protobuf message in a `google.protobuf.Any`, which tells it from the names and the JSON that
the other dialects put in the same place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from google.protobuf.message import DecodeError, Message

from sparkport.catalog.ddl import OnConflict
from sparkport.errors import InvalidRequestError, NotImplementedByServerError
from sparkport.protocol import flight_sql_pb2 as sql
from sparkport.protocol.json_dialect.requests import MetadataRequest

_PREFIX = "type.googleapis.com/arrow.flight.protocol.sql."
_FIRST_BYTE = 0x0A  # the tag of the type's name
_MARK = b"arrow.flight.protocol.sql."
_MARK_BYTES = 96

M = TypeVar("M", bound=Message)


@dataclass(frozen=True, slots=True)
class GetCatalogs:
    """List the catalogs."""


@dataclass(frozen=True, slots=True)
class GetDbSchemas:
    """List schemas."""

    filters: MetadataRequest


@dataclass(frozen=True, slots=True)
class GetTables:
    """List tables."""

    filters: MetadataRequest


@dataclass(frozen=True, slots=True)
class GetTableTypes:
    """List the types of tables."""


@dataclass(frozen=True, slots=True)
class GetPrimaryKeys:
    """List the columns of the primary keys of tables with a name; None means any catalog or schema."""

    catalog: str | None
    schema: str | None
    table: str


@dataclass(frozen=True, slots=True)
class GetForeignKeys:
    """List foreign keys, which no table has: exported, imported or between two tables."""


@dataclass(frozen=True, slots=True)
class GetSqlInfo:
    """Tell what the server can do; no ids mean all."""

    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class GetTypeInfo:
    """List the types of SQL; without a type all of them."""

    data_type: int | None


@dataclass(frozen=True, slots=True)
class StatementQuery:
    """Run a statement whose rows the client wants."""

    sql: str
    transaction_id: str | None


@dataclass(frozen=True, slots=True)
class StatementUpdate:
    """Run a statement of which the client wants the number of rows."""

    sql: str
    transaction_id: str | None


@dataclass(frozen=True, slots=True)
class PreparedQuery:
    """Run a prepared statement whose rows the client wants, or bind its parameters."""

    handle: bytes


@dataclass(frozen=True, slots=True)
class PreparedUpdate:
    """Run a prepared statement of which the client wants the number of rows."""

    handle: bytes


@dataclass(frozen=True, slots=True)
class Ingest:
    """Write the rows that follow to a table.

    `on_conflict` says what happens to a table that is there (IGNORE: it gets more rows), and `may_create`
    whether one that is not there is created.
    """

    catalog: str
    schema: str
    table: str
    may_create: bool
    on_conflict: OnConflict
    transaction_id: str | None


MetadataCommand = (
    GetCatalogs
    | GetDbSchemas
    | GetTables
    | GetTableTypes
    | GetPrimaryKeys
    | GetForeignKeys
    | GetSqlInfo
    | GetTypeInfo
)
Command = MetadataCommand | StatementQuery | StatementUpdate | PreparedQuery | PreparedUpdate | Ingest


def decode(data: bytes) -> Command | None:
    """Return the command in a flight descriptor, None for one of another dialect.

    Raises InvalidRequestError for a malformed one, NotImplementedByServerError for one that is not offered.
    """
    if not is_wrapped(data):
        return None
    wrapper = parse(sql.Any, data)
    name = wrapper.type_url.removeprefix(_PREFIX)
    decoder = _DECODERS.get(name)
    if decoder is None or name == wrapper.type_url:
        raise NotImplementedByServerError(f"the Flight SQL command {name!r} is not offered")
    return decoder(wrapper.value)


def is_wrapped(data: bytes) -> bool:
    """Return whether bytes are a message of Flight SQL in an Any, whole or damaged."""
    return bool(data) and data[0] == _FIRST_BYTE and _MARK in data[:_MARK_BYTES]


def parse(message: type[M], data: bytes) -> M:
    """Return a message. Raises InvalidRequestError."""
    try:
        return message.FromString(data)
    except DecodeError as error:
        raise InvalidRequestError(f"malformed {message.DESCRIPTOR.name} message") from error


def unwrap(message: type[M], data: bytes) -> M:
    """Return the message in an Any. Raises InvalidRequestError."""
    wrapper = parse(sql.Any, data)
    if wrapper.type_url.rpartition("/")[2] != message.DESCRIPTOR.full_name:
        raise InvalidRequestError(f"the body is not a {message.DESCRIPTOR.name} message")
    return parse(message, wrapper.value)


def wrap(message: Message) -> bytes:
    """Return a message in an Any."""
    url = f"type.googleapis.com/{message.DESCRIPTOR.full_name}"
    return sql.Any(type_url=url, value=message.SerializeToString()).SerializeToString()


def transaction_id(message: Any) -> str | None:  # noqa: ANN401  (several messages have the field)
    """Return the transaction of a message. Raises InvalidRequestError for bytes that name none."""
    return identifier("transaction", message.transaction_id) if message.transaction_id else None


def identifier(kind: str, data: bytes) -> str:
    """Return an id that the server has given out, which is ASCII. Raises InvalidRequestError."""
    try:
        return data.decode("ascii")
    except UnicodeDecodeError as error:
        raise InvalidRequestError(f"the {kind} id is not one of this server") from error


def _optional(message: Message, field: str) -> str | None:
    return str(getattr(message, field)) if message.HasField(field) else None


def _schemas(data: bytes) -> GetDbSchemas:
    message = parse(sql.CommandGetDbSchemas, data)
    return GetDbSchemas(
        MetadataRequest(_optional(message, "catalog"), _optional(message, "db_schema_filter_pattern"))
    )


def _tables(data: bytes) -> GetTables:
    message = parse(sql.CommandGetTables, data)
    return GetTables(
        MetadataRequest(
            _optional(message, "catalog"),
            _optional(message, "db_schema_filter_pattern"),
            _optional(message, "table_name_filter_pattern"),
            tuple(message.table_types) or None,
            message.include_schema,
            with_row_id=False,
        )
    )


def _primary_keys(data: bytes) -> GetPrimaryKeys:
    message = parse(sql.CommandGetPrimaryKeys, data)
    return GetPrimaryKeys(_optional(message, "catalog"), _optional(message, "db_schema"), message.table)


def _without_fields(kind: type[Message], command: Command) -> Callable[[bytes], Command]:
    """Return the decoder of a command of which nothing but its being well-formed matters."""

    def decode_command(data: bytes) -> Command:
        parse(kind, data)
        return command

    return decode_command


def _sql_info(data: bytes) -> GetSqlInfo:
    return GetSqlInfo(tuple(parse(sql.CommandGetSqlInfo, data).info))


def _type_info(data: bytes) -> GetTypeInfo:
    message = parse(sql.CommandGetXdbcTypeInfo, data)
    return GetTypeInfo(message.data_type if message.HasField("data_type") else None)


def _query(data: bytes) -> StatementQuery:
    message = parse(sql.CommandStatementQuery, data)
    return StatementQuery(message.query, transaction_id(message))


def _update(data: bytes) -> StatementUpdate:
    message = parse(sql.CommandStatementUpdate, data)
    return StatementUpdate(message.query, transaction_id(message))


def _prepared_query(data: bytes) -> PreparedQuery:
    return PreparedQuery(parse(sql.CommandPreparedStatementQuery, data).prepared_statement_handle)


def _prepared_update(data: bytes) -> PreparedUpdate:
    return PreparedUpdate(parse(sql.CommandPreparedStatementUpdate, data).prepared_statement_handle)


_INGEST = sql.CommandStatementIngest.TableDefinitionOptions
_ON_CONFLICT = {
    _INGEST.TABLE_EXISTS_OPTION_FAIL: OnConflict.ERROR,
    _INGEST.TABLE_EXISTS_OPTION_APPEND: OnConflict.IGNORE,
    _INGEST.TABLE_EXISTS_OPTION_REPLACE: OnConflict.REPLACE,
}


def _ingest(data: bytes) -> Ingest:
    message = parse(sql.CommandStatementIngest, data)
    if message.temporary:
        raise NotImplementedByServerError("temporary tables are not offered")
    if not message.table:
        raise InvalidRequestError("an ingest needs the name of a table")
    options = message.table_definition_options
    if options.if_exists not in _ON_CONFLICT:
        raise InvalidRequestError("an ingest must say what to do with a table that exists (if_exists)")
    return Ingest(
        message.catalog,
        message.schema,
        message.table,
        options.if_not_exist == _INGEST.TABLE_NOT_EXIST_OPTION_CREATE,
        _ON_CONFLICT[options.if_exists],
        transaction_id(message),
    )


_DECODERS: dict[str, Callable[[bytes], Command]] = {
    "CommandGetCatalogs": _without_fields(sql.CommandGetCatalogs, GetCatalogs()),
    "CommandGetDbSchemas": _schemas,
    "CommandGetTables": _tables,
    "CommandGetTableTypes": _without_fields(sql.CommandGetTableTypes, GetTableTypes()),
    "CommandGetPrimaryKeys": _primary_keys,
    "CommandGetExportedKeys": _without_fields(sql.CommandGetExportedKeys, GetForeignKeys()),
    "CommandGetImportedKeys": _without_fields(sql.CommandGetImportedKeys, GetForeignKeys()),
    "CommandGetCrossReference": _without_fields(sql.CommandGetCrossReference, GetForeignKeys()),
    "CommandGetSqlInfo": _sql_info,
    "CommandGetXdbcTypeInfo": _type_info,
    "CommandStatementQuery": _query,
    "CommandStatementUpdate": _update,
    "CommandPreparedStatementQuery": _prepared_query,
    "CommandPreparedStatementUpdate": _prepared_update,
    "CommandStatementIngest": _ingest,
}


def encode_query(text: str) -> bytes:
    """Return the command that runs a statement."""
    command = sql.CommandStatementQuery(query=text)
    return sql.Any(
        type_url=f"{_PREFIX}CommandStatementQuery", value=command.SerializeToString()
    ).SerializeToString()
