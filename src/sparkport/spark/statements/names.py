"""Names in statements: which schema or table of the warehouse each means."""

from __future__ import annotations

from dataclasses import dataclass

from sparkport.catalog.call import Call
from sparkport.catalog.ddl import DynamicCatalog, RevertibleSchema
from sparkport.catalog.guards import Privilege, unguarded, view_of
from sparkport.catalog.lookup import find_schema, find_table
from sparkport.catalog.sql import SqlStatement
from sparkport.catalog.tables import Table
from sparkport.errors import NotFoundError, UnsupportedOperationError
from sparkport.spark.table import DeltaTable
from sparkport.spark.views.table import ViewTable
from sparkport.spark.warehouse.listing import DEFAULT_SCHEMA

_SPARK_CATALOG = "spark_catalog"


@dataclass(frozen=True, slots=True)
class Names:
    """Looks up what the names in a statement mean."""

    call: Call
    catalog: DynamicCatalog
    statement: SqlStatement

    def schema_name(self, path: tuple[str, ...]) -> str:
        """Return the schema of a path: none, a schema, or a catalog and a schema. Raises NotFoundError."""
        match path:
            case ():
                return self.statement.schema or DEFAULT_SCHEMA
            case (schema,):
                return schema
            case (catalog, schema) if catalog.lower() in {_SPARK_CATALOG, self.statement.catalog.lower()}:
                return schema
            case _:
                raise NotFoundError("schema", ".".join(path), [self.statement.catalog])

    def schema(self, path: tuple[str, ...]) -> RevertibleSchema:
        """Return the schema that the qualifiers of a name mean. Raises NotFoundError."""
        schema = find_schema(self.call, view_of(self.call, self.catalog), self.schema_name(path))
        if not isinstance(schema, RevertibleSchema):
            raise UnsupportedOperationError("schema", schema.name, "CREATE TABLE")
        return schema

    def table(self, path: tuple[str, ...], *privileges: Privilege) -> DeltaTable:
        """Return the table of a name with its qualifiers, if the caller may do all of this to all of it.

        Raises NotFoundError and PermissionDeniedError, and UnsupportedOperationError for a view.
        """
        found = self.table_or_view(path, *privileges)
        if isinstance(found, ViewTable):
            raise UnsupportedOperationError("view", str(found), "this statement, which is for tables")
        return found

    def table_or_view(self, path: tuple[str, ...], *privileges: Privilege) -> DeltaTable | ViewTable:
        """Return the table or view of a name with its qualifiers, if the caller may do all of this to it.

        Raises NotFoundError and PermissionDeniedError.
        """
        found = unguarded(self.seen_table(path), *privileges)
        return found if isinstance(found, ViewTable) else delta_table(found, path)

    def seen_table(self, path: tuple[str, ...]) -> Table:
        """Return the table of a name with its qualifiers as the caller may see it. Raises NotFoundError."""
        return find_table(self.call, self.schema(path[:-1]), path[-1])


def delta_table(table: Table, path: tuple[str, ...]) -> DeltaTable:
    """Return a table as one of the warehouse. Raises NotFoundError for one that is not in it."""
    if not isinstance(table, DeltaTable):
        raise NotFoundError("table", ".".join(path))
    return table
