"""The commits of one table: who may write when, and who writes together."""

from __future__ import annotations

import contextlib
import functools
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

import structlog
from pyspark.sql import SparkSession

from sparkport.catalog.call import Call
from sparkport.errors import (
    ConflictError,
    InvalidRequestError,
    PreconditionError,
    SparkportError,
    UnavailableError,
)
from sparkport.spark.appends import Append, append
from sparkport.spark.delta.log import DeltaLog
from sparkport.spark.jobs import Jobs, Work
from sparkport.spark.keyed import keyed_session
from sparkport.spark.staging import Stage

_log = structlog.get_logger("sparkport.spark")

_POLL_SECONDS = 0.1
_MOST_TOGETHER = 64
_MOST_TRIES = 8
_MOST_APPENDS = 3
_FIRST_PAUSE = 0.05
_GATHERING_SHARE = 0.25
_GATHERING_SECONDS = 0.1

T = TypeVar("T")
Outcome = Callable[[str | None], int | None]


@dataclass(frozen=True, slots=True)
class _Append:
    """A few rows that wait to be appended."""

    stage: Stage
    fields: list[dict[str, Any]]
    key: str | None = None
    done: Future[int] = field(default_factory=Future)


@dataclass(frozen=True, slots=True)
class Change:
    """Work that changes so many rows, and returns their number if another has done it before.

    With `notes_key` it leaves the call's key in the log by itself.
    """

    work: Work[int | None]
    affected: int
    notes_key: bool = False


class TableCommits:
    """Orders the writes of this server to one table.

    Statements that change rows go one after the other: of two that touch the same files Delta lets
    only one win. Appends need not wait for those. While one small append is under way others
    gather, and the next commit takes them all. Statements of one key go one after the other too;
    `outcome` tells what has become of a key, if anything has.
    """

    def __init__(
        self, jobs: Jobs, table: str, log: DeltaLog, outcome: Outcome, *, joins_keys: bool = True
    ) -> None:
        self._jobs = jobs
        self._outcome = outcome
        self._joins_keys = joins_keys
        self._keys: set[str] = set()
        self._table = table
        self._log = log
        self._changing = threading.Lock()
        self._lock = threading.Lock()
        self._waiting: deque[_Append] = deque()
        self._has_come = threading.Condition(self._lock)
        self._is_appending = False
        self._together, self._seconds = 1, 0.0  # of the last joint commit

    @contextlib.contextmanager
    def alone(self, call: Call) -> Iterator[None]:
        """Be the only one that changes rows; wait for it as long as the call lives."""
        while not self._changing.acquire(timeout=_POLL_SECONDS):
            call.check()
        try:
            yield
        finally:
            self._changing.release()

    @contextlib.contextmanager
    def turn(self, call: Call) -> Iterator[None]:
        """Be the only one with the call's key, if it has one; wait for it as long as the call lives."""
        key = call.idempotency_key
        if key is None:
            yield
            return
        while not self._took(key):
            call.check()
            call.wait_cancelled(_POLL_SECONDS)
        try:
            yield
        finally:
            with self._lock:
                self._keys.discard(key)

    def change(self, call: Call, plan: Callable[[], Change | None]) -> int:
        """Plan and run a change of rows, again when an outside writer was faster. The caller is alone.

        Returns how many rows it has changed: with a key that is known meanwhile, those of then.
        """
        key = call.idempotency_key

        def attempt() -> int:
            done = self._outcome(key)
            change = plan() if done is None else None
            if change is None:
                return done or 0
            work = change.work
            if key is not None and not change.notes_key:
                work = _keyed(work, key, change.affected)
            done = self._jobs.run(call, self._table, work)
            if done is None:
                # Should another server have been faster, Delta has skipped the work.
                done = self._outcome(key)
            return change.affected if done is None else done

        return self._landed(key, lambda: _retried(call, attempt))

    def append(self, call: Call, stage: Stage, fields: Sequence[dict[str, Any]]) -> int:
        """Append the rows of a stage in one commit, a few rows together with others that wait.

        Such a joint commit is not cancelled once it is under way: it is of others too. Returns how
        many rows the statement has appended.
        """
        entry = _Append(stage, list(fields), call.idempotency_key)
        if not stage.is_small:
            known = self._landed(entry.key, lambda: self._appended(call, [entry]).get(entry.key or ""))
            return stage.rows if known is None else known
        with self._lock:
            self._waiting.append(entry)
            self._has_come.notify()
            leads, self._is_appending = not self._is_appending, True
        if leads:
            # No thread of the jobs: each commit needs one of those, and they could all be waiting here.
            threading.Thread(target=self._drain, name="commits", daemon=True).start()
        while not _is_done(entry.done):
            if call.cancelled or (call.remaining() or 1) <= 0:
                with self._lock:
                    if entry in self._waiting:
                        self._waiting.remove(entry)
                        call.check()
        return entry.done.result()

    def _took(self, key: str) -> bool:
        with self._lock:
            if key in self._keys:
                return False
            self._keys.add(key)
            return True

    def _landed(self, key: str | None, work: Callable[[], T]) -> T | int:
        """Return what work does; where Spark was lost on the way, the log tells whether it was done."""
        try:
            return work()
        except UnavailableError:
            done = self._found(key)
            if done is None:
                raise
            return done

    def _found(self, key: str | None) -> int | None:
        """Return the outcome of a key, None also if that cannot be told now."""
        try:
            return self._outcome(key)
        except (SparkportError, OSError) as error:
            _log.warning("a lost statement cannot be looked up", table=self._table, reason=str(error))
            return None

    def _drain(self) -> None:
        """Commit what waits, all of it at a time, until nothing does."""
        while True:
            with self._lock:
                if self._waiting:
                    self._gather()
                if not self._waiting:
                    self._is_appending = False
                    return
                group = self._joined()
                for entry in group:
                    self._waiting.remove(entry)
            begun = time.monotonic()
            self._commit(group)
            self._together, self._seconds = len(group), time.monotonic() - begun

    def _gather(self) -> None:
        """Wait a moment for as many as shared the last commit: clients that go on are back soon."""
        patience = min(_GATHERING_SHARE * self._seconds, _GATHERING_SECONDS)
        self._has_come.wait_for(lambda: len(self._waiting) >= self._together, patience)

    def _joined(self) -> list[_Append]:
        """Return those of the waiting that can share the next commit."""
        first = self._waiting[0]
        if first.key is not None and not self._joins_keys:
            return [first]
        alike = (entry for entry in self._waiting if entry.fields == first.fields)
        return [entry for entry in alike if entry.key is None or self._joins_keys][:_MOST_TOGETHER]

    def _commit(self, group: list[_Append]) -> None:
        try:
            while group:
                known = self._appended(Call(), group)
                for entry in group:
                    if not known or entry.key in known:
                        entry.done.set_result(known.get(entry.key or "", entry.stage.rows))
                # With a known key nothing was committed yet of the others.
                group = [entry for entry in group if known and entry.key not in known]
        except Exception as error:  # noqa: BLE001  (it goes to the statements that wait)
            if len(group) > 1 and isinstance(error, InvalidRequestError | PreconditionError):
                # One of them is to blame: each gets a commit, and an error, of its own. After any other
                # error the commit may have landed all the same, and again would be the rows twice.
                for entry in group:
                    self._commit([entry])
                return
            # It is one commit: where one key is, there are all rows.
            has_landed = isinstance(error, UnavailableError) and self._has_any(group)
            for entry in group:
                if has_landed:
                    entry.done.set_result(entry.stage.rows)
                else:
                    entry.done.set_exception(error)

    def _has_any(self, group: Sequence[_Append]) -> bool:
        return any(self._found(entry.key) is not None for entry in group)

    def _appended(self, call: Call, group: Sequence[_Append]) -> dict[str, int]:
        """Append all, or nothing if some keys are known already: return these with their outcomes."""
        rows = Append(
            self._table,
            [entry.stage for entry in group],
            group[0].fields,
            {entry.key: entry.stage.rows for entry in group if entry.key is not None},
        )
        work = functools.partial(append, self._log, rows)
        # In a conflict nothing was committed; another server may have noted the key, or adopted the table.
        return _retried(call, lambda: self._jobs.run(call, self._table, work) or {}, _MOST_APPENDS)


def _is_done(future: Future[int]) -> bool:
    with contextlib.suppress(TimeoutError):
        future.exception(timeout=_POLL_SECONDS)
    return future.done()


def _retried(call: Call, work: Callable[[], T], most: int = _MOST_TRIES) -> T:
    pause = _FIRST_PAUSE
    for _ in range(most - 1):
        try:
            return work()
        except ConflictError:
            call.wait_cancelled(pause * random.uniform(0.5, 1.5))  # noqa: S311  (to part those who collide)
            call.check()
            pause *= 2
    return work()


def _keyed(work: Work[int | None], key: str, affected: int) -> Work[int | None]:
    def keyed(session: SparkSession) -> int | None:
        with keyed_session(session, key, affected) as own:
            return work(own)

    return keyed
