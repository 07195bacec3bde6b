"""Numbers of this process for whoever watches it: what was done, and how much there is of something now."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable

__all__ = ["MEASURES", "Measures"]


class Measures:
    """Counts events by name, and knows functions that measure. Safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._gauges: dict[str, list[Callable[[], float]]] = {}
        self._checks: list[tuple[str, Callable[[], str]]] = []

    def count(self, name: str, number: int = 1) -> None:
        """Count events; a negative number takes some back, for what is a level and not a sum."""
        with self._lock:
            self._counts[name] += number

    def measure_by(self, name: str, gauge: Callable[[], float]) -> Callable[[], None]:
        """Ask a function whenever somebody wants to know; return how to stop that. Several are summed up."""
        with self._lock:
            self._gauges.setdefault(name, []).append(gauge)

        def stop() -> None:
            with self._lock:
                self._gauges[name].remove(gauge)

        return stop

    def check_by(self, name: str, check: Callable[[], str]) -> Callable[[], None]:
        """Ask a function what is wrong, an empty text if nothing is; return how to stop that."""
        entry = (name, check)
        with self._lock:
            self._checks.append(entry)

        def stop() -> None:
            with self._lock:
                self._checks.remove(entry)

        return stop

    def problems(self) -> dict[str, str]:
        """Return what is wrong, by the name of the check."""
        with self._lock:
            checks = tuple(self._checks)
        return {name: problem for name, check in checks if (problem := check())}

    def value(self, name: str) -> int:
        """Return how often something was counted."""
        with self._lock:
            return self._counts[name]

    def measured(self, name: str) -> float:
        """Return the sum of what the functions of a name say."""
        with self._lock:
            gauges = tuple(self._gauges.get(name, ()))
        return sum(gauge() for gauge in gauges)


MEASURES = Measures()
"""Those of this process."""
