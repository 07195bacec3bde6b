"""Detect other servers that use the same warehouse: each one keeps a lease there.

In a local folder a lease is a lock file, which is valid while its process runs; that of a server on another
machine, like an object in a store, while it is renewed. Every server has a lease of its own, so there is
nothing to compete for: whoever writes its lease first and lists the leases then sees all earlier ones.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import structlog

from sparkport.spark.storage import lock_files
from sparkport.spark.storage.filesystem import is_local, storage_of

_log = structlog.get_logger("sparkport.spark")

RENEW_SECONDS = 15.0
_VALID_SECONDS = 60.0
_KEPT_SECONDS = 86_400.0
_LOCAL_ADVICE = "UNIQUE and PRIMARY KEY are enforced among the rows of one server only"
_STORE_ADVICE = (
    "in an object store Delta may lose commits of concurrent writers: stop all servers but one,"
    " or configure spark.delta.logStore for multiple writers"
)


class Lease:
    """The lease of this process on a warehouse."""

    def __init__(self, warehouse: str) -> None:
        self._folder = f"{warehouse}/_sparkport/servers"
        self._is_local = is_local(warehouse)
        self._location = f"{self._folder}/{lock_files.PROCESS}{lock_files.SUFFIX}"
        self._reported: set[str] = set()
        self._has_failed = False
        self._about = json.dumps(
            {"host": socket.gethostname(), "pid": os.getpid(), "started": datetime.now(UTC).isoformat()}
        ).encode()

    def renew(self) -> None:
        """Renew the lease of this server, and log a warning for each other server that is new."""
        try:
            self._write()
        except OSError as error:
            if not self._has_failed:
                self._has_failed = True
                _log.warning("lease not written: other servers cannot detect this one", reason=str(error))
        try:
            others = self.others()
        except OSError as error:
            _log.debug("leases of other servers not readable", reason=str(error))
            return
        for name in sorted(others - self._reported):
            advice = _LOCAL_ADVICE if self._is_local else _STORE_ADVICE
            _log.warning("another server uses this warehouse", **self._read(name), advice=advice)
        self._reported = others

    def release(self) -> None:
        """Remove the lease of this server."""
        if self._is_local:
            lock_files.release(Path(self._folder))
            return
        with contextlib.suppress(OSError):  # it expires
            storage_of(self._location).unlink(self._location)

    def others(self) -> set[str]:
        """Return the names of the other servers that use the warehouse now."""
        try:
            times = storage_of(self._folder).modification_times(self._folder)
        except (FileNotFoundError, NotADirectoryError):
            return set()
        # By the clock of the storage if our own lease is there, else by ours.
        now = times.pop(Path(self._location).name, int(time.time() * 1000))
        return {name for name, renewed in times.items() if self._is_alive(name, (now - renewed) / 1000)}

    def _is_alive(self, name: str, seconds: float) -> bool:
        if not lock_files.PROCESS_NAME.fullmatch(name.removesuffix(lock_files.SUFFIX)):
            return False
        held = lock_files.is_held(Path(self._folder, name)) if self._is_local else None
        if held is False:
            lock_files.remove_if_free(Path(self._folder, name))
        elif held is None and seconds > _KEPT_SECONDS:
            with contextlib.suppress(OSError):
                storage_of(self._folder).unlink(f"{self._folder}/{name}")
        return seconds < _VALID_SECONDS if held is None else held

    def _write(self) -> None:
        if self._is_local:
            Path(self._folder).mkdir(parents=True, exist_ok=True)
            path = lock_files.hold(Path(self._folder))
            if path.stat().st_size != len(self._about):
                path.write_bytes(self._about)
            return
        with storage_of(self._location).create(self._location) as file:
            file.write(self._about)

    def _read(self, name: str) -> dict[str, Any]:
        try:
            about = json.loads(storage_of(self._folder).read(f"{self._folder}/{name}"))
        except (OSError, ValueError):
            return {}
        return {key: about.get(key) for key in ("host", "pid", "started")} if isinstance(about, dict) else {}
