"""The Arrow schemas of the answers to Flight SQL's metadata commands, as its specification has them."""

from __future__ import annotations

from typing import assert_never

import pyarrow as pa

from sparkport.protocol.flight_sql.commands import (
    GetCatalogs,
    GetDbSchemas,
    GetForeignKeys,
    GetPrimaryKeys,
    GetSqlInfo,
    GetTables,
    GetTableTypes,
    GetTypeInfo,
    MetadataCommand,
)


def _required(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)


_TEXT = pa.string()
_INT = pa.int32()

CATALOGS = pa.schema([_required("catalog_name", _TEXT)])
DB_SCHEMAS = pa.schema([pa.field("catalog_name", _TEXT), _required("db_schema_name", _TEXT)])
TABLES = pa.schema(
    [
        pa.field("catalog_name", _TEXT),
        pa.field("db_schema_name", _TEXT),
        _required("table_name", _TEXT),
        _required("table_type", _TEXT),
    ]
)
TABLES_WITH_SCHEMA = TABLES.append(_required("table_schema", pa.binary()))
TABLE_TYPES = pa.schema([_required("table_type", _TEXT)])
PRIMARY_KEYS = pa.schema(
    [
        pa.field("catalog_name", _TEXT),
        pa.field("db_schema_name", _TEXT),
        _required("table_name", _TEXT),
        _required("column_name", _TEXT),
        pa.field("key_name", _TEXT),
        _required("key_sequence", _INT),
    ]
)
FOREIGN_KEYS = pa.schema(
    [
        pa.field("pk_catalog_name", _TEXT),
        pa.field("pk_db_schema_name", _TEXT),
        _required("pk_table_name", _TEXT),
        _required("pk_column_name", _TEXT),
        pa.field("fk_catalog_name", _TEXT),
        pa.field("fk_db_schema_name", _TEXT),
        _required("fk_table_name", _TEXT),
        _required("fk_column_name", _TEXT),
        _required("key_sequence", _INT),
        pa.field("fk_key_name", _TEXT),
        pa.field("pk_key_name", _TEXT),
        _required("update_rule", pa.uint8()),
        _required("delete_rule", pa.uint8()),
    ]
)
SQL_INFO_VALUE = pa.dense_union(
    [
        pa.field("string_value", _TEXT),
        pa.field("bool_value", pa.bool_()),
        pa.field("bigint_value", pa.int64()),
        pa.field("int32_bitmask", _INT),
        pa.field("string_list", pa.list_(pa.field("string_data", _TEXT))),
        pa.field("int32_to_int32_list_map", pa.map_(_INT, pa.list_(pa.field("$data$", _INT)))),
    ]
)
SQL_INFO = pa.schema([_required("info_name", pa.uint32()), pa.field("value", SQL_INFO_VALUE)])
TYPE_INFO = pa.schema(
    [
        _required("type_name", _TEXT),
        _required("data_type", _INT),
        pa.field("column_size", _INT),
        pa.field("literal_prefix", _TEXT),
        pa.field("literal_suffix", _TEXT),
        pa.field("create_params", pa.list_(_required("item", _TEXT))),
        _required("nullable", _INT),
        _required("case_sensitive", pa.bool_()),
        _required("searchable", _INT),
        pa.field("unsigned_attribute", pa.bool_()),
        _required("fixed_prec_scale", pa.bool_()),
        pa.field("auto_increment", pa.bool_()),
        pa.field("local_type_name", _TEXT),
        pa.field("minimum_scale", _INT),
        pa.field("maximum_scale", _INT),
        _required("sql_data_type", _INT),
        pa.field("datetime_subcode", _INT),
        pa.field("num_prec_radix", _INT),
        pa.field("interval_precision", _INT),
    ]
)


def answer_schema(command: MetadataCommand) -> pa.Schema:
    """Return the columns of the answer to a command."""
    match command:
        case GetCatalogs():
            return CATALOGS
        case GetDbSchemas():
            return DB_SCHEMAS
        case GetTables():
            return TABLES_WITH_SCHEMA if command.filters.include_schema else TABLES
        case GetTableTypes():
            return TABLE_TYPES
        case GetPrimaryKeys():
            return PRIMARY_KEYS
        case GetForeignKeys():
            return FOREIGN_KEYS
        case GetSqlInfo():
            return SQL_INFO
        case GetTypeInfo():
            return TYPE_INFO
        case _:
            assert_never(command)
