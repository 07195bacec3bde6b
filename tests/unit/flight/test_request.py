"""What a request knows of its call: whether the client is still there before a commit."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sparkport.catalog import Call
from sparkport.errors import CancelledError
from sparkport.flight import request as requests
from sparkport.flight.request import Headers, Request


class Clock:
    """A clock that stands still but for sleeps, from which one wakes up late."""

    def __init__(self, late: Callable[[int], float]) -> None:
        self.late = late
        self.now = 0.0
        self.sleeps = 0

    def perf_counter(self) -> float:
        """Return the time."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let time go by."""
        self.sleeps += 1
        self.now += seconds + self.late(self.sleeps)


class Context:
    """A call whose cancellation is told at the n-th look, without waiting for it."""

    connection = ""

    def __init__(self, call: Call, told_at: int | None = None) -> None:
        self.call = call
        self.told_at = told_at
        self.looks = 0

    def time_remaining(self) -> float | None:
        """There is no deadline."""
        return None

    def send_initial_metadata(self, initial_metadata: tuple[tuple[str, str], ...]) -> None:
        """Send nothing."""

    def take_events(self, seconds: float) -> None:
        """Take what has happened."""
        assert seconds == 0
        self.looks += 1
        if self.looks == self.told_at:
            self.call.cancel()


def checked(monkeypatch: pytest.MonkeyPatch, clock: Clock, told_at: int | None = None) -> int:
    """Check that the client is there; return how often was looked."""
    monkeypatch.setattr(requests, "time", clock)
    call = Call()
    context = Context(call, told_at)
    Request(call, Headers(()), context).check_alive()
    return context.looks


def test_a_quiet_server_commits_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """One look after a millisecond: what a statement waits for should somebody have gone."""
    assert checked(monkeypatch, Clock(lambda _: 0.0001)) == 1


def test_a_busy_server_looks_until_it_is_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """While threads are woken late, one that brings a cancellation may still wait for its turn."""
    assert checked(monkeypatch, Clock(lambda turn: 0.01 if turn < 3 else 0.0)) == 3


def test_a_server_that_is_always_busy_commits_at_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is an end to the waiting."""
    assert checked(monkeypatch, Clock(lambda _: 0.01)) == 5


@pytest.mark.parametrize("told_at", [1, 2, 5])
def test_cancellation_that_comes_meanwhile_counts(monkeypatch: pytest.MonkeyPatch, told_at: int) -> None:
    """Nothing is committed for a client that has gone."""
    with pytest.raises(CancelledError):
        checked(monkeypatch, Clock(lambda _: 0.01), told_at)
