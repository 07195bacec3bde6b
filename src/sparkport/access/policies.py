"""The access file of a server, read again when it changes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from sparkport.access.checks import checked_rules
from sparkport.access.decisions import Rights
from sparkport.access.guard import Guard
from sparkport.access.rules import AccessRules
from sparkport.catalog.principal import Principal
from sparkport.errors import ConfigError
from sparkport.toolkit.bounded_cache import BoundedCache
from sparkport.toolkit.file_stamps import FileStamp, file_stamp

_log = structlog.get_logger("sparkport")

_MAX_CALLERS = 1000


@dataclass(frozen=True, slots=True)
class _State:
    """The rules of one state of the file, and the guards that go by them."""

    rules: AccessRules
    generation: int
    guards: BoundedCache[tuple[str, frozenset[str]], Guard] = field(
        default_factory=lambda: BoundedCache(_MAX_CALLERS)
    )


class Policies:
    """Knows what each caller may do, by a file as it is at the moment of each call.

    A file that cannot be read or is not valid grants nothing to anybody: it may have been changed to keep
    somebody out.
    """

    def __init__(self, path: Path, stamp: Callable[[Path], FileStamp | None] = file_stamp) -> None:
        """Read the file. Raises ConfigError."""
        self._path = path
        self._file_stamp = stamp
        self._lock = threading.Lock()
        self._stamp = stamp(path)
        self._state = _State(checked_rules(path), 0)

    def guard(self, principal: Principal) -> Guard:
        """Return what stands between a caller and the catalogs; the same until the file changes."""
        if self._file_stamp(self._path) != self._stamp:
            self._reload()
        state, key = self._state, (principal.name, principal.roles)
        guard = state.guards.get(key)
        if guard is None:
            roles = state.rules.roles_of(principal.name, principal.roles)
            guard = Guard(Rights(state.rules, principal.name, roles), state.generation)
            state.guards.put(key, guard)
        return guard

    def _reload(self) -> None:
        with self._lock:
            stamp = self._file_stamp(self._path)
            if stamp == self._stamp:
                return
            try:
                rules = checked_rules(self._path)
                _log.info("access file reloaded", file=str(self._path))
            except ConfigError as error:
                rules = AccessRules()
                _log.error("access file not reloaded, nobody may do anything", error=str(error))
            self._state = _State(rules, self._state.generation + 1)
            self._stamp = stamp
