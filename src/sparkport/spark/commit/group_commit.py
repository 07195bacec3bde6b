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
from sparkport.spark.commit.append import Append, append
from sparkport.spark.commit.conflicts import FinalConflictError
from sparkport.spark.commit.folder_lock import while_writing
from sparkport.spark.commit.idempotency import idempotent_session, recorded
from sparkport.spark.commit.staging import Stage
from sparkport.spark.delta.actions import Metadata
from sparkport.spark.delta.log import DeltaLog
from sparkport.spark.delta_jvm.transaction import CommitResult
from sparkport.spark.session.jobs import Jobs, Work
from sparkport.toolkit.repeats import Outcome, StatementKey

_log = structlog.get_logger("sparkport.spark")

_POLL_SECONDS = 0.1
_MAX_TOGETHER = 64
_MAX_TRIES = 8
_MAX_APPENDS = 3
_FIRST_PAUSE = 0.05
_GATHERING_SHARE = 0.25
_GATHERING_SECONDS = 0.1

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Committed:
    """How many rows a statement has changed, and in which version; None if it was done before.

    `is_alone` says that the version has no rows of other statements.
    """

    affected: int
    version: int | None = None
    is_alone: bool = True


@dataclass(frozen=True, slots=True)
class _Append:
    """A few rows that wait to be appended."""

    stage: Stage
    fields: list[dict[str, Any]]
    key: StatementKey | None = None
    check: Callable[[Metadata], None] = lambda _: None
    done: Future[Committed] = field(default_factory=Future)


@dataclass(frozen=True, slots=True)
class Change:
    """Work that changes so many rows in one commit.

    With `notes_key` it leaves the statement's key in the log by itself.
    """

    work: Work[CommitResult]
    affected: int
    notes_key: bool = False


class CommitQueue:
    """Orders the writes of this server to one table.

    Statements that change rows go one after the other: of two that touch the same files Delta lets
    only one win. Appends need not wait for those. While one small append is under way others
    gather, and the next commit takes them all. Statements of one key go one after the other too.
    """

    def __init__(
        self, jobs: Jobs, table: str, table_id: str, log: DeltaLog, *, joins_keys: bool = True
    ) -> None:
        self.table_id = table_id
        self._jobs = jobs
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
    def turn(self, call: Call, key: StatementKey | None) -> Iterator[None]:
        """Be the only one with a key, if there is one; wait for it as long as the call lives."""
        if key is None:
            yield
            return
        while not self._took(key.name):
            call.check()
            call.wait_cancelled(_POLL_SECONDS)
        try:
            yield
        finally:
            with self._lock:
                self._keys.discard(key.name)

    def outcome(self, key: StatementKey | None) -> int | None:
        """Return how many rows the statement with a key has changed, None if it is not done.

        Raises InvalidRequestError if another statement had the key.
        """
        return None if key is None else key.matched(recorded(self._log.transactions(), key.name))

    def change(self, call: Call, key: StatementKey | None, plan: Callable[[], Change | None]) -> Committed:
        """Plan and run a change of rows, again when an outside writer was faster. The caller is alone.

        Every attempt is planned anew, and commits on the very version that it was planned for. With a
        key that is known meanwhile, it is done already.
        """

        def attempt() -> Committed:
            done = self.outcome(key)
            if done is not None:
                return Committed(done)
            change = plan()
            if change is None:
                return Committed(0)
            work = change.work
            if key is not None and not change.notes_key:
                work = _keyed(work, key, change.affected)
            result = self._run(call, work)
            if key is not None and (result.known or result.version is None):
                # Should another server have been faster, Delta has skipped the work.
                done = self.outcome(key)
            return Committed(change.affected, result.version) if done is None else Committed(done)

        return self._landed(key, lambda: _retried(call, attempt))

    def append(
        self,
        call: Call,
        key: StatementKey | None,
        stage: Stage,
        fields: Sequence[dict[str, Any]],
        check: Callable[[Metadata], None] = lambda _: None,
    ) -> Committed:
        """Append the rows of a stage in one commit, a few rows together with others that wait.

        Such a joint commit is not cancelled once it is under way: it is of others too. `check` raises
        FinalConflictError if the rows are not for a table like this; every attempt begins with it.
        """
        entry = _Append(stage, list(fields), key, check)
        if not stage.is_small:
            return self._landed(key, lambda: self._appended(call, [entry]).of(entry))
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

    def _run(self, call: Call, work: Work[T]) -> T:
        return self._jobs.run_to_end(call, self._table, while_writing(self._log.root, self._table, work))

    def _took(self, key: str) -> bool:
        with self._lock:
            if key in self._keys:
                return False
            self._keys.add(key)
            return True

    def _landed(self, key: StatementKey | None, work: Callable[[], Committed]) -> Committed:
        """Do work; should Spark be lost meanwhile, the log tells whether it was done."""
        try:
            return work()
        except UnavailableError:
            done = self._found(key)
            if done is None:
                raise
            return Committed(done)

    def _found(self, key: StatementKey | None) -> int | None:
        """Return the outcome of a key, None also if that cannot be told now."""
        try:
            return self.outcome(key)
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
        return [entry for entry in alike if entry.key is None or self._joins_keys][:_MAX_TOGETHER]

    def _commit(self, group: list[_Append]) -> None:
        try:
            while group:
                result = self._appended(Call(), group)
                for entry in group:
                    if result.is_of(entry):
                        _finish(entry, result)
                # With a known key nothing was committed yet of the others.
                group = [entry for entry in group if not result.is_of(entry)]
        except Exception as error:  # noqa: BLE001  (it goes to the statements that wait)
            refusals = InvalidRequestError | PreconditionError | FinalConflictError
            if len(group) > 1 and isinstance(error, refusals):
                # One of them is to blame: each gets a commit, and an error, of its own. After any other
                # error the commit may have landed all the same, and again would be the rows twice.
                for entry in group:
                    self._commit([entry])
                return
            for entry in group:
                # The key of one tells nothing of the others: it may be there by another server.
                done = self._found(entry.key) if isinstance(error, UnavailableError) else None
                if done is None:
                    entry.done.set_exception(error)
                else:
                    entry.done.set_result(Committed(done))

    def _appended(self, call: Call, group: Sequence[_Append]) -> _Appended:
        """Append all, or nothing if some keys are known already."""
        rows = Append(
            self._table,
            self.table_id,
            [entry.stage for entry in group],
            group[0].fields,
            {entry.key.name: entry.key.outcome(entry.stage.rows) for entry in group if entry.key},
            [entry.check for entry in group],
        )
        work = functools.partial(append, self._log, rows)
        # In a conflict nothing was committed; another server may have noted the key, or adopted the table.
        result = _retried(call, lambda: self._run(call, work), _MAX_APPENDS)
        return _Appended(result, len(group) == 1)


@dataclass(frozen=True, slots=True)
class _Appended:
    """What has become of a group of appends."""

    result: CommitResult
    is_alone: bool

    def is_of(self, entry: _Append) -> bool:
        """Tell whether a statement of the group is done: all are, or those whose keys were known."""
        return not self.result.known or self._known(entry) is not None

    def of(self, entry: _Append) -> Committed:
        """Return what a statement that is done is told. Raises InvalidRequestError for a key of another."""
        known = self._known(entry)
        if known is not None and entry.key is not None:
            return Committed(entry.key.matched(known) or 0)
        return Committed(entry.stage.rows, self.result.version, self.is_alone)

    def _known(self, entry: _Append) -> Outcome | None:
        return recorded(self.result.known, entry.key.name) if entry.key else None


def _finish(entry: _Append, result: _Appended) -> None:
    try:
        entry.done.set_result(result.of(entry))
    except InvalidRequestError as error:
        entry.done.set_exception(error)


def _is_done(future: Future[Committed]) -> bool:
    with contextlib.suppress(TimeoutError):
        future.exception(timeout=_POLL_SECONDS)
    return future.done()


def _retried(call: Call, work: Callable[[], T], most: int = _MAX_TRIES) -> T:
    pause = _FIRST_PAUSE
    for _ in range(most - 1):
        try:
            return work()
        except FinalConflictError:
            raise
        except ConflictError:
            call.wait_cancelled(pause * random.uniform(0.5, 1.5))  # noqa: S311  (to part those who collide)
            call.check()
            pause *= 2
    return work()


def _keyed(work: Work[CommitResult], key: StatementKey, affected: int) -> Work[CommitResult]:
    def keyed(session: SparkSession) -> CommitResult:
        with idempotent_session(session, key.name, key.outcome(affected)) as own:
            return work(own)

    return keyed
