"""Whether a server can do its work."""

from __future__ import annotations

import threading

from sparkport.catalog.measures import MEASURES

__all__ = ["Readiness"]


class Readiness:
    """Asks every part of a server whether it is ready."""

    def __init__(self) -> None:
        self._is_draining = threading.Event()

    def drain(self) -> None:
        """Be ready no more: the server is about to stop."""
        self._is_draining.set()

    def problems(self) -> dict[str, str]:
        """Return what is wrong, by the part that it is wrong with; empty if the server is ready."""
        stopping = {"server": "the server is stopping"} if self._is_draining.is_set() else {}
        return {**MEASURES.problems(), **stopping}
