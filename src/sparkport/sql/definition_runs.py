"""Run DDL: through the methods of the catalog."""

from __future__ import annotations

from contextlib import suppress
from typing import assert_never

from sparkport.arrow.conform import conform_batch
from sparkport.catalog.call import Call
from sparkport.catalog.ddl import (
    CreateSchemaOptions,
    CreateTableOptions,
    DropSchemaOptions,
    DropTableOptions,
    DynamicCatalog,
    DynamicSchema,
    DynamicTable,
    OnConflict,
)
from sparkport.catalog.dml import committed
from sparkport.catalog.tables import Schema
from sparkport.errors import (
    AlreadyExistsError,
    InvalidRequestError,
    NotFoundError,
    SparkportError,
    UnsupportedOperationError,
)
from sparkport.sql import syntax
from sparkport.sql.analysis import Analysis
from sparkport.sql.definitions import (
    AlterTable,
    CreateSchema,
    CreateTable,
    DropSchema,
    DropTable,
    parse_definition,
    read_columns,
)
from sparkport.toolkit import buffered


def run(analysis: Analysis) -> int:
    """Run a statement of DDL; return how many rows a CREATE TABLE AS has written, else 0."""
    call, names, catalog = analysis.call, analysis.names, analysis.catalog
    definition = parse_definition(analysis.database, analysis.statement.text)
    match definition:
        case CreateTable():
            return _create_table(analysis, definition)
        case DropTable():
            try:
                schema = _dynamic(names.schema(definition.name[:-1]), "DROP TABLE")
            except NotFoundError:
                if definition.if_exists:
                    return 0
                raise
            schema.drop_table(
                call, definition.name[-1], DropTableOptions(ignore_not_found=definition.if_exists)
            )
        case CreateSchema() | DropSchema():
            if not isinstance(catalog, DynamicCatalog):
                raise UnsupportedOperationError(
                    "catalog", analysis.statement.catalog, "CREATE and DROP SCHEMA"
                )
            _check_catalog(analysis, definition.name)
            _change_schema(call, catalog, definition)
        case AlterTable():
            try:
                table = names.table(definition.name).table
            except NotFoundError:
                if definition.if_exists:
                    return 0
                raise
            if not isinstance(table, DynamicTable):
                raise UnsupportedOperationError("table", table.name, "ALTER TABLE")
            table.alter(call, definition.change)
        case _:
            assert_never(definition)
    return 0


def _change_schema(call: Call, catalog: DynamicCatalog, definition: CreateSchema | DropSchema) -> None:
    name = definition.name[-1]
    if isinstance(definition, DropSchema):
        options = DropSchemaOptions(ignore_not_found=definition.if_exists, cascade=definition.cascade)
        catalog.drop_schema(call, name, options)
        return
    try:
        catalog.create_schema(call, name, CreateSchemaOptions())
    except AlreadyExistsError:
        if not definition.if_not_exists:
            raise


def _check_catalog(analysis: Analysis, name: tuple[str, ...]) -> None:
    known = analysis.statement.catalog
    if len(name) > 1 and name[0].lower() != known.lower():
        raise NotFoundError("catalog", name[0], [known])


def _create_table(analysis: Analysis, definition: CreateTable) -> int:
    call = analysis.call
    schema = _dynamic(analysis.names.schema(definition.name[:-1]), "CREATE TABLE")
    name = definition.name[-1]
    if not definition.query:
        arrow_schema, options = read_columns(analysis.database, definition)
        schema.create_table(call, name, arrow_schema, options)
        return 0
    if definition.on_conflict is not OnConflict.ERROR:
        exists = schema.table(call, name) is not None
        if exists and definition.on_conflict is OnConflict.IGNORE:
            return 0
        if exists:
            raise InvalidRequestError("CREATE OR REPLACE TABLE ... AS is not offered: drop the table first")
    return _create_table_as(analysis, schema, name, definition.query)


def _create_table_as(analysis: Analysis, schema: DynamicSchema, name: str, query: str) -> int:
    """Create a table with the rows of a query; drop it again if they fail."""
    call = analysis.call
    tree = syntax.parse_query(analysis.database, query)
    analysis.binding.bind(tree)
    reader = analysis.database.execute(query)
    columns = reader.schema
    table = schema.create_table(call, name, columns, CreateTableOptions())
    try:
        statement = buffered.begin_insert(call, table, returning=False)
        with committed(analysis.call, statement) as outcome:
            for batch in call.checked(reader):
                statement.write(conform_batch(batch, columns))
    except BaseException:
        with suppress(SparkportError):  # the first error tells more
            schema.drop_table(call.detached(), name, DropTableOptions(ignore_not_found=True))
        raise
    return outcome.affected_rows


def _dynamic(schema: Schema, operation: str) -> DynamicSchema:
    if not isinstance(schema, DynamicSchema):
        raise UnsupportedOperationError("schema", schema.name, operation)
    return schema
