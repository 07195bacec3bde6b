"""What Flight SQL's metadata commands ask for beyond catalogs, schemas and tables."""

from __future__ import annotations

from contextlib import suppress
from importlib.metadata import version

import pyarrow as pa

from sparkport.catalog.call import Call
from sparkport.catalog.ddl import DynamicCatalog
from sparkport.catalog.sql import SqlCatalog
from sparkport.catalog.tables import Catalog, ConstrainedTable, Schema, Table
from sparkport.catalog.transactions import TransactionalCatalog, offers_staged_sql
from sparkport.errors import NotFoundError
from sparkport.flight.context import ServerContext
from sparkport.flight.presentation.catalog_listing import list_each
from sparkport.flight.presentation.patterns import ESCAPE
from sparkport.flight.request import Request
from sparkport.protocol.flight_sql import info
from sparkport.protocol.flight_sql import result_schemas as sql_schemas
from sparkport.protocol.flight_sql import type_info as sql_types
from sparkport.protocol.flight_sql.commands import GetForeignKeys, GetPrimaryKeys, GetSqlInfo, GetTypeInfo
from sparkport.protocol.flight_sql.info import Ordinal, SqlInfo

_CASE_INSENSITIVE = Ordinal(1)
_NULLS_LOW, _NULLS_AT_END = Ordinal(1), Ordinal(3)
_ALL_GROUP_BY = Ordinal(0b11)
_ALL_GRAMMAR = Ordinal(0b111)
_ENTRY_LEVEL = Ordinal(0b1)
_ALL_SUBQUERIES = Ordinal(0b1111)
_ALL_UNIONS = Ordinal(0b11)
_FULL_OUTER_JOINS = Ordinal(2)
_NO_TRANSACTIONS, _TRANSACTIONS = Ordinal(0), Ordinal(1)
_ISOLATION_NONE, _REPEATABLE_READ = Ordinal(0), Ordinal(3)
_FORWARD_ONLY = Ordinal(1 << 1)


def primary_keys(context: ServerContext, request: Request, command: GetPrimaryKeys) -> pa.Table:
    """List the columns of primary keys."""
    rows: list[dict[str, object]] = []
    catalogs = [
        (name, catalog)
        for name, catalog in context.visible_catalogs(request.call)
        if command.catalog is None or command.catalog.lower() == name.lower()
    ]

    def find(catalog: Catalog) -> list[tuple[Schema, Table]]:
        return _tables(request.call, catalog, command)

    for catalog, found in list_each(catalogs, find):
        for schema, table in found:
            with suppress(NotFoundError):  # dropped in the meantime
                key = table.constraints.primary_key if isinstance(table, ConstrainedTable) else ()
                rows += [
                    {
                        "catalog_name": catalog,
                        "db_schema_name": schema.name,
                        "table_name": table.name,
                        "column_name": column,
                        "key_sequence": position,
                    }
                    for position, column in enumerate(key, 1)
                ]
    return pa.Table.from_pylist(rows, sql_schemas.PRIMARY_KEYS)


def foreign_keys(context: ServerContext, request: Request, command: GetForeignKeys) -> pa.Table:
    """Return no rows: tables have no foreign keys."""
    del context, request, command
    return sql_schemas.FOREIGN_KEYS.empty_table()


def type_info(context: ServerContext, request: Request, command: GetTypeInfo) -> pa.Table:
    """List the types of SQL."""
    del context, request
    return sql_types.type_info(command.data_type)


def sql_info(context: ServerContext, request: Request, command: GetSqlInfo) -> pa.Table:
    """Tell what the default catalog can do."""
    catalog = context.catalog(request, "")
    facts = _about_server(catalog) | {SqlInfo.SERVER_SQL: context.offers_sql}
    return info.encode(facts | _about_sql(catalog) | _ABOUT_NAMES, command.ids)


def _about_server(catalog: Catalog) -> dict[int, info.Value]:
    can_create = isinstance(catalog, DynamicCatalog)
    return {
        SqlInfo.SERVER_NAME: "sparkport",
        SqlInfo.SERVER_VERSION: version("sparkport"),
        SqlInfo.SERVER_ARROW_VERSION: pa.__version__,
        SqlInfo.SERVER_READ_ONLY: not can_create,
        SqlInfo.SERVER_SUBSTRAIT: False,
        SqlInfo.SERVER_TRANSACTION: _TRANSACTIONS if _has_transactions(catalog) else _NO_TRANSACTIONS,
        SqlInfo.SERVER_CANCEL: True,
        SqlInfo.SERVER_BULK_INGESTION: can_create,
        SqlInfo.SERVER_INGEST_TRANSACTIONS_SUPPORTED: _has_transactions(catalog),
        SqlInfo.SERVER_STATEMENT_TIMEOUT: Ordinal(0),
    }


def _about_sql(catalog: Catalog) -> dict[int, info.Value]:
    has_own_sql = isinstance(catalog, SqlCatalog)
    can_define = isinstance(catalog, DynamicCatalog) and not has_own_sql
    isolation = _REPEATABLE_READ if _has_transactions(catalog) else _ISOLATION_NONE
    return {
        SqlInfo.DDL_CATALOG: False,
        SqlInfo.DDL_SCHEMA: can_define,
        SqlInfo.DDL_TABLE: can_define,
        SqlInfo.IDENTIFIER_QUOTE_CHAR: "`" if has_own_sql else '"',
        SqlInfo.NULL_ORDERING: _NULLS_LOW if has_own_sql else _NULLS_AT_END,
        SqlInfo.BATCH_UPDATES_SUPPORTED: can_define,
        SqlInfo.DEFAULT_TRANSACTION_ISOLATION: isolation,
        SqlInfo.TRANSACTIONS_SUPPORTED: _has_transactions(catalog),
        SqlInfo.SUPPORTED_TRANSACTIONS_ISOLATION_LEVELS: Ordinal(1 << isolation.value),
        SqlInfo.DATA_DEFINITION_CAUSES_TRANSACTION_COMMIT: False,
        SqlInfo.DATA_DEFINITIONS_IN_TRANSACTIONS_IGNORED: False,
    }


_ABOUT_NAMES: dict[int, info.Value] = {
    SqlInfo.IDENTIFIER_CASE: _CASE_INSENSITIVE,
    SqlInfo.QUOTED_IDENTIFIER_CASE: _CASE_INSENSITIVE,
    SqlInfo.ALL_TABLES_ARE_SELECTABLE: True,
    SqlInfo.SEARCH_STRING_ESCAPE: ESCAPE,
    SqlInfo.EXTRA_NAME_CHARACTERS: "",
    SqlInfo.SUPPORTS_COLUMN_ALIASING: True,
    SqlInfo.NULL_PLUS_NULL_IS_NULL: True,
    SqlInfo.SUPPORTS_TABLE_CORRELATION_NAMES: True,
    SqlInfo.SUPPORTS_DIFFERENT_TABLE_CORRELATION_NAMES: False,
    SqlInfo.SUPPORTS_EXPRESSIONS_IN_ORDER_BY: True,
    SqlInfo.SUPPORTS_ORDER_BY_UNRELATED: True,
    SqlInfo.SUPPORTED_GROUP_BY: _ALL_GROUP_BY,
    SqlInfo.SUPPORTS_LIKE_ESCAPE_CLAUSE: True,
    SqlInfo.SUPPORTS_NON_NULLABLE_COLUMNS: True,
    SqlInfo.SUPPORTED_GRAMMAR: _ALL_GRAMMAR,
    SqlInfo.ANSI92_SUPPORTED_LEVEL: _ENTRY_LEVEL,
    SqlInfo.SUPPORTS_INTEGRITY_ENHANCEMENT_FACILITY: False,
    SqlInfo.OUTER_JOINS_SUPPORT_LEVEL: _FULL_OUTER_JOINS,
    SqlInfo.SCHEMA_TERM: "schema",
    SqlInfo.PROCEDURE_TERM: "",
    SqlInfo.CATALOG_TERM: "catalog",
    SqlInfo.CATALOG_AT_START: True,
    SqlInfo.SCHEMAS_SUPPORTED_ACTIONS: Ordinal(0),
    SqlInfo.CATALOGS_SUPPORTED_ACTIONS: Ordinal(0),
    SqlInfo.SUPPORTED_POSITIONED_COMMANDS: Ordinal(0),
    SqlInfo.SELECT_FOR_UPDATE_SUPPORTED: False,
    SqlInfo.STORED_PROCEDURES_SUPPORTED: False,
    SqlInfo.SUPPORTED_SUBQUERIES: _ALL_SUBQUERIES,
    SqlInfo.CORRELATED_SUBQUERIES_SUPPORTED: True,
    SqlInfo.SUPPORTED_UNIONS: _ALL_UNIONS,
    SqlInfo.SUPPORTED_RESULT_SET_TYPES: _FORWARD_ONLY,
    SqlInfo.SAVEPOINTS_SUPPORTED: False,
    SqlInfo.NAMED_PARAMETERS_SUPPORTED: False,
    SqlInfo.LOCATORS_UPDATE_COPY: False,
    SqlInfo.STORED_FUNCTIONS_USING_CALL_SYNTAX_SUPPORTED: False,
}


def _has_transactions(catalog: Catalog) -> bool:
    return isinstance(catalog, TransactionalCatalog) and offers_staged_sql(catalog.transactions)


def _tables(call: Call, catalog: Catalog, command: GetPrimaryKeys) -> list[tuple[Schema, Table]]:
    return [
        (schema, table)
        for schema in catalog.schemas(call)
        if command.schema is None or command.schema.lower() == schema.name.lower()
        for table in schema.tables(call)
        if table.name.lower() == command.table.lower()
    ]
