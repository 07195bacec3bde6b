"""Flight descriptors: how a table or a function is addressed.

Three spellings are read: PATH `[schema, table]` or `[catalog, schema, table]`,
CMD with a JSON object of those keys, and CMD with a dotted name in which parts
may be double-quoted. In answers to DuckDB a fourth PATH part (JSON: `layout`)
tells which columns the client believes the table has. A function has five parts:
catalog, schema, kind, name and the form in which DuckDB calls it.
"""

from __future__ import annotations

import enum
import json
import re
from dataclasses import dataclass

from google.protobuf.message import DecodeError

from sparkport.catalog.lookup import TablePath
from sparkport.errors import InvalidRequestError
from sparkport.protocol import flight_pb2 as pb

DATABASES = "__databases"

# What gRPC allows in a header: Airport sends the PATH in one and aborts otherwise.
_HEADER_SAFE = re.compile(r"[!-~]([ -~]*[!-~])?")
_MAX_PATH = 512
_LAYOUT = re.compile("[0-9a-f]{12}")  # `schemas.fingerprint`
_NAME_PART = re.compile(r'"((?:[^"]|"")+)"|([^".]+)')


@dataclass(frozen=True, slots=True)
class TableAddress:
    """A table and, from DuckDB, the layout the client has cached.

    An empty catalog means the server's default one.
    """

    path: TablePath
    layout: str | None = None


@dataclass(frozen=True, slots=True)
class DatabasesAddress:
    """The list of databases, which DuckDB's `airport_databases` reads."""


class FunctionKind(enum.StrEnum):
    """The two lists of functions that DuckDB keeps."""

    SCALAR = "scalar_function"
    TABLE = "table_function"


@dataclass(frozen=True, slots=True)
class FunctionAddress:
    """A function, in one of the forms that the listing offered."""

    path: TablePath
    kind: FunctionKind
    form: str


Address = TableAddress | DatabasesAddress | FunctionAddress


def parse(data: bytes) -> pb.FlightDescriptor:
    """Return the protobuf message."""
    try:
        return pb.FlightDescriptor.FromString(data)
    except DecodeError as error:
        raise InvalidRequestError("malformed flight descriptor") from error


def decode(data: bytes, default_catalog: str = "") -> Address:
    """Return what a serialized FlightDescriptor names."""
    descriptor = parse(data)
    if descriptor.type == pb.FlightDescriptor.PATH:
        return _from_path(list(descriptor.path), default_catalog)
    if descriptor.type == pb.FlightDescriptor.CMD:
        return _from_command(descriptor.cmd, default_catalog)
    raise InvalidRequestError("a flight descriptor must be of type PATH or CMD")


def encode(address: TableAddress | FunctionAddress) -> bytes:
    """Return a descriptor that any client can carry, whatever the names."""
    path = address.path
    if isinstance(address, FunctionAddress):
        parts = [path.catalog, path.schema, address.kind, path.table, address.form]
        keys: tuple[str, ...] = ("catalog", "schema", "kind", "function", "form")
    else:
        parts = [path.catalog, path.schema, path.table]
        keys = ("catalog", "schema", "table", "layout")
        if address.layout is not None:
            parts.append(address.layout)
    safe = all(_HEADER_SAFE.fullmatch(part) for part in parts) and sum(map(len, parts)) <= _MAX_PATH
    if safe:
        return pb.FlightDescriptor(type=pb.FlightDescriptor.PATH, path=parts).SerializeToString()
    command = dict(zip(keys, parts, strict=False))
    return pb.FlightDescriptor(
        type=pb.FlightDescriptor.CMD, cmd=json.dumps(command).encode()
    ).SerializeToString()


def _from_path(parts: list[str], default_catalog: str) -> Address:
    match parts:
        case [only] if only == DATABASES:
            return DatabasesAddress()
        case [schema, table]:
            return TableAddress(_table_path(default_catalog, schema, table))
        case [catalog, schema, table]:
            return TableAddress(_table_path(catalog, schema, table))
        case [catalog, schema, table, layout] if _LAYOUT.fullmatch(layout):
            return TableAddress(_table_path(catalog, schema, table), layout)
        case [catalog, schema, FunctionKind.SCALAR | FunctionKind.TABLE as kind, function, form]:
            return FunctionAddress(_function_path(catalog, schema, function), FunctionKind(kind), form)
        case _:
            raise InvalidRequestError(
                f"a path is [schema, table] or [catalog, schema, table]; this one has {len(parts)} parts"
            )


def _from_command(command: bytes, default_catalog: str) -> Address:
    try:
        text = command.decode()
    except UnicodeDecodeError as error:
        raise InvalidRequestError("a command must be UTF-8 text") from error
    if text.lstrip().startswith("{"):
        return _from_json(text, default_catalog)
    parts = [quoted.replace('""', '"') or plain for quoted, plain in _NAME_PART.findall(text)]
    rebuilt = ".".join(match.group(0) for match in _NAME_PART.finditer(text))
    if rebuilt != text or len(parts) not in {2, 3}:
        raise InvalidRequestError(
            "a command must be schema.table, catalog.schema.table, or JSON with schema and table"
        )
    return _from_path(parts, default_catalog)


def _from_json(text: str, default_catalog: str) -> Address:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidRequestError("the command is not valid JSON") from error
    if "function" in document:
        parts = [document.get(key) for key in ("catalog", "schema", "kind", "function", "form")]
        if all(isinstance(part, str) for part in parts):
            return _from_path([str(part) for part in parts], default_catalog)
    values = {key: document.get(key) for key in ("catalog", "schema", "table", "layout")}
    if not isinstance(values["schema"], str) or not isinstance(values["table"], str):
        raise InvalidRequestError("the command must have the strings 'schema' and 'table'")
    catalog = values["catalog"] if isinstance(values["catalog"], str) else default_catalog
    layout = values["layout"] if isinstance(values["layout"], str) else None
    return TableAddress(_table_path(catalog, values["schema"], values["table"]), layout)


def _table_path(catalog: str, schema: str, table: str) -> TablePath:
    if not schema or not table:
        raise InvalidRequestError("the schema and table of a flight descriptor must not be empty")
    return TablePath(catalog, schema, table)


def _function_path(catalog: str, schema: str, function: str) -> TablePath:
    if not schema or not function:
        raise InvalidRequestError("the schema and function of a flight descriptor must not be empty")
    return TablePath(catalog, schema, function)
