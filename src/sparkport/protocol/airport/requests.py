"""The request bodies of the Airport actions, decoded to values."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import pyarrow as pa

from sparkport.catalog import ddl
from sparkport.catalog.scan import TimePoint, TimeUnit
from sparkport.errors import InvalidRequestError
from sparkport.protocol import schemas
from sparkport.protocol.msgpack import decode, raw_bytes
from sparkport.protocol.names import Name


@dataclass(frozen=True, slots=True)
class CatalogRequest:
    """An action on a whole catalog, by the name it was attached with."""

    catalog: str


@dataclass(frozen=True, slots=True)
class FlightInfoRequest:
    """`flight_info`: describe a table, perhaps as it was."""

    descriptor: bytes
    time_point: TimePoint | None


@dataclass(frozen=True, slots=True)
class EndpointsRequest:
    """`endpoints`: plan a scan. Column ids count the columns without the row id.

    `parameters` is an Arrow stream of one row where a table function is called.
    """

    descriptor: bytes
    column_ids: tuple[int, ...]
    filters: bytes
    time_point: TimePoint | None
    parameters: bytes = b""


@dataclass(frozen=True, slots=True)
class StatisticsRequest:
    """`column_statistics` of one column."""

    descriptor: bytes
    column: str


@dataclass(frozen=True, slots=True)
class CreateSchemaRequest:
    """`create_schema`."""

    catalog: str
    schema: str
    options: ddl.CreateSchemaOptions


@dataclass(frozen=True, slots=True)
class DropSchemaRequest:
    """`drop_schema`."""

    catalog: str
    schema: str
    options: ddl.DropSchemaOptions


@dataclass(frozen=True, slots=True)
class CreateTableRequest:
    """`create_table`, with every constraint the client can say."""

    catalog: str
    schema: str
    table: str
    arrow_schema: pa.Schema
    options: ddl.CreateTableOptions


@dataclass(frozen=True, slots=True)
class DropTableRequest:
    """`drop_table`."""

    catalog: str
    schema: str
    table: str
    options: ddl.DropTableOptions


@dataclass(frozen=True, slots=True)
class AlterTableRequest:
    """Any ALTER TABLE; `ignore_not_found` is about the table."""

    catalog: str
    schema: str
    table: str
    change: ddl.TableChange
    ignore_not_found: bool


def time_point(unit: str, value: str) -> TimePoint | None:
    """Return the point that an AT clause means; both texts are empty without one."""
    if not unit and not value:
        return None
    try:
        return TimePoint(TimeUnit(unit.lower()), value)
    except ValueError as error:
        raise InvalidRequestError(
            f"unknown time unit '{unit}'; use timestamp, version or snapshot"
        ) from error


class _Catalog(msgspec.Struct):
    catalog_name: str


class _FlightInfo(msgspec.Struct):
    descriptor: msgspec.Raw
    at_unit: str = ""
    at_value: str = ""


class _Scan(msgspec.Struct):
    json_filters: msgspec.Raw = msgspec.Raw(b"\xa0")
    column_ids: list[int] = []
    table_function_parameters: msgspec.Raw = msgspec.Raw(b"\xa0")
    at_unit: str = ""
    at_value: str = ""


class _Endpoints(msgspec.Struct):
    descriptor: msgspec.Raw
    parameters: _Scan


class _Statistics(msgspec.Struct):
    flight_descriptor: msgspec.Raw
    column_name: Name
    type: str = ""


class _CreateSchema(msgspec.Struct):
    catalog_name: str
    schema: Name
    comment: str | None = None
    tags: dict[str, str] | None = None


class _DropSchema(msgspec.Struct):
    catalog_name: str
    name: str
    schema_name: str = ""
    ignore_not_found: bool = False


class _DropTable(msgspec.Struct):
    catalog_name: str
    schema_name: Name
    name: Name
    ignore_not_found: bool = False


class _CreateTable(msgspec.Struct):
    catalog_name: str
    schema_name: Name
    table_name: Name
    arrow_schema: msgspec.Raw
    on_conflict: str = "error"
    not_null_constraints: list[int] = []
    unique_constraints: list[int] = []
    check_constraints: list[str] = []
    primary_key_columns: list[Name] = []
    unique_columns: list[Name] = []
    multi_key_primary_keys: list[Name] = []
    extra_constraints: list[str] = []


class _Alter(msgspec.Struct):
    catalog: str
    schema: Name
    name: Name
    ignore_not_found: bool = False


class _AddColumn(_Alter, kw_only=True):
    column_schema: msgspec.Raw
    if_column_not_exists: bool = False


class _RemoveColumn(_Alter, kw_only=True):
    removed_column: Name
    if_column_exists: bool = False
    cascade: bool = False


class _RenameColumn(_Alter, kw_only=True):
    old_name: Name
    new_name: Name


class _RenameTable(_Alter, kw_only=True):
    new_table_name: Name


class _ChangeColumnType(_Alter, kw_only=True):
    column_schema: msgspec.Raw
    expression: str = ""


class _SetDefault(_Alter, kw_only=True):
    column_name: Name
    expression: str


class _NotNull(_Alter, kw_only=True):
    column_name: Name


class _AddField(_Alter, kw_only=True):
    column_path: list[Name]
    column_schema: msgspec.Raw
    if_field_not_exists: bool = False


class _RenameField(_Alter, kw_only=True):
    column_path: list[Name]
    new_name: Name


class _RemoveField(_Alter, kw_only=True):
    column_path: list[Name]
    if_column_exists: bool = False
    cascade: bool = False


class _AddConstraint(_Alter, kw_only=True):
    constraint: str


def catalog(body: bytes) -> CatalogRequest:
    """Decode `list_schemas`, `catalog_version` or `create_transaction`."""
    return CatalogRequest(decode(body, _Catalog).catalog_name)


def flight_info(body: bytes) -> FlightInfoRequest:
    """Decode `flight_info`."""
    wire = decode(body, _FlightInfo)
    return FlightInfoRequest(raw_bytes(wire.descriptor), time_point(wire.at_unit, wire.at_value))


def endpoints(body: bytes) -> EndpointsRequest:
    """Decode `endpoints`."""
    wire = decode(body, _Endpoints)
    scan = wire.parameters
    return EndpointsRequest(
        raw_bytes(wire.descriptor),
        tuple(scan.column_ids),
        raw_bytes(scan.json_filters),
        time_point(scan.at_unit, scan.at_value),
        raw_bytes(scan.table_function_parameters),
    )


def column_statistics(body: bytes) -> StatisticsRequest:
    """Decode `column_statistics`."""
    wire = decode(body, _Statistics)
    return StatisticsRequest(raw_bytes(wire.flight_descriptor), wire.column_name)


def create_schema(body: bytes) -> CreateSchemaRequest:
    """Decode `create_schema`."""
    wire = decode(body, _CreateSchema)
    options = ddl.CreateSchemaOptions(wire.comment or "", wire.tags or {})
    return CreateSchemaRequest(wire.catalog_name, wire.schema, options)


def drop_schema(body: bytes) -> DropSchemaRequest:
    """Decode `drop_schema`; the client sends the schema in `name` and an empty `schema_name`."""
    wire = decode(body, _DropSchema)
    schema = wire.name or wire.schema_name
    if not schema:
        raise InvalidRequestError("malformed request body: 'name' must not be empty")
    return DropSchemaRequest(wire.catalog_name, schema, ddl.DropSchemaOptions(wire.ignore_not_found))


def create_table(body: bytes) -> CreateTableRequest:
    """Decode `create_table`.

    A composite key arrives unordered, but its columns are also the last of the
    NOT NULL columns, in declared order.
    """
    wire = decode(body, _CreateTable)
    try:
        on_conflict = ddl.OnConflict(wire.on_conflict or "error")
    except ValueError as error:
        raise InvalidRequestError(
            f"on_conflict is error, ignore or replace, not '{wire.on_conflict}'"
        ) from error
    arrow_schema = schemas.decode(raw_bytes(wire.arrow_schema))
    names = arrow_schema.names
    if "" in names:
        raise InvalidRequestError("a column needs a name")
    declared = [names[i] for i in wire.not_null_constraints if 0 <= i < len(names)]
    key = wire.primary_key_columns or wire.multi_key_primary_keys
    tail = declared[len(declared) - len(key) :]
    if sorted(tail) == sorted(key):
        key = tail
    options = ddl.CreateTableOptions(
        on_conflict,
        not_null_constraints=tuple(wire.not_null_constraints),
        unique_constraints=tuple(wire.unique_constraints),
        check_constraints=tuple(wire.check_constraints),
        primary_key=tuple(key),
        unique_keys=tuple((name,) for name in wire.unique_columns),
        table_constraints=tuple(wire.extra_constraints),
    )
    return CreateTableRequest(wire.catalog_name, wire.schema_name, wire.table_name, arrow_schema, options)


def drop_table(body: bytes) -> DropTableRequest:
    """Decode `drop_table`."""
    wire = decode(body, _DropTable)
    return DropTableRequest(
        wire.catalog_name, wire.schema_name, wire.name, ddl.DropTableOptions(wire.ignore_not_found)
    )


def add_column(body: bytes) -> AlterTableRequest:
    """Decode `add_column`."""
    wire = decode(body, _AddColumn)
    column = _column(wire.column_schema)
    return _alter(wire, ddl.AddColumn(column, wire.if_column_not_exists))


def remove_column(body: bytes) -> AlterTableRequest:
    """Decode `remove_column`."""
    wire = decode(body, _RemoveColumn)
    return _alter(wire, ddl.RemoveColumn(wire.removed_column, wire.if_column_exists, wire.cascade))


def rename_column(body: bytes) -> AlterTableRequest:
    """Decode `rename_column`."""
    wire = decode(body, _RenameColumn)
    return _alter(wire, ddl.RenameColumn(wire.old_name, wire.new_name))


def rename_table(body: bytes) -> AlterTableRequest:
    """Decode `rename_table`."""
    wire = decode(body, _RenameTable)
    return _alter(wire, ddl.RenameTable(wire.new_table_name))


def change_column_type(body: bytes) -> AlterTableRequest:
    """Decode `change_column_type`."""
    wire = decode(body, _ChangeColumnType)
    column = _column(wire.column_schema)
    return _alter(wire, ddl.ChangeColumnType(column.name, column.type, wire.expression))


def set_default(body: bytes) -> AlterTableRequest:
    """Decode `set_default`."""
    wire = decode(body, _SetDefault)
    return _alter(wire, ddl.SetDefault(wire.column_name, wire.expression))


def set_not_null(body: bytes) -> AlterTableRequest:
    """Decode `set_not_null`, in which the client repeats a key."""
    wire = decode(body, _NotNull)
    return _alter(wire, ddl.SetNotNull(wire.column_name))


def drop_not_null(body: bytes) -> AlterTableRequest:
    """Decode `drop_not_null`."""
    wire = decode(body, _NotNull)
    return _alter(wire, ddl.DropNotNull(wire.column_name))


def add_field(body: bytes) -> AlterTableRequest:
    """Decode `add_field`.

    DuckDB's client loses the name of the new field: it sends the name of the
    column instead. Guessing would put data under a name nobody chose.
    """
    wire = decode(body, _AddField)
    field = schemas.decode_single_field(raw_bytes(wire.column_schema))
    path = _field_path(wire.column_path, 1)
    if not field.name:
        raise InvalidRequestError("a field needs a name")
    if field.name == path[0]:
        raise InvalidRequestError(
            f"the name of the new field in '{'.'.join(path)}' was not sent"
            " (DuckDB's Airport extension loses it);"
            " change the column's type instead: ALTER TABLE ... ALTER ... TYPE STRUCT(...)"
        )
    schemas.to_duckdb_types(pa.schema([(path[0], pa.struct([field]))]))
    return _alter(wire, ddl.AddField(path, field, wire.if_field_not_exists))


def rename_field(body: bytes) -> AlterTableRequest:
    """Decode `rename_field`."""
    wire = decode(body, _RenameField)
    return _alter(wire, ddl.RenameField(_field_path(wire.column_path, 2), wire.new_name))


def remove_field(body: bytes) -> AlterTableRequest:
    """Decode `remove_field`."""
    wire = decode(body, _RemoveField)
    path = _field_path(wire.column_path, 2)
    return _alter(wire, ddl.RemoveField(path, wire.if_column_exists, wire.cascade))


def add_constraint(body: bytes) -> AlterTableRequest:
    """Decode `add_constraint`."""
    wire = decode(body, _AddConstraint)
    return _alter(wire, ddl.AddConstraint(wire.constraint))


def _column(raw: msgspec.Raw) -> pa.Field:
    """Return the one field, of a type that the answer can show to DuckDB."""
    field = schemas.decode_single_field(raw_bytes(raw))
    if not field.name:
        raise InvalidRequestError("a column needs a name")
    schemas.to_duckdb_types(pa.schema([field]))
    return field


def _alter(wire: _Alter, change: ddl.TableChange) -> AlterTableRequest:
    return AlterTableRequest(wire.catalog, wire.schema, wire.name, change, wire.ignore_not_found)


def _field_path(parts: list[str], at_least: int) -> tuple[str, ...]:
    if len(parts) < at_least:
        raise InvalidRequestError(f"column_path needs at least {at_least} names")
    return tuple(parts)
