"""One statement in one database: its tables bound, its syntax checked."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from sparkport.catalog.call import Call
from sparkport.catalog.sql import SqlDescription, SqlStatement
from sparkport.catalog.tables import Catalog
from sparkport.sql import syntax
from sparkport.sql.binding import Binding
from sparkport.sql.database import Database
from sparkport.sql.exact_types import exact_schema
from sparkport.sql.names import Names
from sparkport.sql.parameters import parameter_schema, value_rows
from sparkport.sql.syntax import Tree
from sparkport.sql.tokens import Cursor, tokenize

_EXPLAINED = pa.schema([("explain_key", pa.string()), ("explain_value", pa.string())])


@dataclass(frozen=True, slots=True)
class Query:
    """A query whose tables are bound."""

    tree: Tree
    parameters: pa.Schema
    is_explained: bool = False


class Analysis:
    """What the parts of a statement mean, in a database that is the statement's alone."""

    def __init__(
        self,
        database: Database,
        call: Call,
        catalog: Catalog,
        statement: SqlStatement,
        *,
        with_rows: bool,
    ) -> None:
        self.database = database
        self.call = call
        self.catalog = catalog
        self.statement = statement
        self.names = Names(call, catalog, statement)
        self.binding = Binding(database, self.names, with_rows=with_rows)

    def query(self) -> Query:
        """Return the statement as a query whose tables are bound, without its EXPLAIN."""
        text = self.statement.text
        cursor = Cursor(text, tokenize(text))
        is_explained = cursor.skip("EXPLAIN")
        if is_explained:
            cursor.skip("ANALYZE")
            text = cursor.rest()
        tree = syntax.parse_query(self.database, text)
        self.binding.bind(tree)
        return Query(tree, parameter_schema(tree, self.column_types()), is_explained)

    def describe_query(self, parameters: pa.RecordBatch | None) -> SqlDescription:
        """Return the columns of the statement, which has to be a query."""
        query = self.query()
        if query.is_explained:
            return SqlDescription(_EXPLAINED, query.parameters)
        if parameters is None or not parameters.num_rows:
            values: list[object] = [None] * len(query.parameters)
        else:
            values = value_rows(parameters.slice(0, 1), len(query.parameters))[0]
        wrapped = f"SELECT * FROM (\n{_without_semicolon(self.statement.text)}\n) LIMIT 0"
        produced = self.database.execute(wrapped, values).table().schema
        return SqlDescription(exact_schema(query.tree, produced, self.binding.tables), query.parameters)

    def column_types(self) -> dict[str, pa.DataType]:
        """Return the types of the columns of all tables that are bound, by their lower-case names."""
        return {
            field.name.lower(): field.type for columns in self.binding.tables.values() for field in columns
        }


def _without_semicolon(text: str) -> str:
    cursor = Cursor(text, tokenize(text))
    return cursor.rest()
