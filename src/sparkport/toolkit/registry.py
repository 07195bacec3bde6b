"""The catalogs of a server, by the names that clients attach."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from sparkport.catalog.tables import Catalog
from sparkport.errors import AlreadyExistsError, NotFoundError


@runtime_checkable
class CatalogSource(Protocol):
    """Catalogs with something running behind them, such as a `Lakehouse` with its Spark.

    It is started and stopped with the server that serves its catalogs.
    """

    @abstractmethod
    def catalogs(self, name: str) -> Mapping[str, Catalog]:
        """Return the catalogs to serve: the main one under `name`, others under names of their own."""
        raise NotImplementedError

    @abstractmethod
    def start(self) -> None:
        """Start what is behind the catalogs, and return at once."""
        raise NotImplementedError

    @abstractmethod
    def stop(self) -> None:
        """Stop it; called once, after the last call or when its catalog is dropped."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class _Entry:
    name: str
    catalog: Catalog
    source: CatalogSource | None


class Catalogs:
    """A set of named catalogs that may change while the server runs.

    Names are matched without regard to letter case. The empty name means the
    default catalog: the one named so, or the only one.
    """

    def __init__(
        self, catalogs: Mapping[str, Catalog | CatalogSource] | None = None, *, default: str = ""
    ) -> None:
        self._lock = threading.Lock()
        self._entries: dict[str, _Entry] = {}
        self._sources: list[CatalogSource] = []
        self._is_running = False
        self._default = default
        for name, catalog in (catalogs or {}).items():
            self.add(name, catalog)

    def set_default(self, name: str) -> None:
        """Let the empty name mean that catalog."""
        with self._lock:
            self._default = name

    def add(self, name: str, catalog: Catalog | CatalogSource) -> None:
        """Serve one more catalog, or all of a source. Raises AlreadyExistsError.

        A source is started at once if the server runs, else together with it.
        """
        if not name:
            raise ValueError("a catalog needs a name")
        source = catalog if isinstance(catalog, CatalogSource) else None
        added = source.catalogs(name) if source else {name: catalog}
        with self._lock:
            taken = next((key for key in added if key.lower() in self._entries), None)
            if taken is not None:
                raise AlreadyExistsError("catalog", taken)
            for key, each in added.items():
                assert isinstance(each, Catalog)
                self._entries[key.lower()] = _Entry(key, each, source)
        if source is not None:
            self.manage(source)

    def replace(self, name: str, catalog: Catalog) -> None:
        """Serve another catalog in the place of one, whose source stays. Raises NotFoundError."""
        with self._lock:
            entry = self._entries.get(name.lower())
            if entry is None:
                raise NotFoundError("catalog", name, self._names())
            self._entries[name.lower()] = _Entry(entry.name, catalog, entry.source)

    def manage(self, source: CatalogSource) -> None:
        """Start and stop a source with the server, also if its catalogs were added one by one."""
        with self._lock:
            self._sources.append(source)
            is_running = self._is_running
        if is_running:
            source.start()

    def drop(self, name: str) -> None:
        """Serve a catalog no longer; running calls finish. Raises NotFoundError.

        With the last catalog of a source the source is stopped, which ends its calls.
        """
        with self._lock:
            entry = self._entries.pop(name.lower(), None)
            if entry is None:
                raise NotFoundError("catalog", name, self._names())
            source = entry.source
            if source is None or any(other.source is source for other in self._entries.values()):
                return
            self._sources.remove(source)
        source.stop()

    def get(self, name: str) -> Catalog:
        """Return the catalog of that name. Raises NotFoundError."""
        with self._lock:
            entry = self._entries.get((name or self._default_name()).lower())
            if entry is None:
                raise NotFoundError("catalog", name, self._names())
            return entry.catalog

    def find(self, name: str) -> tuple[str, Catalog] | None:
        """Return the catalog of that name, or the default one, with its name; None if there is none."""
        with self._lock:
            entry = self._entries.get((name or self._default_name()).lower())
            return None if entry is None else (entry.name, entry.catalog)

    def items(self) -> list[tuple[str, Catalog]]:
        """Return all names with their catalogs."""
        with self._lock:
            return [(entry.name, entry.catalog) for entry in self._entries.values()]

    @property
    def default(self) -> str:
        """The name of the default catalog, or an empty text."""
        with self._lock:
            return self._default_name()

    def start(self) -> None:
        """Start all sources."""
        with self._lock:
            self._is_running = True
            sources = list(self._sources)
        for source in sources:
            source.start()

    def stop(self) -> None:
        """Stop all sources, the last one first."""
        with self._lock:
            self._is_running = False
            sources, self._sources = self._sources, []
        for source in reversed(sources):
            source.stop()

    def _default_name(self) -> str:
        if self._default:
            return self._default
        return self._names()[0] if len(self._entries) == 1 else ""

    def _names(self) -> list[str]:
        return [entry.name for entry in self._entries.values()]
