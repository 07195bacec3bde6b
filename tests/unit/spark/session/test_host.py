from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, Never

import pytest

from sparkport.catalog import Call
from sparkport.catalog.measures import MEASURES
from sparkport.errors import CancelledError, DeadlineExceededError, UnavailableError
from sparkport.spark.session import host
from sparkport.spark.session.host import SparkHost, _close, _Link
from sparkport.spark.session.settings import SparkSettings
from tests.logs import captured_logs


class FailingHost(SparkHost):
    """A host whose Spark never comes up."""

    attempts = 0

    def _launch(self) -> Never:
        self.attempts += 1
        raise UnavailableError("there is no Java")


class SlowHost(SparkHost):
    """A host whose Spark takes as long as the test."""

    def __init__(self, settings: SparkSettings) -> None:
        super().__init__(settings)
        self.ended = threading.Event()

    def _launch(self) -> Never:
        self.ended.wait(30)
        raise UnavailableError("the test is over")


@pytest.fixture
def slow_host() -> Iterator[SlowHost]:
    """Return a host that is still starting."""
    host = SlowHost(SparkSettings("/data"))
    yield host
    host.ended.set()
    host.stop()


def test_a_failed_start_is_told_with_its_reason() -> None:
    """The caller learns why there is no Spark."""
    host = FailingHost(SparkSettings("/data"))

    with pytest.raises(UnavailableError, match=r"^Spark could not be started: there is no Java$"):
        host.session(Call(timeout=10))


def test_a_new_start_is_tried_after_a_while() -> None:
    """Calls right after a failure are refused at once; a later one tries again."""
    host = FailingHost(SparkSettings("/data"))
    for _ in range(3):
        with pytest.raises(UnavailableError):
            host.session(Call(timeout=10))
    early = host.attempts
    host._retry_at = 0.0
    with pytest.raises(UnavailableError):
        host.session(Call(timeout=10))

    assert (early, host.attempts) == (1, 2)


def test_start_returns_at_once(slow_host: SlowHost) -> None:
    """A server listens while Spark comes up, and asking twice starts one."""
    slow_host.start()
    first = slow_host._starter
    slow_host.start()

    assert first is not None
    assert slow_host._starter is first


def test_a_cancelled_call_does_not_wait_for_spark(slow_host: SlowHost) -> None:
    """Who went away is let go before Spark is up."""
    call = Call()
    threading.Timer(0.2, call.cancel).start()

    with pytest.raises(CancelledError):
        slow_host.session(call)


def test_the_deadline_of_a_call_ends_its_waiting(slow_host: SlowHost) -> None:
    """Waiting for Spark is part of the call's time."""
    with pytest.raises(DeadlineExceededError):
        slow_host.session(Call(timeout=0.2))


def test_a_stopped_host_is_not_started_again() -> None:
    """Calls that come late are refused."""
    host = FailingHost(SparkSettings("/data"))
    host.stop()
    host.start()

    with pytest.raises(UnavailableError, match="Spark was stopped"):
        host.session(Call())
    assert host.attempts == 0


@pytest.fixture
def process(request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[bytes]]:
    """Return a process that ends after the given seconds."""
    with subprocess.Popen(["sleep", request.param]) as process:
        yield process
        process.kill()


@pytest.fixture
def dying(process: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch) -> _Link:
    """Return a session whose process is only known to be dead by those who wait for it."""
    jvm: Any = SimpleNamespace(process=process, alive=True, kill=process.kill, end=process.wait)
    wait = process.wait

    def ends(timeout: float | None = None) -> int:
        code = wait(timeout)
        jvm.alive = False
        return code

    def refuses() -> None:
        raise ConnectionRefusedError

    monkeypatch.setattr(process, "wait", ends)
    spark: Any = SimpleNamespace(stop=refuses)
    return _Link(spark, jvm, None)


@pytest.mark.parametrize(
    ("process", "told"), [("0.1", UnavailableError), ("60", AttributeError)], indirect=["process"]
)
def test_unexplained_error_may_be_that_of_a_dying_spark(
    monkeypatch: pytest.MonkeyPatch, dying: _Link, told: type[Exception]
) -> None:
    """PySpark fails in any way a moment before its process can be seen to be dead."""
    host = SparkHost(SparkSettings("/data"))
    host._link = dying
    monkeypatch.setattr(host, "_wait", lambda _: dying)
    monkeypatch.setattr(host, "_lose", lambda _: None)

    with pytest.raises(told), host.use(Call()):
        raise AttributeError("'NoneType' object has no attribute 'org'")


def test_a_restart_is_counted(slow_host: SlowHost) -> None:
    """A session that is lost is replaced once, whoever finds out, and whoever watches the server sees it."""
    link: Any = SimpleNamespace(jvm=None, spark=SimpleNamespace(stop=lambda: None), scratch=None)
    slow_host._link = link
    before = MEASURES.value("spark_restarts")
    slow_host._lose(link)
    slow_host._lose(link)

    assert MEASURES.value("spark_restarts") == before + 1


@pytest.mark.parametrize(
    ("process", "said"), [("0.1", []), ("1", ["Spark did not stop cleanly"])], indirect=["process"]
)
def test_a_dying_spark_need_not_say_goodbye(
    monkeypatch: pytest.MonkeyPatch, dying: _Link, said: list[str]
) -> None:
    """That a session did not end well is worth a word only while its process lives."""
    monkeypatch.setattr(host, "forget_session", lambda: None)  # the session of other tests
    with captured_logs() as logs:
        _close(dying)

    assert [entry["event"] for entry in logs] == said


def test_a_warm_up_waits_while_calls_use_the_session() -> None:
    """The first calls have Spark for themselves; a session that is gone is not warmed up."""
    waiting = SparkHost(SparkSettings("/data"))
    link: Any = SimpleNamespace()
    waiting._link = link
    waiting._uses = 1
    answers: list[bool] = []
    thread = threading.Thread(target=lambda: answers.append(waiting._is_idle(link)))
    thread.start()
    thread.join(2 * host._FIRST_CALLS_SECONDS)

    assert thread.is_alive()

    with waiting._changed:
        waiting._uses = 0
        waiting._changed.notify_all()
    thread.join(10)

    assert answers == [True]

    waiting._link = None

    assert not waiting._is_idle(link)
