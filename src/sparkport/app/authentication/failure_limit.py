"""How often a password may be wrong, so that nobody finds one out by trying."""

from __future__ import annotations

import ipaddress
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from sparkport.errors import LimitExceededError

__all__ = ["FailureLimit", "network_of"]

_log = structlog.get_logger("sparkport")

_FREE_FAILURES = 10
_FORGIVEN_SECONDS = 60.0  # after which one failure is forgotten
_MAX_PAUSE_SECONDS = 60.0
_MAX_KEYS = 10_000
_MAX_NAME = 100
_PEER = re.compile(r"(?:ipv4:|ipv6:)\[?(?P<host>[^\]%]+)(?:%[^\]]*)?\]?:[0-9]+")


@dataclass(slots=True)
class _Failures:
    count: float = 0.0
    since: float = 0.0
    paused_until: float = 0.0


class FailureLimit:
    """Counts failures by address and by name: after ten, each makes the next attempt wait twice as long.

    An attempt counts as a failure until it is known to be none, so that many at once gain nothing. Safe to
    use from many threads. What is remembered is bounded: the key that was used longest ago goes first.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, max_keys: int = _MAX_KEYS) -> None:
        self._clock = clock
        self._max_keys = max_keys
        self._lock = threading.Lock()
        self._failures: OrderedDict[tuple[str, str], _Failures] = OrderedDict()  # the oldest first

    def check(self, connection: str, name: str) -> None:
        """Raise LimitExceededError while there is a pause for the address or the name."""
        with self._lock:
            self._check(_keys(connection, name))

    def begin(self, connection: str, name: str) -> None:
        """Count an attempt. Raises LimitExceededError while there is a pause, and does not count it then."""
        keys = _keys(connection, name)
        with self._lock:
            self._check(keys)
            for key in keys:
                self._count(key, keys[0][1])

    def succeeded(self, connection: str, name: str) -> None:
        """Take back that an attempt was counted."""
        with self._lock:
            for key in _keys(connection, name):
                failures = self._failures.get(key)
                if failures is not None:
                    failures.count = max(0.0, failures.count - 1)
                    failures.paused_until = 0.0

    def _check(self, keys: tuple[tuple[str, str], ...]) -> None:
        now = self._clock()
        for key in keys:
            failures = self._failures.get(key)
            if failures is not None and now < failures.paused_until:
                seconds = int(failures.paused_until - now) + 1
                of_what = "from this address" if key[0] == "address" else "for this user name"
                raise LimitExceededError(
                    f"too many failed log-ins {of_what}; the password was not checked,"
                    f" try again in {seconds} s"
                )

    def _count(self, key: tuple[str, str], address: str) -> None:
        now = self._clock()
        failures = self._failures.setdefault(key, _Failures(since=now))
        self._failures.move_to_end(key)
        forgiven = (now - failures.since) / _FORGIVEN_SECONDS
        failures.count = max(0.0, failures.count - forgiven) + 1
        failures.since = now
        beyond = failures.count - _FREE_FAILURES
        if beyond >= 0:
            pause = min(_MAX_PAUSE_SECONDS, 2.0 ** min(beyond, 10.0))
            failures.paused_until = now + pause
            # Without the name: people type passwords there by mistake.
            _log.warning("log-ins paused", by=key[0], address=address, seconds=round(pause))
        while len(self._failures) > self._max_keys:
            self._failures.popitem(last=False)


def network_of(connection: str) -> str:
    """Return the address of a connection as gRPC says it; of IPv6 the network, which has one owner."""
    matched = _PEER.fullmatch(connection.replace("%5B", "[").replace("%5D", "]"))
    if matched is None:
        return connection[:_MAX_NAME]
    try:
        address = ipaddress.ip_address(matched["host"])
    except ValueError:
        return connection[:_MAX_NAME]
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.IPv6Network((address, 64), strict=False))
    return str(address)


def _keys(connection: str, name: str) -> tuple[tuple[str, str], ...]:
    return ("address", network_of(connection)), ("name", name[:_MAX_NAME])
