"""The one Spark of a process, shared by all its lakehouses."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from sparkport.errors import ConfigError
from sparkport.spark.session.delta_jars import Progress
from sparkport.spark.session.host import SparkHost
from sparkport.spark.session.settings import SparkSettings

_DEFAULT_MASTER = "local[*]"


class HostLease:
    """The right to use the host until `release`; the last one stops it."""

    def __init__(self, host: SparkHost, *, is_first: bool) -> None:
        self.host = host
        self.is_first = is_first
        self._is_released = False

    def release(self) -> None:
        """Give the host back; only the first call counts."""
        if not self._is_released:
            self._is_released = True
            _SHARED.release()


class _SharedHost:
    """PySpark keeps its state in the process, so that there is room for one host."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._host: SparkHost | None = None
        self._leases = 0

    def lease(
        self,
        warehouse: str,
        master: str | None,
        remote: str | None,
        conf: Mapping[str, str] | None,
        progress: Progress | None,
    ) -> HostLease:
        with self._lock:
            is_first = self._host is None
            if self._host is None:
                self._host = _new_host(warehouse, master, remote, conf, progress)
            else:
                _check_same(self._host.settings, master, remote, conf)
            self._leases += 1
            return HostLease(self._host, is_first=is_first)

    def release(self) -> None:
        with self._lock:
            self._leases -= 1
            host = self._host
            if host is None or self._leases:
                return
            self._host = None
            # Inside the lock: a new host could not start beside one that is still stopping.
            host.stop()


_SHARED = _SharedHost()


def lease_host(
    warehouse: str,
    master: str | None,
    remote: str | None,
    conf: Mapping[str, str] | None,
    *,
    progress: Progress | None = None,
) -> HostLease:
    """Return the right to use the process's Spark, which is made for the first that asks.

    Settings that are None take what the first one asked for. Raises ConfigError for settings that are
    not valid, or not those of the Spark that is there.
    """
    return _SHARED.lease(warehouse, master, remote, conf, progress)


def _new_host(
    warehouse: str,
    master: str | None,
    remote: str | None,
    conf: Mapping[str, str] | None,
    progress: Progress | None,
) -> SparkHost:
    try:
        settings = SparkSettings(warehouse, master or _DEFAULT_MASTER, remote, conf or {})
    except ValueError as error:
        raise ConfigError(str(error)) from error
    return SparkHost(settings, progress=progress)


def _check_same(
    settings: SparkSettings, master: str | None, remote: str | None, conf: Mapping[str, str] | None
) -> None:
    differing = [
        name
        for name, asked, actual in (("master", master, settings.master), ("remote", remote, settings.remote))
        if asked is not None and asked != actual
    ]
    differing += [key for key, value in (conf or {}).items() if settings.conf.get(key) != value]
    if differing:
        raise ConfigError(
            f"this process already has a Spark with other settings ({', '.join(differing)});"
            " its lakehouses share it, so leave them out or use another process"
        )
