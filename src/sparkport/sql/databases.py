"""Databases for statements: a few processes, each lent to one statement at a time."""

from __future__ import annotations

import atexit
import contextlib
import threading
from collections.abc import Iterator

import duckdb

from sparkport.catalog.call import Call
from sparkport.errors import LimitExceededError
from sparkport.sql.database import Database, DatabaseGoneError
from sparkport.toolkit.machine import machine_memory

_MAX_RUNNING = 8
_MAX_IDLE = 2
_MAX_WAIT_SECONDS = 60.0
MAX_SECONDS = 600.0
"""How long a statement may take, until its last row is sent."""
_MEGABYTE = 1 << 20
_SHARE_OF_MACHINE = 4  # all statements together may use a quarter of its memory
_MIN_MEGABYTES = 128


def memory_limit_megabytes() -> int:
    """Return how much memory one statement may use on this machine or container."""
    return max(machine_memory() // _SHARE_OF_MACHINE // _MAX_RUNNING // _MEGABYTE, _MIN_MEGABYTES)


class Databases:
    """Lends a database to one statement at a time: to start one takes longer than most statements.

    Only so many statements run at once; others wait for a minute at most.
    """

    def __init__(self) -> None:
        self._idle: list[Database] = []
        self._running = 0
        self._changed = threading.Condition()

    @contextlib.contextmanager
    def borrow(self, call: Call) -> Iterator[Database]:
        """Lend a database, which is killed when the call is over."""
        database = self._take(call)
        try:
            with call.cancelling(database.kill), _limited_time(call, database):
                yield database
        finally:
            self._give_back(database)

    def close(self) -> None:
        """End the processes that wait for a statement."""
        with self._changed:
            idle, self._idle = self._idle, []
        for database in idle:
            database.close()

    def _take(self, call: Call) -> Database:
        with call.meter.queued(), self._changed:
            if not call.wait_for(self._changed, lambda: self._running < _MAX_RUNNING, _MAX_WAIT_SECONDS):
                raise LimitExceededError(
                    f"{_MAX_RUNNING} statements run, and none has ended for {_MAX_WAIT_SECONDS:g} seconds"
                )
            self._running += 1
            idle = self._idle.pop() if self._idle else None
        try:
            return idle or Database(memory_limit_megabytes())
        except BaseException:
            self._leave(None)
            raise

    def _give_back(self, database: Database) -> None:
        if _is_clean(database):
            self._leave(database)
        else:
            database.close()
            self._leave(None)

    def _leave(self, database: Database | None) -> None:
        with self._changed:
            self._running -= 1
            if database is not None and len(self._idle) < _MAX_IDLE:
                self._idle.append(database)
                database = None
            self._changed.notify_all()
        if database is not None:
            database.close()


def _is_clean(database: Database) -> bool:
    """Drop everything that a statement has left; return whether the database can be used again."""
    if not database.is_idle:  # its caller has left in the midst of an answer, or it has failed
        return False
    try:
        _clean(database)
    except (duckdb.Error, DatabaseGoneError):
        return False
    return True


def _clean(database: Database) -> None:
    database.execute("USE memory").table()
    names = database.execute(
        "SELECT database_name FROM duckdb_databases() WHERE NOT internal AND database_name <> 'memory'"
    ).rows()
    for (name,) in names:
        database.execute(f'DETACH "{name.replace(chr(34), 2 * chr(34))}"').table()
    for (name,) in database.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").rows():
        database.unregister(name)


@contextlib.contextmanager
def _limited_time(call: Call, database: Database) -> Iterator[None]:
    """Kill the database when the deadline of the call passes, or after the server's own limit."""
    remaining = call.remaining()
    seconds = MAX_SECONDS if remaining is None else min(max(0.0, remaining), MAX_SECONDS)
    timer = threading.Timer(seconds, database.kill)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


DATABASES = Databases()
"""Those of this process."""
atexit.register(DATABASES.close)
