"""The cache that forgets what was not used for longest."""

from __future__ import annotations

import threading

from sparkport.toolkit.bounded_cache import BoundedCache


def test_what_was_not_used_for_longest_goes() -> None:
    """Reading counts as use."""
    cache: BoundedCache[str, int] = BoundedCache(2)
    cache.put("a", 1)
    cache.put("b", 2)

    assert cache.get("a") == 1

    cache.put("c", 3)

    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (1, None, 3)
    assert len(cache) == 2


def test_only_one_gets_what_is_popped() -> None:
    """Of many threads that remove a value one has it."""
    cache: BoundedCache[str, object] = BoundedCache(1)
    cache.put("a", object())
    taken: list[object] = []

    threads = [threading.Thread(target=lambda: taken.append(cache.pop("a"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sum(value is not None for value in taken) == 1
    assert cache.get("a") is None
