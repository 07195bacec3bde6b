"""The tables that queries name: which folder each name stands for while queries are analysed."""

from __future__ import annotations

import contextlib
import hashlib
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sparkport.catalog.call import Call
from sparkport.errors import InvalidRequestError

Key = tuple[str, str]
Settings = tuple[tuple[str, str], ...]
"""Settings of a Spark session by their names, in the order of these."""
_PLAIN = re.compile(r"\w+", re.ASCII)
_OTHER = "named_"


@dataclass(frozen=True, slots=True)
class NamedTable:
    """A table as a query names it: with `is_versioned` at a version or time that the query gives too.

    `start` and `stop` are the first and last character of the name in the text.
    """

    path: tuple[str, ...]
    start: int
    stop: int
    is_versioned: bool = False


@dataclass(frozen=True, slots=True)
class QueryTable:
    """A table that a query may read; `table_id` tells it from others that were in its folder before.

    With `is_private` the folder has a log for one transaction.
    """

    schema: str
    name: str
    root: str
    table_id: str
    is_private: bool = False

    @property
    def key(self) -> Key:
        """The name that the table has in Spark, as Spark compares it."""
        return _plain(self.schema), _plain(self.name)


@dataclass(frozen=True, slots=True)
class BoundQuery:
    """A query with the tables that its names stand for, and the settings of its session.

    `versions` are the newest ones of the tables when the query came.
    """

    sql: str
    tables: tuple[QueryTable, ...] = ()
    settings: Settings = ()
    versions: tuple[int, ...] = ()


@dataclass(slots=True)
class _Use:
    """A name that analyses use now, all for the same table."""

    table: QueryTable
    count: int = 0
    binding: threading.Lock = field(default_factory=threading.Lock)


class TableBindings:
    """Keeps each name bound to one table for as long as an analysis uses it.

    Analyses run side by side. One waits only for those that use one of its names for another table: a table
    that was replaced, or that differs in letter case, which Spark takes for the same.
    """

    def __init__(self, bind: Callable[[QueryTable], None]) -> None:
        """`bind` lets a name stand for a table, whatever it stood for before."""
        self._bind = bind
        self._bound: dict[Key, QueryTable] = {}
        self._uses: dict[Key, _Use] = {}
        self._changed = threading.Condition()

    @contextlib.contextmanager
    def bind(self, call: Call, tables: Sequence[QueryTable]) -> Iterator[None]:
        """Bind the names of these tables while a block runs; wait for that as long as the call lives."""
        named = _by_name(tables)
        uses = self._enter(call, named)
        try:
            for use in uses:
                with call.holding(use.binding):
                    self._ensure_bound(use.table)
            yield
        finally:
            self._leave(uses)

    def _enter(self, call: Call, named: Mapping[Key, QueryTable]) -> list[_Use]:
        with self._changed:
            # All at once or none: two analyses never wait for each other.
            call.wait_for(self._changed, lambda: all(map(self._is_free, named.values())))
            uses = [self._uses.setdefault(key, _Use(table)) for key, table in named.items()]
            for use in uses:
                use.count += 1
            return uses

    def _leave(self, uses: Sequence[_Use]) -> None:
        with self._changed:
            for use in uses:
                use.count -= 1
                if not use.count:
                    del self._uses[use.table.key]
            self._changed.notify_all()

    def _is_free(self, table: QueryTable) -> bool:
        use = self._uses.get(table.key)
        return use is None or use.table == table

    def _ensure_bound(self, table: QueryTable) -> None:
        if self._bound.get(table.key) != table:
            # Should it fail half way, the name stands for neither table.
            self._bound.pop(table.key, None)
            self._bind(table)
            self._bound[table.key] = table


def is_plain_name(name: str) -> bool:
    """Return whether Spark's own catalog takes a name: one of letters, digits and _ alone."""
    return _PLAIN.fullmatch(name) is not None


def _plain(name: str) -> str:
    """Return a name that Spark's own catalog takes."""
    if is_plain_name(name):
        return name.lower()
    return f"{_OTHER}{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def _by_name(tables: Sequence[QueryTable]) -> dict[Key, QueryTable]:
    named: dict[Key, QueryTable] = {}
    for table in tables:
        other = named.setdefault(table.key, table)
        if other != table:
            raise InvalidRequestError(
                f"query cannot tell '{other.schema}.{other.name}' and '{table.schema}.{table.name}' apart:"
                " Spark ignores letter case"
            )
    return named
