"""A cache of encoded catalog listings."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from sparkport.catalog.tables import Catalog, CatalogVersion

_MAX_LISTINGS = 64


@dataclass(frozen=True, slots=True)
class _Listing:
    catalog: Catalog
    version: CatalogVersion
    data: bytes


class ListingCache:
    """Keeps the newest listing of each catalog, apart for everyone who sees another one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listings: OrderedDict[Hashable, _Listing] = OrderedDict()

    def get(
        self, key: Hashable, catalog: Catalog, version: CatalogVersion, make: Callable[[], bytes]
    ) -> bytes:
        """Return the listing under the key, made anew if it is of another catalog or version."""
        with self._lock:
            found = self._listings.get(key)
            # Compared by identity: a dropped and re-added name is another catalog, and
            # a user's catalog need not be hashable.
            if found is not None and found.catalog is catalog and found.version == version:
                self._listings.move_to_end(key)
                return found.data
        made = _Listing(catalog, version, make())
        with self._lock:
            self._listings[key] = made
            self._listings.move_to_end(key)
            while len(self._listings) > _MAX_LISTINGS:
                self._listings.popitem(last=False)
        return made.data
