"""The catalogs of a server, by the names that clients attach."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from sparkport.catalog.tables import Catalog
from sparkport.errors import AlreadyExistsError, NotFoundError


class Catalogs:
    """A set of named catalogs that may change while the server runs.

    Names are matched without regard to letter case. The empty name means the
    default catalog: the one named so, or the only one there is.
    """

    def __init__(self, catalogs: Mapping[str, Catalog] | None = None, *, default: str = "") -> None:
        self._lock = threading.Lock()
        self._catalogs: dict[str, tuple[str, Catalog]] = {}
        self._default = default
        for name, catalog in (catalogs or {}).items():
            self.add(name, catalog)

    def set_default(self, name: str) -> None:
        """Let the empty name mean that catalog."""
        with self._lock:
            self._default = name

    def add(self, name: str, catalog: Catalog) -> None:
        """Serve one more catalog. Raises AlreadyExistsError."""
        if not name:
            raise ValueError("a catalog needs a name")
        with self._lock:
            if name.lower() in self._catalogs:
                raise AlreadyExistsError("catalog", name)
            self._catalogs[name.lower()] = (name, catalog)

    def drop(self, name: str) -> None:
        """Serve a catalog no longer; running calls finish. Raises NotFoundError."""
        with self._lock:
            if self._catalogs.pop(name.lower(), None) is None:
                raise NotFoundError("catalog", name, self._names())

    def get(self, name: str) -> Catalog:
        """Return the catalog of that name. Raises NotFoundError."""
        with self._lock:
            found = self._catalogs.get((name or self._default_name()).lower())
            if found is None:
                raise NotFoundError("catalog", name, self._names())
            return found[1]

    def items(self) -> list[tuple[str, Catalog]]:
        """Return all names with their catalogs."""
        with self._lock:
            return list(self._catalogs.values())

    @property
    def default(self) -> str:
        """The name of the default catalog, or an empty text."""
        with self._lock:
            return self._default_name()

    def _default_name(self) -> str:
        if self._default:
            return self._default
        return self._names()[0] if len(self._catalogs) == 1 else ""

    def _names(self) -> list[str]:
        return [name for name, _ in self._catalogs.values()]
