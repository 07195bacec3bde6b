"""The commit queue of one table: which writes exclude each other, and which share a commit."""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

import structlog
from pyspark.sql import SparkSession

from sparkport.catalog.call import Call
from sparkport.catalog.measures import MEASURES
from sparkport.errors import (
    InvalidRequestError,
    NotFoundError,
    PreconditionError,
    SparkportError,
    UnavailableError,
)
from sparkport.spark.commit.append import Append, append
from sparkport.spark.commit.conflicts import FinalConflictError, retry_on_conflict
from sparkport.spark.commit.folder_lock import shared, while_writing
from sparkport.spark.commit.idempotency import idempotent_session, recorded_outcome
from sparkport.spark.commit.staging import Stage
from sparkport.spark.delta.errors import SparkRequiredError
from sparkport.spark.delta.log.actions import Metadata
from sparkport.spark.delta.log.reader import DeltaLog
from sparkport.spark.delta.log.spark_fields import SparkField
from sparkport.spark.delta_jvm.transaction import CommitResult
from sparkport.spark.session.jobs import Jobs, Work
from sparkport.toolkit.repeats import Outcome, StatementKey

_log = structlog.get_logger("sparkport.spark")

_POLL_SECONDS = 0.1
_MAX_GROUP = 64
_MAX_TRIES = 8
_MAX_APPEND_TRIES = 3
_GATHER_SHARE = 0.25
_MAX_GATHER_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Committed:
    """How many rows a statement has changed, and in which version; None if an earlier attempt did it.

    `is_alone` means that the version has no rows of other statements.
    """

    affected: int
    version: int | None = None
    is_alone: bool = True


@dataclass(frozen=True, slots=True)
class _Append:
    """The rows of one statement, to be appended."""

    stage: Stage
    fields: list[SparkField]
    key: StatementKey | None = None
    check: Callable[[Metadata], None] = lambda _: None
    checked_version: int | None = None
    done: Future[Committed] = field(default_factory=Future)


@dataclass(frozen=True, slots=True)
class Change:
    """Work that changes `affected` rows in one commit.

    `alone` is the same without Spark, if there is such a way; it raises SparkRequiredError if that is closed
    after all, and has done nothing then. With `records_key` the work itself writes the statement's
    idempotency key to the log.
    """

    work: Work[CommitResult]
    affected: int
    alone: Callable[[], CommitResult] | None = None
    records_key: bool = False


class CommitQueue:
    """Orders the writes of this server to one table.

    Statements that change rows run one after the other: of two that touch the same files Delta lets
    only one commit. Appends do not wait for them. While one small append is committed others
    queue up, and the next commit takes them all. Statements with the same idempotency key run one
    after the other too.
    """

    def __init__(
        self,
        jobs: Jobs,
        table: str,
        table_id: str,
        log: DeltaLog,
        *,
        joins_keys: bool = True,
        commits_alone: bool = False,
        prepare: Callable[[Call], None] = lambda _: None,
    ) -> None:
        """`prepare` runs before each commit."""
        self.table_id = table_id
        self._jobs = jobs
        self._joins_keys = joins_keys
        self._commits_alone = commits_alone
        self._prepare = prepare
        self._keys: set[str] = set()
        self._table = table
        self._log = log
        self._changing = threading.Lock()
        self._lock = threading.Lock()
        self._key_released = threading.Condition(self._lock)
        self._waiting: deque[_Append] = deque()
        self._arrived = threading.Condition(self._lock)
        self._is_draining = False
        self._last_size, self._last_seconds = 1, 0.0  # of the last group commit

    @contextlib.contextmanager
    def exclusive(self, call: Call) -> Iterator[None]:
        """Be the only statement that changes rows; wait for the others as long as the call is active."""
        with call.holding(self._changing):
            yield

    @contextlib.contextmanager
    def for_key(self, call: Call, key: StatementKey | None) -> Iterator[None]:
        """Be the only statement with a key, if it has one; wait for others as long as the call is active."""
        if key is None:
            yield
            return
        with self._lock:
            call.wait_for(self._key_released, lambda: key.name not in self._keys)
            self._keys.add(key.name)
        try:
            yield
        finally:
            with self._lock:
                self._keys.discard(key.name)
                self._key_released.notify_all()

    def outcome(self, key: StatementKey | None) -> int | None:
        """Return how many rows the statement with a key has changed, None if it was not committed.

        Raises InvalidRequestError if another statement has used the key.
        """
        return None if key is None else key.matched(recorded_outcome(self._log.transactions(), key.name))

    def apply(self, call: Call, key: StatementKey | None, plan: Callable[[], Change | None]) -> Committed:
        """Plan and run a change of rows, again after a conflict. The caller holds `exclusive`.

        Every attempt is planned anew, and commits on exactly the version that it was planned for. If the
        key is in the log by then, nothing is done.
        """

        def attempt(_: int) -> Committed:
            done = self.outcome(key)
            if done is not None:
                return Committed(done)
            change = plan()
            if change is None:
                return Committed(0)
            work = change.work
            if key is not None and not change.records_key:
                work = _record_key(work, key, change.affected)
            result = self._run(call, work, change.alone)
            if key is not None and (result.known or result.version is None):
                # If another server has committed the key first, Delta has skipped the work.
                done = self.outcome(key)
            return Committed(change.affected, result.version) if done is None else Committed(done)

        return self._recover(key, lambda: retry_on_conflict(call, attempt, max_tries=_MAX_TRIES))

    def append(
        self,
        call: Call,
        key: StatementKey | None,
        stage: Stage,
        fields: Sequence[SparkField],
        check: Callable[[Metadata], None] = lambda _: None,
        checked_version: int | None = None,
    ) -> Committed:
        """Append the rows of a stage in one commit, a few rows in a group commit with other statements.

        A group commit is not cancelled once it has begun: it has the rows of others too. `check` raises
        FinalConflictError if the rows do not fit the table; every attempt begins with it. Rows whose keys
        were compared with a version are alone in the queue, and raise OutdatedCheckError if it is another.
        """
        entry = _Append(stage, list(fields), key, check, checked_version)
        if not stage.is_small:
            return self._recover(key, lambda: self._append_group(call, [entry]).of(entry))
        with self._lock:
            self._waiting.append(entry)
            self._arrived.notify()
            is_first, self._is_draining = not self._is_draining, True
        if is_first:
            # Not on a thread of `jobs`: each commit needs one of those, and they could all be waiting here.
            threading.Thread(target=self._drain, name="commits", daemon=True).start()
        while not _is_done(entry.done):
            if call.cancelled or (call.remaining() or 1) <= 0:
                with self._lock:
                    if entry in self._waiting:
                        self._waiting.remove(entry)
                        call.check()
        return entry.done.result()

    def _run(
        self, call: Call, work: Work[CommitResult], alone: Callable[[], CommitResult] | None
    ) -> CommitResult:
        """Commit without Spark, which takes a few milliseconds and is not interrupted; else by Spark."""
        root, table = self._log.root, self._table
        self._prepare(call)
        if alone is not None and self._commits_alone:
            call.check()
            try:
                with shared(root, table):
                    self._check_same_table()
                    return alone()
            except SparkRequiredError as error:
                _log.debug("commit left to Spark", table=table, reason=str(error))
        return self._jobs.run_to_end(call, table, while_writing(root, table, work))

    def _check_same_table(self) -> None:
        """Raise NotFoundError if another table has taken the place of this one; the lock keeps it there."""
        if self._log.header().metadata.table_id != self.table_id:
            raise NotFoundError("table", self._table)

    def _recover(self, key: StatementKey | None, work: Callable[[], Committed]) -> Committed:
        """Do work; if Spark is lost meanwhile, find out from the log whether it was committed."""
        try:
            return work()
        except UnavailableError:
            done = self._outcome_if_readable(key)
            if done is None:
                raise
            return Committed(done)

    def _outcome_if_readable(self, key: StatementKey | None) -> int | None:
        """Return the outcome of a key; None also if the log cannot be read now."""
        try:
            return self.outcome(key)
        except (SparkportError, OSError) as error:
            _log.warning(
                "cannot find out whether an interrupted statement was committed",
                table=self._table,
                reason=str(error),
            )
            return None

    def _drain(self) -> None:
        """Commit the queue, group by group, until it is empty."""
        while True:
            with self._lock:
                if self._waiting:
                    self._gather()
                if not self._waiting:
                    self._is_draining = False
                    return
                group = self._next_group()
                for entry in group:
                    self._waiting.remove(entry)
            begun = time.monotonic()
            MEASURES.count("commit_groups")
            MEASURES.count("grouped_statements", len(group))
            self._commit(group)
            self._last_size, self._last_seconds = len(group), time.monotonic() - begun

    def _gather(self) -> None:
        """Wait a moment for as many as shared the last commit: clients often send the next one at once."""
        seconds = min(_GATHER_SHARE * self._last_seconds, _MAX_GATHER_SECONDS)
        self._arrived.wait_for(lambda: len(self._waiting) >= self._last_size, seconds)

    def _next_group(self) -> list[_Append]:
        """Return the queued appends that can share the next commit."""
        first = self._waiting[0]
        if first.key is not None and not self._joins_keys:
            return [first]
        alike = (entry for entry in self._waiting if entry.fields == first.fields)
        return [entry for entry in alike if entry.key is None or self._joins_keys][:_MAX_GROUP]

    def _commit(self, group: list[_Append]) -> None:
        try:
            while group:
                result = self._append_group(Call(), group)
                for entry in group:
                    if result.is_of(entry):
                        _finish(entry, result)
                # With a key that was in the log already, nothing of the others was committed yet.
                group = [entry for entry in group if not result.is_of(entry)]
        except Exception as error:  # noqa: BLE001  (it is raised in the statements that wait)
            refusals = InvalidRequestError | PreconditionError | FinalConflictError
            if len(group) > 1 and isinstance(error, refusals):
                # One of them is the cause: each gets a commit, and an error, of its own. After any other
                # error the commit may have happened, and a second one would add the rows twice.
                for entry in group:
                    self._commit([entry])
                return
            for entry in group:
                # One key says nothing about the others: another server may have written it.
                is_lost = isinstance(error, UnavailableError)
                done = self._outcome_if_readable(entry.key) if is_lost else None
                if done is None:
                    entry.done.set_exception(error)
                else:
                    entry.done.set_result(Committed(done))

    def _append_group(self, call: Call, group: Sequence[_Append]) -> _GroupResult:
        """Append all, or nothing if some keys are in the log already."""
        rows = Append(
            self._table,
            self.table_id,
            [entry.stage for entry in group],
            group[0].fields,
            {entry.key.name: entry.key.outcome(entry.stage.rows) for entry in group if entry.key},
            [entry.check for entry in group],
            group[0].checked_version,
        )
        work = functools.partial(append, self._log, rows)
        alone = functools.partial(append, self._log, rows, None)
        # In a conflict nothing was committed; another server may have written the key or added row ids.
        result = retry_on_conflict(call, lambda _: self._run(call, work, alone), max_tries=_MAX_APPEND_TRIES)
        return _GroupResult(result, len(group) == 1)


@dataclass(frozen=True, slots=True)
class _GroupResult:
    """The outcome of a group commit."""

    result: CommitResult
    is_alone: bool

    def is_of(self, entry: _Append) -> bool:
        """Return whether a statement is done: all are, or only those whose keys were in the log."""
        return not self.result.known or self._recorded(entry) is not None

    def of(self, entry: _Append) -> Committed:
        """Return the result of a statement that is done.

        Raises InvalidRequestError if another statement has used its key.
        """
        recorded = self._recorded(entry)
        if recorded is not None and entry.key is not None:
            return Committed(entry.key.matched(recorded) or 0)
        return Committed(entry.stage.rows, self.result.version, self.is_alone)

    def _recorded(self, entry: _Append) -> Outcome | None:
        return recorded_outcome(self.result.known, entry.key.name) if entry.key else None


def _finish(entry: _Append, result: _GroupResult) -> None:
    try:
        entry.done.set_result(result.of(entry))
    except InvalidRequestError as error:
        entry.done.set_exception(error)


def _is_done(future: Future[Committed]) -> bool:
    with contextlib.suppress(TimeoutError):
        future.exception(timeout=_POLL_SECONDS)
    return future.done()


def _record_key(work: Work[CommitResult], key: StatementKey, affected: int) -> Work[CommitResult]:
    """Return the work such that its commit also writes the key to the log."""

    def run(session: SparkSession) -> CommitResult:
        with idempotent_session(session, key.name, key.outcome(affected)) as own:
            return work(own)

    return run
