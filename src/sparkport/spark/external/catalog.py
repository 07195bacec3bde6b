"""Other catalogs of the Spark session: the session's own, a Hive metastore, Unity, Iceberg, JDBC."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

from sparkport.catalog.call import Call
from sparkport.catalog.functions import ScalarFunction, TableFunction
from sparkport.catalog.tables import CatalogVersion, Schema, Table, VersionedCatalog
from sparkport.spark.engine import Engine
from sparkport.spark.external import iceberg
from sparkport.spark.external.iceberg import IcebergTable
from sparkport.spark.external.listing import SessionListing
from sparkport.spark.external.relations import Relation, Unreadable
from sparkport.spark.external.show_commands import Namespace
from sparkport.spark.external.table import NamedDeltaTable, SessionTable
from sparkport.spark.session.settings import SparkSettings

SESSION_CATALOG = "spark_catalog"
_PREFIX = "spark.sql.catalog."


def catalog_names(settings: SparkSettings) -> tuple[str, ...]:
    """Return the names of the catalogs that the settings configure.

    The session's own is among them where it can hold more than the warehouse: with a Hive
    metastore, in a Spark Connect server, or if the settings name it.
    """
    named = {key.removeprefix(_PREFIX) for key in settings.conf if key.startswith(_PREFIX)}
    hive = settings.conf.get("spark.sql.catalogImplementation", "").lower() == "hive"
    if hive or settings.is_connect:
        named.add(SESSION_CATALOG)
    return tuple(sorted(name for name in named if name and "." not in name))


class SessionCatalog(VersionedCatalog):
    """A catalog that Spark knows by name, to be read only.

    Spark is asked for everything, so the first call waits for it.
    """

    def __init__(self, name: str, engine: Engine, *, clock: Callable[[], float] = time.time) -> None:
        self.name = name
        self.engine = engine
        self.listing = SessionListing(name, engine, clock=clock)

    def schemas(self, call: Call) -> Sequence[Schema]:
        """Return all namespaces, the nested ones too."""
        return [SessionSchema(namespace, self) for namespace in self.listing.namespaces(call).values()]

    def schema(self, call: Call, name: str) -> Schema | None:
        """Return the schema of that name, in any letter case, or None."""
        for fresh in (False, True):
            known = self.listing.namespaces(call, fresh=fresh)
            found = _same(name, known)
            if found is not None:
                return SessionSchema(known[found], self)
        return None

    def catalog_version(self, call: Call) -> CatalogVersion:
        """Return a number that rises when a table comes, goes or changes; for Delta tables, with the rows."""
        return CatalogVersion(self.listing.version(call))


class SessionSchema(Schema):
    """A namespace."""

    def __init__(self, namespace: Namespace, catalog: SessionCatalog) -> None:
        self._namespace = namespace
        self._catalog = catalog

    @property
    def name(self) -> str:
        """The schema's name."""
        return self._namespace.name

    @property
    def comment(self) -> str:
        """The schema's documentation."""
        return self._namespace.comment

    def tables(self, call: Call) -> Sequence[Table]:
        """Return all tables and views that can be read; asking for another tells what is wrong with it."""
        paths = [self._path(table) for table in self._tables(call)]
        found = self._catalog.listing.relations(call, paths).values()
        return [self._table(relation) for relation in found if isinstance(relation, Relation)]

    def table(self, call: Call, name: str) -> Table | None:
        """Return the table or view of that name, in any letter case, or None."""
        for fresh in (False, True):
            found = _same(name, self._tables(call, fresh=fresh))
            if found is None:
                continue
            path = self._path(found)
            match self._catalog.listing.relations(call, [path], fresh=fresh)[path]:
                case Relation() as relation:
                    return self._table(relation)
                case Unreadable() as unreadable if fresh:
                    raise unreadable.error()
        return None

    def scalar_functions(self, call: Call) -> Sequence[ScalarFunction]:
        """Return no functions."""
        call.check()
        return ()

    def table_functions(self, call: Call) -> Sequence[TableFunction]:
        """Return no functions."""
        call.check()
        return ()

    def _tables(self, call: Call, *, fresh: bool = False) -> Sequence[str]:
        known = self._catalog.listing.namespaces(call, fresh=fresh).get(self.name)
        return known.tables if known else ()

    def _path(self, table: str) -> tuple[str, ...]:
        return (self._catalog.name, *self._namespace.parts, table)

    def _table(self, relation: Relation) -> Table:
        if relation.root is not None:
            return NamedDeltaTable(relation, self._catalog.engine)
        if relation.provider == iceberg.PROVIDER:
            return IcebergTable(relation, self._catalog.engine)
        return SessionTable(relation, self._catalog.engine)


def _same(name: str, known: Iterable[str]) -> str | None:
    """Return the known name, else the one that differs in letter case only."""
    names = list(known)
    return name if name in names else next((other for other in names if other.lower() == name.lower()), None)
