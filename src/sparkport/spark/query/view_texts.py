"""Views in the text of a query: each is replaced by its own query, until only tables are named."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sparkport.catalog.guards import GuardedTable, Privilege, unguarded
from sparkport.catalog.tables import Table
from sparkport.errors import InvalidRequestError, LimitExceededError, NotFoundError, PreconditionError
from sparkport.spark.query.placeholders import TOKEN
from sparkport.spark.query.renaming import rewritten
from sparkport.spark.query.tables import NamedTable
from sparkport.spark.table import DeltaTable
from sparkport.spark.views.definition import ViewDefinition
from sparkport.spark.views.table import ViewTable

_MAX_DEPTH = 32
_MAX_LENGTH = 1 << 20

Find = Callable[[tuple[str, ...]], Table]


def with_views_inside(
    sql: str,
    names_in: Callable[[str], Sequence[NamedTable]],
    find: Find,
    *,
    new: tuple[str, str] | None = None,
) -> tuple[str, dict[NamedTable, Table]]:
    """Return a query that names tables only, and these, as the caller may see them, by where they are named.

    `names_in` tells what a query names, `find` what a name means for the caller. `new` is the schema and name
    of a view that is to be made of the query. Raises InvalidRequestError for views that read themselves,
    LimitExceededError for too many, and PreconditionError for a view whose tables are gone.
    """
    inside: ViewDefinition | None = None
    for _ in range(_MAX_DEPTH):
        tables: dict[NamedTable, Table] = {}
        views: dict[NamedTable, ViewDefinition] = {}
        for named in names_in(sql):
            seen = _found(find, named, inside)
            if isinstance(table_behind(seen, named), DeltaTable):
                tables[named] = seen
                continue
            # With row filters or masks of its own it cannot be written out.
            whole = unguarded(seen, Privilege.SELECT)
            assert isinstance(whole, ViewTable)
            views[named] = whole.definition
        if not views:
            return sql, tables
        for named, view in views.items():
            if view.key == new:
                raise InvalidRequestError(f"view '{view}' would read itself")
            _check(sql, named, view)
        inside = next(iter(views.values()))
        sql = rewritten(sql, tuple(views), lambda named: views[named].subquery)  # noqa: B023  (called at once)
        if len(sql) > _MAX_LENGTH:
            raise LimitExceededError(
                f"the query has more than {_MAX_LENGTH} characters with its views written out"
            )
    raise InvalidRequestError(f"view '{inside}' reads itself, or views more than {_MAX_DEPTH} deep")


def table_behind(seen: Table, named: NamedTable) -> DeltaTable | ViewTable:
    """Return the table or view that a caller sees. Raises NotFoundError if no warehouse has it."""
    found = seen.behind if isinstance(seen, GuardedTable) else seen
    if not isinstance(found, DeltaTable | ViewTable):
        raise NotFoundError("table", ".".join(named.path))
    return found


def _found(find: Find, named: NamedTable, inside: ViewDefinition | None) -> Table:
    try:
        return find(named.path)
    except NotFoundError as error:
        if inside is None:
            raise
        raise PreconditionError(f"view '{inside}' cannot be read: {error}") from error


def _check(sql: str, named: NamedTable, view: ViewDefinition) -> None:
    """Make sure that a query can stand in the place of a name."""
    if named.is_versioned:
        raise InvalidRequestError(f"view '{view}' does not support time travel: it has no versions")
    before = [m.group() for m in TOKEN.finditer(sql[: named.start]) if not m.group().startswith(("--", "/*"))]
    if before and before[-1].upper() == "TABLE":
        raise InvalidRequestError(f"'{view}' is a view: write SELECT * FROM, not TABLE")
