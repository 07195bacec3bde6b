"""Spark jobs on threads of their own, a few ahead of whoever reads their results."""

from __future__ import annotations

import contextlib
import functools
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, TypeVar

import structlog
from pyspark import SparkStageInfo
from pyspark.sql import SparkSession

from sparkport.catalog.call import Call
from sparkport.catalog.measures import MEASURES
from sparkport.catalog.meter import Progress
from sparkport.errors import CancelledError, DeadlineExceededError, SparkportError, UnavailableError
from sparkport.spark.session.host import SparkHost

_log = structlog.get_logger("sparkport.spark")

_THREADS = 64
_CANCELLING_THREADS = 4
_CHECK_SECONDS = 0.1

T = TypeVar("T")
Work = Callable[[SparkSession], T]


@dataclass(frozen=True, slots=True)
class _Cancelled:
    at: float
    futures: tuple[Future[Any], ...]


class Jobs:
    """Runs work on a Spark session and stops it when nobody wants its results any more."""

    def __init__(self, host: SparkHost, *, keeps_cancelled: bool = False) -> None:
        """With `keeps_cancelled`, `still_running` knows of cancelled work; it has to be called then."""
        self.host = host
        self._keeps_cancelled = keeps_cancelled
        self._cancelled: dict[str, _Cancelled] = {}
        self._lock = threading.Lock()
        # PySpark pairs each thread with one of the JVM, so threads are kept.
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="spark-job")
        # Threads of its own: those of the jobs may all be busy with what is to be cancelled.
        self._cancelling = ThreadPoolExecutor(_CANCELLING_THREADS, thread_name_prefix="spark-cancel")

    def map_ordered(self, call: Call, table: str, works: Sequence[Work[T]], *, ahead: int) -> Iterator[T]:
        """Yield the results of the works in their order, with up to `ahead` of them under way.

        Work that is under way when the iterator is closed or the call ends is cancelled.
        """
        group = _new_group()
        running: deque[Future[T]] = deque()
        left = iter(works)
        over = False

        def cancel() -> None:
            nonlocal over
            over = True
            if running:
                self._cancel(group, tuple(running))

        def run(work: Work[T]) -> T:
            with self._tagged(call, group, table) as session:
                return work(session)

        call.on_cancel(cancel)
        progress = functools.partial(self._progress, group)
        call.meter.watch(progress)
        try:
            while True:
                while len(running) < ahead and not over and (work := next(left, None)) is not None:
                    running.append(self._submit(run, work))
                if not running:
                    call.check()
                    return
                result = _result(call, running[0])
                running.popleft()
                yield result
        finally:
            call.meter.unwatch(progress)
            cancel()

    def run(self, call: Call, table: str, work: Work[T]) -> T:
        """Return the result of one piece of work."""
        return next(self.map_ordered(call, table, [work], ahead=1))

    def run_to_end(self, call: Call, table: str, work: Work[T]) -> T:
        """Return the result of work that commits something, and wait for it even when the call has ended.

        The end of the call cancels the work, but Spark may learn of that too late: what was done counts,
        and is never taken for something that was not. Raises what the work raises, which is what
        `Call.check` raises where it was cancelled in time.
        """
        group = _new_group()

        def run(_: Work[T]) -> T:
            with self._tagged(call, group, table) as session:
                return work(session)

        future = self._submit(run, work)
        progress = functools.partial(self._progress, group)
        call.meter.watch(progress)
        try:
            while not _is_done(call, future, _CHECK_SECONDS):
                pass
        except (CancelledError, DeadlineExceededError):
            self._cancel(group, (future,))
            if future.cancelled():  # before it began
                raise
        finally:
            call.meter.unwatch(progress)
        return future.result()

    def run_with_progress(
        self, call: Call, table: str, work: Work[T], *, seconds: float
    ) -> Generator[Progress | None, None, T]:
        """Yield the progress of one piece of work, every `seconds`, and return its result.

        Over Spark Connect progress is not known, which is None.
        """
        group = _new_group()

        def run(_: Work[T]) -> T:
            with self._tagged(call, group, table) as session:
                return work(session)

        future = self._submit(run, work)

        def cancel() -> None:
            if not future.done():
                self._cancel(group, (future,))

        call.on_cancel(cancel)
        try:
            while not _is_done(call, future, seconds):
                yield self._progress(group)
            return future.result()
        finally:
            cancel()

    def stream(self, call: Call, table: str, work: Work[Iterator[T]]) -> Iterator[T]:
        """Yield what work gives bit by bit, on the caller's own thread."""
        group = _new_group()
        finished = False
        progress = functools.partial(self._progress, group)
        call.meter.watch(progress)
        call.on_cancel(lambda: None if finished else self._request_interrupt(group))
        try:
            with self._tagged(call, group, table) as session:
                for result in work(session):
                    yield result
                    call.check()
        finally:
            call.meter.unwatch(progress)
            finished = True

    def still_running(self, seconds: float) -> int:
        """Return how many pieces of work were cancelled more than `seconds` ago and have not ended.

        Spark can only ask a task to end, and what it computes before there are tasks not even that.
        """
        with self._lock:
            cancelled = tuple(self._cancelled.items())
        count = 0
        for group, work in cancelled:
            if all(future.done() for future in work.futures) and not self._active_tasks(group):
                with self._lock:
                    del self._cancelled[group]
            else:
                count += time.monotonic() - work.at > seconds
        return count

    def close(self) -> None:
        """Let no more work begin."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._cancelling.shutdown(wait=False, cancel_futures=True)

    @contextlib.contextmanager
    def _tagged(self, call: Call, group: str, table: str) -> Iterator[SparkSession]:
        """Give a session, and tag the jobs that this thread starts in it, so that they can be cancelled."""
        with call.meter.step("Spark job", table), self.host.use(call, table) as session:
            if self.host.capabilities.job_groups:
                session.sparkContext.setJobGroup(group, f"scan of {table}")
                yield session
                return
            session.addTag(group)
            try:
                yield session
            finally:
                session.removeTag(group)

    def _progress(self, group: str) -> Progress | None:
        if not self.host.capabilities.job_groups:
            return None
        stages = self._stages(group)
        return Progress(
            sum(stage.numCompletedTasks for stage in stages), sum(stage.numTasks for stage in stages)
        )

    def _active_tasks(self, group: str) -> int:
        return sum(stage.numActiveTasks for stage in self._stages(group))

    def _stages(self, group: str) -> list[SparkStageInfo]:
        with self.host.use(Call()) as session:
            tracker = session.sparkContext.statusTracker()
            jobs = filter(None, map(tracker.getJobInfo, tracker.getJobIdsForGroup(group)))
            stages = {stage for job in jobs for stage in job.stageIds}
            return [info for info in map(tracker.getStageInfo, stages) if info is not None]

    def _submit(self, run: Callable[[Work[T]], T], work: Work[T]) -> Future[T]:
        MEASURES.count("spark_jobs_queued")
        try:
            future = self._threads.submit(_measured, run, work)
        except RuntimeError as error:  # what a pool says that was shut down
            MEASURES.count("spark_jobs_queued", -1)
            raise UnavailableError("the server is stopping") from error
        future.add_done_callback(_dequeue)
        return future

    def _cancel(self, group: str, running: Sequence[Future[T]]) -> None:
        for future in running:
            future.cancel()
        if self._keeps_cancelled:
            with self._lock:
                self._cancelled.setdefault(group, _Cancelled(time.monotonic(), tuple(running)))
        self._request_interrupt(group)

    def _request_interrupt(self, group: str) -> None:
        """Have Spark interrupt its jobs of a group, on another thread: Spark may be slow to answer."""
        # A pool that was shut down takes nothing more; Spark's end ends its jobs.
        with contextlib.suppress(RuntimeError):
            self._cancelling.submit(self._interrupt, group)

    def _interrupt(self, group: str) -> None:
        try:
            with self.host.use(Call()) as session:
                if self.host.capabilities.job_groups:
                    # Also what has not come to Spark yet: a thread may be about to start its job.
                    session.sparkContext._jsc.sc().cancelJobGroupAndFutureJobs(group)  # noqa: SLF001
                else:
                    session.interruptTag(group)
        except SparkportError as error:  # with its session the job is gone too
            _log.debug("nothing to cancel", reason=str(error))


def _measured(run: Callable[[Work[T]], T], work: Work[T]) -> T:
    MEASURES.count("spark_jobs_queued", -1)
    MEASURES.count("spark_jobs_running")
    try:
        return run(work)
    except BaseException:
        MEASURES.count("spark_jobs_failed")
        raise
    finally:
        MEASURES.count("spark_jobs_running", -1)


def _dequeue(future: Future[T]) -> None:
    if future.cancelled():  # before it began
        MEASURES.count("spark_jobs_queued", -1)


def _new_group() -> str:
    return f"sparkport-{secrets.token_hex(8)}"


def _result(call: Call, future: Future[T]) -> T:
    while not wait([future], timeout=_CHECK_SECONDS).done:
        call.check()
    call.check()
    return future.result()


def _is_done(call: Call, future: Future[T], seconds: float) -> bool:
    """Wait for a future for at most `seconds`, during which the call may end."""
    deadline = time.monotonic() + seconds
    while not wait([future], timeout=_CHECK_SECONDS).done:
        call.check()
        if time.monotonic() >= deadline:
            return False
    call.check()
    return True
