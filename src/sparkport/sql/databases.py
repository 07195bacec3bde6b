"""Databases of DuckDB for statements: in memory, without files, network, extensions or settings to change."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import duckdb

from sparkport.catalog.call import Call
from sparkport.toolkit.machine import machine_memory

_MAX_RUNNING = 8
_MAX_IDLE = 2
_MEGABYTE = 1 << 20
_SHARE_OF_MACHINE = 4  # all statements together may use a quarter of its memory
_MIN_MEGABYTES = 128
_THREADS = 2


def memory_limit_megabytes() -> int:
    """Return how much memory one statement may use on this machine or container."""
    return max(machine_memory() // _SHARE_OF_MACHINE // _MAX_RUNNING // _MEGABYTE, _MIN_MEGABYTES)


class Databases:
    """Lends a database to one statement at a time: to open one takes longer than most statements.

    Only so many statements run at once; others wait for as long as their calls live.
    """

    def __init__(self) -> None:
        self._idle: list[duckdb.DuckDBPyConnection] = []
        self._running = 0
        self._changed = threading.Condition()

    @contextlib.contextmanager
    def borrow(self, call: Call) -> Iterator[duckdb.DuckDBPyConnection]:
        """Lend a database; the statement in it is interrupted when the call is over."""
        connection = self._take(call)
        try:
            with call.cancelling(connection.interrupt), _interrupted_late(call, connection):
                yield connection
        finally:
            self._give_back(connection)

    def _take(self, call: Call) -> duckdb.DuckDBPyConnection:
        with self._changed:
            call.wait_for(self._changed, lambda: self._running < _MAX_RUNNING)
            self._running += 1
            idle = self._idle.pop() if self._idle else None
        try:
            return idle or _open()
        except BaseException:
            self._leave(None)
            raise

    def _give_back(self, connection: duckdb.DuckDBPyConnection) -> None:
        try:
            _clean(connection)
        except duckdb.Error:  # a statement has broken it
            connection.close()
            self._leave(None)
        else:
            self._leave(connection)

    def _leave(self, connection: duckdb.DuckDBPyConnection | None) -> None:
        with self._changed:
            self._running -= 1
            if connection is not None and len(self._idle) < _MAX_IDLE:
                self._idle.append(connection)
                connection = None
            self._changed.notify_all()
        if connection is not None:
            connection.close()


def _open() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(
        ":memory:",
        config={
            "enable_external_access": "false",
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "allow_community_extensions": "false",
            "python_enable_replacements": "false",  # else a name in FROM could be a variable of the server
            "memory_limit": f"{memory_limit_megabytes()}MB",
            "temp_directory": "",
            "threads": str(_THREADS),
            "lock_configuration": "true",
        },
    )


def _clean(connection: duckdb.DuckDBPyConnection) -> None:
    """Drop everything that a statement has left."""
    connection.execute("USE memory")
    rows = connection.execute(
        "SELECT database_name FROM duckdb_databases() WHERE NOT internal AND database_name <> 'memory'"
    ).fetchall()
    for (name,) in rows:
        connection.execute(f'DETACH "{name.replace(chr(34), 2 * chr(34))}"')
    views = connection.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()
    for (name,) in views:
        connection.unregister(name)


@contextlib.contextmanager
def _interrupted_late(call: Call, connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Interrupt the statement when the deadline of its call passes."""
    remaining = call.remaining()
    if remaining is None or remaining > threading.TIMEOUT_MAX:
        yield
        return
    timer = threading.Timer(max(0.0, remaining), connection.interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


DATABASES = Databases()
"""Those of this process."""
