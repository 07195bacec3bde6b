"""What stands between one caller and the catalogs of a server."""

from __future__ import annotations

from sparkport.access.catalogs import guarded_catalog
from sparkport.access.decisions import Rights
from sparkport.access.rules import Kind
from sparkport.access.scope import Scope
from sparkport.catalog.guards import Privilege
from sparkport.catalog.tables import Catalog
from sparkport.toolkit.bounded_cache import BoundedCache

_MAX_CATALOGS = 1000


class Guard:
    """Shows catalogs as one caller may see them, by one state of the access file."""

    def __init__(self, rights: Rights, generation: int) -> None:
        """Guard by these rights; with the `generation` of the file the versions of catalogs rise."""
        self.rights = rights
        self._generation = generation
        self._catalogs: BoundedCache[str, tuple[Catalog, Catalog]] = BoundedCache(_MAX_CATALOGS)

    def shows(self, catalog: str) -> bool:
        """Return whether a catalog exists for the caller."""
        return self.rights.show(Kind.CATALOG, (catalog,))

    def catalog(self, name: str, catalog: Catalog) -> Catalog:
        """Return a catalog as the caller may see it; the same object each time."""
        known = self._catalogs.get(name)
        if known is None or known[0] is not catalog:
            known = catalog, guarded_catalog(catalog, Scope(self.rights, name, self._generation))
            self._catalogs.put(name, known)
        return known[1]

    def administers(self, catalog: str) -> bool:
        """Return whether the caller is an administrator of a catalog."""
        return self.rights.allow(Privilege.ADMIN, Kind.CATALOG, (catalog,))

    def runs_action(self, name: str) -> bool:
        """Return whether an action of the user's own exists for the caller, who may then run it."""
        return self.rights.allow(Privilege.EXECUTE, Kind.ACTION, (name,))
