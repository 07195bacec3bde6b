"""The commits of one table: who may write when, and who writes together."""

from __future__ import annotations

import contextlib
import functools
import random
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pyspark.sql import SparkSession

from sparkport.catalog.call import Call
from sparkport.errors import ConflictError, InvalidRequestError, PreconditionError
from sparkport.spark.jobs import Jobs, Work
from sparkport.spark.staged_rows import staged_rows
from sparkport.spark.staging import Stage

_POLL_SECONDS = 0.1
_SMALL_ROWS = 50_000
_MOST_TOGETHER = 64
_MOST_TRIES = 8
_FIRST_PAUSE = 0.05

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Append:
    """A few rows that wait to be appended."""

    stage: Stage
    fields: list[dict[str, Any]]
    done: Future[None] = field(default_factory=Future)


class TableCommits:
    """Orders the writes of this server to one table.

    Statements that change rows go one after the other: of two that touch the same files Delta lets
    only one win. Appends need not wait for those. While one small append is under way others
    gather, and the next commit takes them all.
    """

    def __init__(self, jobs: Jobs, table: str, root: str) -> None:
        self._jobs = jobs
        self._table = table
        self._root = root
        self._changing = threading.Lock()
        self._lock = threading.Lock()
        self._waiting: deque[_Append] = deque()
        self._is_appending = False

    @contextlib.contextmanager
    def alone(self, call: Call) -> Iterator[None]:
        """Be the only one that changes rows; wait for it as long as the call lives."""
        while not self._changing.acquire(timeout=_POLL_SECONDS):
            call.check()
        try:
            yield
        finally:
            self._changing.release()

    def change(self, call: Call, work: Work[T]) -> T:
        """Run a change of rows, again when an outside writer was faster. The caller is alone."""
        return _retried(call, lambda: self._jobs.run(call, self._table, work))

    def append(self, call: Call, stage: Stage, fields: Sequence[dict[str, Any]]) -> None:
        """Append the rows of a stage in one commit, a few rows together with others that wait.

        Such a joint commit is not cancelled once it is under way: it is of others too.
        """
        if stage.rows > _SMALL_ROWS:
            work = functools.partial(_append, self._root, [str(stage.folder)], list(fields))
            self._jobs.run(call, self._table, work)
            return
        entry = _Append(stage, list(fields))
        with self._lock:
            self._waiting.append(entry)
            leads, self._is_appending = not self._is_appending, True
        if leads:
            self._jobs.submit(self._drain)
        while not _is_done(entry.done):
            if call.cancelled or (call.remaining() or 1) <= 0:
                with self._lock:
                    if entry in self._waiting:
                        self._waiting.remove(entry)
                        call.check()
        entry.done.result()

    def _drain(self) -> None:
        """Commit what waits, all of it at a time, until nothing does."""
        while True:
            with self._lock:
                if not self._waiting:
                    self._is_appending = False
                    return
                first = self._waiting[0]
                group = [entry for entry in self._waiting if entry.fields == first.fields][:_MOST_TOGETHER]
                for entry in group:
                    self._waiting.remove(entry)
            self._commit(group)

    def _commit(self, group: list[_Append]) -> None:
        folders = [str(entry.stage.folder) for entry in group]
        try:
            work = functools.partial(_append, self._root, folders, group[0].fields)
            self._jobs.run(Call(), self._table, work)
        except Exception as error:  # noqa: BLE001  (it goes to the statements that wait)
            if len(group) > 1 and isinstance(error, InvalidRequestError | PreconditionError):
                # One of them is to blame: each gets a commit, and an error, of its own. After any other
                # error the commit may have landed all the same, and again would be the rows twice.
                for entry in group:
                    self._commit([entry])
                return
            for entry in group:
                entry.done.set_exception(error)
        else:
            for entry in group:
                entry.done.set_result(None)


def _is_done(future: Future[None]) -> bool:
    with contextlib.suppress(TimeoutError):
        future.exception(timeout=_POLL_SECONDS)
    return future.done()


def _retried(call: Call, work: Callable[[], T]) -> T:
    pause = _FIRST_PAUSE
    for _ in range(_MOST_TRIES - 1):
        try:
            return work()
        except ConflictError:
            call.wait_cancelled(pause * random.uniform(0.5, 1.5))  # noqa: S311  (to part those who collide)
            call.check()
            pause *= 2
    return work()


def _append(root: str, folders: list[str], fields: list[dict[str, Any]], session: SparkSession) -> None:
    staged_rows(fields, folders, session).write.format("delta").mode("append").save(root)
