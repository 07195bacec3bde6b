from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest

from sparkport.catalog import Call
from sparkport.catalog.measures import MEASURES
from sparkport.errors import CancelledError, DeadlineExceededError, UnavailableError
from sparkport.spark.session.capabilities import EMBEDDED
from sparkport.spark.session.host import SparkHost
from sparkport.spark.session.jobs import Jobs


class Session:
    """Notes the groups that are cancelled, and is its own context and all that is behind it."""

    def __init__(self) -> None:
        self.cancelled: list[str] = []
        self.groups: list[str] = []
        self.over = threading.Event()
        self.sparkContext = self._jsc = self

    def sc(self) -> Session:
        """Return the Java context."""
        return self

    def setJobGroup(self, group: str, _: str) -> None:  # noqa: N802  (PySpark's name)
        """Note under which group the thread works."""
        self.groups.append(group)

    def cancelJobGroupAndFutureJobs(self, group: str) -> None:  # noqa: N802  (Spark's name)
        """Cancel a group."""
        self.cancelled.append(group)
        self.over.set()


class Host:
    """Gives out one session."""

    capabilities = EMBEDDED

    def __init__(self) -> None:
        self.given = Session()

    @contextmanager
    def use(self, call: Call, table: str = "") -> Iterator[Session]:
        """Give out the session."""
        del table
        call.check()
        yield self.given


@pytest.fixture
def session() -> Session:
    """Return the session that the jobs run on."""
    return Session()


@pytest.fixture
def jobs(session: Session) -> Iterator[Jobs]:
    """Return jobs without Spark."""
    host = Host()
    host.given = session
    made = Jobs(cast("SparkHost", host))
    yield made
    made.close()


def until_cancelled(session: Any) -> str:
    """Work until somebody cancels."""
    assert session.over.wait(10)
    return "late"


def test_results_come_in_the_order_of_the_works(jobs: Jobs) -> None:
    """A work that takes longer holds back those after it, but not their beginning."""

    def work(seconds: float, result: int, _: object) -> int:
        time.sleep(seconds)
        return result

    works = [lambda s, n=n: work(0.1 if n == 0 else 0.0, n, s) for n in range(5)]

    assert list(jobs.map_ordered(Call(), "s.t", works, ahead=3)) == [0, 1, 2, 3, 4]


def test_finished_work_is_not_cancelled(jobs: Jobs, session: Session) -> None:
    """The end of a call after its last result costs Spark nothing."""
    call = Call()
    results = list(jobs.map_ordered(call, "s.t", [lambda _: 1, lambda _: 2], ahead=2))
    one = jobs.run(call, "s.t", lambda _: 3)
    call.cancel()
    jobs.close()

    assert (results, one) == ([1, 2], 3)
    assert session.cancelled == []


def test_a_cancelled_call_cancels_the_only_work(jobs: Jobs, session: Session) -> None:
    """Also the result that is being waited for is work under way."""
    call = Call()
    threading.Timer(0.1, call.cancel).start()
    with pytest.raises(CancelledError):
        jobs.run(call, "s.t", until_cancelled)

    assert session.over.wait(10)
    assert set(session.cancelled) == set(session.groups)


@pytest.mark.parametrize("timeout", [None, 0.1])
def test_work_that_was_done_after_the_call_counts(
    jobs: Jobs, session: Session, timeout: float | None
) -> None:
    """A commit that went through though its call was over is told as what it is."""
    call = Call(timeout=timeout)
    if timeout is None:
        threading.Timer(0.1, call.cancel).start()

    assert jobs.run_to_end(call, "s.t", until_cancelled) == "late"
    assert session.cancelled == session.groups


def test_loss_of_spark_is_told_after_the_call_too(jobs: Jobs, session: Session) -> None:
    """Who commits looks into the log then, so that must not look like a cancellation."""

    def lose(_: object) -> None:
        until_cancelled(session)
        raise UnavailableError("lost")

    call = Call()
    threading.Timer(0.1, call.cancel).start()
    with pytest.raises(UnavailableError):
        jobs.run_to_end(call, "s.t", lose)


def test_work_that_never_began_is_cancelled(jobs: Jobs) -> None:
    """Work that waits for a thread is taken back."""
    go_on, began = threading.Event(), threading.Semaphore(0)

    def block(_: object) -> None:
        began.release()
        go_on.wait(10)

    def levels() -> tuple[int, int]:
        return MEASURES.value("spark_jobs_running"), MEASURES.value("spark_jobs_queued")

    running, queued = levels()
    callers = [threading.Thread(target=jobs.run, args=(Call(), "s.t", block)) for _ in range(64)]
    for caller in callers:
        caller.start()
    for _ in callers:
        assert began.acquire(timeout=10)
    waiting = threading.Thread(target=give_up, args=(jobs, block))
    waiting.start()
    while levels() != (running + 64, queued + 1):
        assert waiting.is_alive()
        time.sleep(0.001)
    waiting.join()
    given_up = levels()
    go_on.set()
    for caller in callers:
        caller.join()

    assert given_up == (running + 64, queued)
    assert levels() == (running, queued)
    assert not began.acquire(blocking=False)


def give_up(jobs: Jobs, work: Callable[[object], None]) -> None:
    """Wait for a work that does not begin, but not for long."""
    with pytest.raises(DeadlineExceededError):
        jobs.run_to_end(Call(timeout=0.5), "s.t", work)


def test_a_job_that_fails_is_counted(jobs: Jobs) -> None:
    """Whoever watches the server sees that Spark fails."""
    before = MEASURES.value("spark_jobs_failed")

    def fail(_: object) -> None:
        raise UnavailableError("lost")

    with pytest.raises(UnavailableError):
        jobs.run(Call(), "s.t", fail)

    assert MEASURES.value("spark_jobs_failed") == before + 1


def test_a_deadline_cancels_the_work(jobs: Jobs, session: Session) -> None:
    """Nobody says that the caller's time is up, and still the work ends."""
    with pytest.raises(DeadlineExceededError):
        jobs.run(Call(timeout=0.1), "s.t", until_cancelled)

    assert session.over.wait(10)
    assert set(session.cancelled) == set(session.groups)


def test_a_reader_that_stops_cancels_the_rest(jobs: Jobs, session: Session) -> None:
    """Work ahead of a closed iterator is cancelled."""
    results = jobs.map_ordered(Call(), "s.t", [lambda _: "first", until_cancelled], ahead=2)
    first = next(results)
    results.close()  # type: ignore[attr-defined]

    assert first == "first"
    assert session.over.wait(10)


def test_after_the_end_no_work_begins(jobs: Jobs) -> None:
    """A call that comes while the server stops is told so."""
    jobs.close()

    with pytest.raises(UnavailableError, match="the server is stopping"):
        jobs.run(Call(), "s.t", lambda _: 1)


def test_a_call_that_is_cancelled_after_the_end_ends_as_cancelled(jobs: Jobs, session: Session) -> None:
    """With Spark gone there is nothing left to cancel, and that is no fault."""
    call = Call()

    def stop() -> None:
        jobs.close()
        call.cancel()

    threading.Timer(0.1, stop).start()
    with pytest.raises(CancelledError):
        jobs.run(call, "s.t", until_cancelled)
    session.over.set()

    assert session.cancelled == []


def test_streamed_work_is_interrupted_on_another_thread(
    jobs: Jobs, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever notes that a client is gone serves others too, and must not wait for Spark."""
    call = Call()
    waiting, over = threading.Event(), threading.Event()
    interrupting: list[str] = []

    def interrupt(_: str) -> None:
        interrupting.append(threading.current_thread().name)
        over.set()

    def rows(_: object) -> Iterator[int]:
        yield 1
        waiting.set()
        assert over.wait(10)
        yield 2

    def watch() -> None:
        waiting.wait(10)
        call.cancel()

    monkeypatch.setattr(session, "cancelJobGroupAndFutureJobs", interrupt)
    watching = threading.Thread(target=watch, name="watch")
    watching.start()
    with pytest.raises(CancelledError):
        list(jobs.stream(call, "s.t", rows))
    watching.join()

    assert [name.rpartition("_")[0] for name in interrupting] == ["spark-cancel"]
