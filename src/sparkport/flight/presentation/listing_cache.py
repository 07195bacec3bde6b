"""A cache of encoded catalog listings."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass

from sparkport.catalog.measures import MEASURES
from sparkport.catalog.tables import Catalog, CatalogVersion
from sparkport.toolkit.bounded_cache import BoundedCache

_MAX_LISTINGS = 64


@dataclass(frozen=True, slots=True)
class _Listing:
    catalog: Catalog
    version: CatalogVersion
    data: bytes


class ListingCache:
    """Keeps the newest listing of each catalog, by catalog and caller."""

    def __init__(self) -> None:
        self._listings: BoundedCache[Hashable, _Listing] = BoundedCache(_MAX_LISTINGS)

    def get(
        self, key: Hashable, catalog: Catalog, version: CatalogVersion, make: Callable[[], bytes]
    ) -> bytes:
        """Return the listing under the key, encoded again if the catalog or its version has changed."""
        cached = self._listings.get(key)
        # Compared by identity: a dropped and re-added name is another catalog, and
        # a user's catalog need not be hashable.
        if cached is not None and cached.catalog is catalog and cached.version == version:
            MEASURES.count("cache_hits_listing")
            return cached.data
        MEASURES.count("cache_misses_listing")
        listing = _Listing(catalog, version, make())
        self._listings.put(key, listing)
        return listing.data
