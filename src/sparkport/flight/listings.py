"""A cache of encoded catalog listings."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable

_MOST_LISTINGS = 64


class ListingCache:
    """Keeps the newest listings by everything they depend on."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listings: OrderedDict[Hashable, bytes] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], bytes]) -> bytes:
        """Return the listing under the key, made anew if it is not there."""
        with self._lock:
            found = self._listings.get(key)
            if found is not None:
                self._listings.move_to_end(key)
                return found
        made = make()
        with self._lock:
            self._listings[key] = made
            while len(self._listings) > _MOST_LISTINGS:
                self._listings.popitem(last=False)
        return made
