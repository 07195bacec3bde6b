"""What a server does for its warehouse now and then, whether anybody calls or not."""

from __future__ import annotations

import contextlib
import threading
import time

import structlog

from sparkport.spark.storage import lock_files
from sparkport.spark.warehouse.leases import RENEW_SECONDS, Lease
from sparkport.spark.warehouse.trash import Trash

_log = structlog.get_logger("sparkport.spark")

_LOOK_SECONDS = 2.0
_SWEEP_SECONDS = 60.0


class Upkeep:
    """Keeps the server's lease, empties the trash of what is old, and sees to free space."""

    def __init__(self, warehouse: str, trash: Trash) -> None:
        self._lease = Lease(warehouse)
        self._trash = trash
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._renewed = self._swept = float("-inf")

    def start(self) -> None:
        """Begin, in the background."""
        self._thread = threading.Thread(target=self._run, name="upkeep", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End, and give the lease back."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(_LOOK_SECONDS)
        self._lease.release()

    def _run(self) -> None:
        while True:
            try:
                self._look(time.monotonic())
            except Exception as error:  # noqa: BLE001  (nobody waits for it, and the next round may do better)
                _log.warning("upkeep of the warehouse failed", reason=f"{type(error).__name__}: {error}")
            if self._stopping.wait(_LOOK_SECONDS):
                return

    def _look(self, now: float) -> None:
        if now - self._renewed >= RENEW_SECONDS:
            self._renewed = now
            self._lease.renew()
            lock_files.refresh()
        self._trash.make_room()
        if now - self._swept >= _SWEEP_SECONDS:
            self._swept = now
            with contextlib.suppress(OSError):  # a read-only disk
                self._trash.prepare()
            self._trash.remove_orphans()
