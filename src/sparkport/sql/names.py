"""Names in statements: which table of the catalog each means."""

from __future__ import annotations

from dataclasses import dataclass

from sparkport.catalog.call import Call
from sparkport.catalog.lookup import find_schema, find_table, only_schema
from sparkport.catalog.sql import SqlStatement
from sparkport.catalog.tables import Catalog, Schema, Table
from sparkport.errors import InvalidRequestError, NotFoundError

_DEFAULT_SCHEMAS = ("default", "main")


@dataclass(frozen=True, slots=True)
class Named:
    """A table and its schema, as the catalog spells them."""

    schema: Schema
    table: Table


@dataclass(frozen=True, slots=True)
class Names:
    """Looks up what the names in a statement mean."""

    call: Call
    catalog: Catalog
    statement: SqlStatement

    def schema(self, names: tuple[str, ...]) -> Schema:
        """Return the schema that the qualifiers of a name mean: none, a schema, or a catalog and a schema."""
        match names:
            case ():
                return self.default_schema()
            case (schema,):
                return find_schema(self.call, self.catalog, schema)
            case (catalog, schema) if catalog.lower() == self.statement.catalog.lower():
                return find_schema(self.call, self.catalog, schema)
            case (catalog, _):
                raise NotFoundError("catalog", catalog, [self.statement.catalog])
            case _:
                raise InvalidRequestError(f"the name {'.'.join(names)} has too many parts")

    def table(self, names: tuple[str, ...]) -> Named:
        """Return the table of a name with its qualifiers. Raises NotFoundError."""
        schema = self.schema(names[:-1])
        return Named(schema, find_table(self.call, schema, names[-1]))

    def default_schema(self) -> Schema:
        """Return the schema of names without one: the session's, `default`, `main`, or the only one."""
        if self.statement.schema:
            return find_schema(self.call, self.catalog, self.statement.schema)
        schemas = list(self.catalog.schemas(self.call))
        for name in _DEFAULT_SCHEMAS:
            named = next((schema for schema in schemas if schema.name.lower() == name), None)
            if named is not None:
                return named
        only = only_schema(schemas)
        if only is not None:
            return only
        raise InvalidRequestError("the statement must name the schema of its tables: schema.table")


def quoted(*names: str) -> str:
    """Return names as they are written in SQL, whatever they contain."""
    return ".".join('"' + name.replace('"', '""') + '"' for name in names)
