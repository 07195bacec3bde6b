"""Background maintenance of a warehouse by its server."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable

import structlog

from sparkport.spark.storage import lock_files
from sparkport.spark.warehouse.leases import RENEW_SECONDS, Lease
from sparkport.spark.warehouse.trash import Trash

_log = structlog.get_logger("sparkport.spark")

_ROUND_SECONDS = 2.0
_TRASH_SECONDS = 60.0


class Upkeep:
    """Renews the server's lease, removes expired tables from the trash, and frees space on a full disk.

    What servers that died have left is seen to by `recover`.
    """

    def __init__(self, warehouse: str, trash: Trash, recover: Callable[[], None] = lambda: None) -> None:
        self._lease = Lease(warehouse)
        self._trash = trash
        self._recover = recover
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._renewed = self._emptied = float("-inf")

    def start(self) -> None:
        """Start in the background."""
        self._thread = threading.Thread(target=self._run, name="upkeep", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop, and release the lease."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(_ROUND_SECONDS)
        self._lease.release()

    def _run(self) -> None:
        while True:
            try:
                self._run_once(time.monotonic())
            except Exception as error:  # noqa: BLE001  (nobody waits for it, and the next round tries again)
                _log.warning("maintenance of the warehouse failed", reason=f"{type(error).__name__}: {error}")
            if self._stopping.wait(_ROUND_SECONDS):
                return

    def _run_once(self, now: float) -> None:
        if now - self._renewed >= RENEW_SECONDS:
            self._renewed = now
            self._lease.renew()
            lock_files.refresh()
        self._trash.make_room()
        if now - self._emptied >= _TRASH_SECONDS:
            self._emptied = now
            with contextlib.suppress(OSError):  # a read-only disk
                self._trash.prepare()
            self._trash.remove_orphans()
            self._recover()
