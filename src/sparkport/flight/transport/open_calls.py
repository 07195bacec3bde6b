"""The calls that run, so that they end when the credentials of their callers do."""

from __future__ import annotations

import threading

import grpc
import structlog

from sparkport.flight.transport.auth import Revocable
from sparkport.flight.transport.rpc import Rpc

_log = structlog.get_logger("sparkport")

_CHECK_SECONDS = 15.0


class OpenCalls:
    """Asks every few seconds whether the callers of running calls are still admitted, and ends the others."""

    def __init__(self, authenticator: Revocable, check_seconds: float = _CHECK_SECONDS) -> None:
        self._authenticator = authenticator
        self._seconds = check_seconds
        self._lock = threading.Lock()
        self._calls: dict[Rpc, tuple[str, str]] = {}
        self._is_watched = False

    def add(self, rpc: Rpc, principal: str, authorization: str) -> None:
        """Watch a call until it is over."""
        with self._lock:
            self._calls[rpc] = principal, authorization
            if not self._is_watched:
                self._is_watched = True
                threading.Thread(target=self._watch, name="flight-credentials", daemon=True).start()
        if not rpc.add_callback(lambda: self._remove(rpc)):
            self._remove(rpc)

    def _remove(self, rpc: Rpc) -> None:
        with self._lock:
            self._calls.pop(rpc, None)

    def _watch(self) -> None:
        """Check the calls until none is left."""
        pause = threading.Event()
        while not pause.wait(self._seconds):
            with self._lock:
                calls = tuple(self._calls.items())
                if not calls:
                    self._is_watched = False
                    return
            for rpc, (principal, authorization) in calls:
                if not self._is_admitted(principal, authorization):
                    rpc.dismiss(grpc.StatusCode.UNAUTHENTICATED, "the credentials are no longer valid")

    def _is_admitted(self, principal: str, authorization: str) -> bool:
        try:
            return self._authenticator.still_admits(principal, authorization)
        except Exception as error:  # noqa: BLE001  (or nobody would be checked any more)
            # The type alone: the text may have the header in it, which is a secret.
            _log.error("credentials could not be checked, the call ends", error=type(error).__name__)
            return False
