"""Run CREATE, ALTER and DROP VIEW: a view is a query that is kept with the columns that it has now."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Protocol

from sparkport.catalog.call import Call
from sparkport.catalog.ddl import DynamicCatalog
from sparkport.catalog.guards import Privilege, check
from sparkport.catalog.lookup import find_schema
from sparkport.catalog.tables import Schema
from sparkport.errors import (
    AlreadyExistsError,
    InvalidRequestError,
    NotFoundError,
    NotImplementedByServerError,
    UnsupportedOperationError,
)
from sparkport.spark.delta.log.spark_fields import SparkField
from sparkport.spark.query.function import Plan
from sparkport.spark.query.placeholders import count_parameters
from sparkport.spark.statements.change_runs import Queries
from sparkport.spark.statements.definitions import kind_of
from sparkport.spark.statements.names import Names
from sparkport.spark.statements.tokens import text_of
from sparkport.spark.views.definition import ViewDefinition, named_fields
from sparkport.spark.views.store import ViewStore
from sparkport.spark.views.table import ViewTable
from sparkport.sql.tokens import Cursor

KINDS = frozenset({"CreateView", "CreateViewCommand", "AlterViewAs", "DropView"})
"""What Spark calls the statements that this module runs; it calls renaming a view and a table the same."""
_REFUSED = ("TBLPROPERTIES", "WITH", "PARTITIONED")

Columns = list[tuple[str, str | None]]
"""The names that a view gives to its columns, each with its comment."""


class DefinitionQueries(Queries, Protocol):
    """Runs the queries of definitions."""

    def for_view(self, call: Call, sql: str, view: tuple[str, str]) -> tuple[str, Sequence[SparkField]]:
        """Return the query of a view with the schema in the name of each table, and its columns."""
        raise NotImplementedError


class ViewRuns:
    """Makes, changes and drops the views of a warehouse."""

    def __init__(
        self,
        catalog: DynamicCatalog,
        store: ViewStore,
        changing: Callable[[Call], AbstractContextManager[None]],
    ) -> None:
        """Take `changing`, which gives a block in which nobody else makes or drops tables and views."""
        self._catalog = catalog
        self._store = store
        self._changing = changing

    def run(self, call: Call, queries: DefinitionQueries, names: Names, cursor: Cursor, plan: Plan) -> None:
        """Run one of the statements in `KINDS`."""
        match kind_of(plan):
            case "CreateView":
                self._create(call, queries, names, cursor, str(plan[0].get("comment") or ""))
            case "AlterViewAs":
                self._alter(call, queries, names, cursor)
            case "DropView":
                self._drop(call, names, cursor)
            case _:
                raise NotImplementedByServerError("temporary views are not offered: a client has no session")

    def rename(self, call: Call, names: Names, cursor: Cursor) -> None:
        """Run ALTER VIEW ... RENAME TO; the cursor is behind VIEW."""
        view = self._seen(names, cursor.names())
        cursor.expect("RENAME", "TO")
        name = cursor.names()
        cursor.end()
        if len(name) > 1:
            raise NotImplementedByServerError("a view stays in its schema: RENAME TO takes a name alone")
        check(call, Privilege.ALTER, *view.path)
        check(call, Privilege.CREATE, view.schema, name[0])
        with self._changing(call):
            renamed = replace(self._current(view), name=name[0])
            if renamed.key == view.key:
                self._store.replace(renamed)
                return
            self._check_no_table(call, renamed)
            # Should the server be killed in between, the view has both names.
            self._store.create(renamed)
            self._store.remove(view)

    def _create(
        self, call: Call, queries: DefinitionQueries, names: Names, cursor: Cursor, comment: str
    ) -> None:
        cursor.expect("CREATE")
        replaces = cursor.skip("OR", "REPLACE")
        cursor.expect("VIEW")
        if_not_exists = cursor.skip("IF", "NOT", "EXISTS")
        path = cursor.names()
        columns = _columns(cursor)
        _check_clauses(cursor)
        schema = self._schema(call, names, path)
        check(call, Privilege.CREATE, schema.name, path[-1])
        if replaces:
            check(call, Privilege.DROP, schema.name, path[-1])
        if if_not_exists and schema.table(call, path[-1]) is not None:
            return
        view = _defined(call, queries, (schema.name, path[-1]), cursor.rest(), columns, comment)
        with self._changing(call):
            self._check_no_table(call, view)
            if replaces:
                self._store.replace(view)
                return
            try:
                self._store.create(view)
            except AlreadyExistsError:
                if not if_not_exists:
                    raise

    def _alter(self, call: Call, queries: DefinitionQueries, names: Names, cursor: Cursor) -> None:
        cursor.expect("ALTER", "VIEW")
        old = self._seen(names, cursor.names())
        cursor.skip("AS")
        check(call, Privilege.ALTER, *old.path)
        view = _defined(call, queries, old.path, cursor.rest(), [], old.comment)
        with self._changing(call):
            self._current(old)
            self._store.replace(view)

    def _drop(self, call: Call, names: Names, cursor: Cursor) -> None:
        cursor.expect("DROP", "VIEW")
        if_exists = cursor.skip("IF", "EXISTS")
        path = cursor.names()
        cursor.end()
        try:
            view = self._seen(names, path)
        except NotFoundError:
            if if_exists:
                return
            raise
        check(call, Privilege.DROP, *view.path)
        with self._changing(call):
            self._store.remove(view)

    def _schema(self, call: Call, names: Names, path: tuple[str, ...]) -> Schema:
        """Return the schema of a new view, which the caller sees, with all that is in it."""
        return find_schema(call, self._catalog, names.schema(path[:-1]).name)

    def _seen(self, names: Names, path: tuple[str, ...]) -> ViewDefinition:
        found = names.table_or_view(path)
        if not isinstance(found, ViewTable):
            raise UnsupportedOperationError("table", str(found), "this statement, which is for views")
        return found.definition

    def _current(self, view: ViewDefinition) -> ViewDefinition:
        """Return a view as it is now. Raises NotFoundError if it was dropped meanwhile."""
        current = self._store.views().get(view.key)
        if current is None:
            raise NotFoundError("view", str(view))
        return current

    def _check_no_table(self, call: Call, view: ViewDefinition) -> None:
        existing = find_schema(call, self._catalog, view.schema).table(call, view.name)
        if existing is not None and not isinstance(existing, ViewTable):
            raise AlreadyExistsError("table", str(view))


def _defined(
    call: Call, queries: DefinitionQueries, path: tuple[str, str], sql: str, columns: Columns, comment: str
) -> ViewDefinition:
    if not path[1]:
        raise InvalidRequestError("a view needs a name")
    if count_parameters(sql):
        raise InvalidRequestError("the query of a view has no parameters")
    schema, name = path
    whole, fields = queries.for_view(call, sql, (schema.lower(), name.lower()))
    sources = tuple(field.name for field in fields)
    return ViewDefinition(schema, name, whole, sources, named_fields(fields, columns), comment)


def _columns(cursor: Cursor) -> Columns:
    """Read the names of columns in parentheses, each with its comment, if there are any."""
    columns: Columns = []
    if not cursor.skip("("):
        return columns
    while True:
        name = cursor.name()
        comment = None
        if cursor.skip("COMMENT"):
            comment = text_of(cursor)
        columns.append((name, comment))
        if not cursor.skip(","):
            cursor.expect(")")
            return columns


def _check_clauses(cursor: Cursor) -> None:
    """Go past what stands between the columns of a view and its query."""
    while not cursor.skip("AS"):
        if cursor.token is not None and cursor.token.is_word(*_REFUSED):
            raise NotImplementedByServerError(f"CREATE VIEW is not offered with {cursor.token.text.upper()}")
        cursor.at += 1
