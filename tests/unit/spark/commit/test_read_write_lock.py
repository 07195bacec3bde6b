"""Who waits for whom at the gate of a table."""

from __future__ import annotations

import threading

import pytest

from sparkport.catalog import Call
from sparkport.errors import CancelledError, DeadlineExceededError
from sparkport.spark.commit.read_write_lock import ReadWriteLock


class WaitingCall(Call):
    """A call that tells how often whoever waits has looked after it."""

    def __init__(self, timeout: float) -> None:
        super().__init__(timeout=timeout)
        self.checks = threading.Semaphore(0)

    def check(self) -> None:
        """Count, and check."""
        self.checks.release()
        super().check()


def test_many_are_inside_together() -> None:
    """Those who share do not wait for each other."""
    gate = ReadWriteLock()
    with gate.shared(Call()), gate.shared(Call(timeout=20)):
        pass


def test_one_alone_waits_for_those_inside() -> None:
    """Nobody is inside with the one who wants to be alone."""
    gate = ReadWriteLock()
    seen: list[str] = []
    waiting = WaitingCall(timeout=10)

    def exclusive() -> None:
        with gate.exclusive(waiting):
            seen.append("exclusive")

    with gate.shared(Call()):
        thread = threading.Thread(target=exclusive)
        thread.start()
        for _ in range(3):  # before it tries, and each time that it goes on waiting
            assert waiting.checks.acquire(timeout=20)
        seen.append("shared")
    thread.join()

    assert seen == ["shared", "exclusive"]


@pytest.mark.parametrize("way", ["shared", "exclusive"])
def test_who_comes_while_one_is_alone_waits_as_long_as_the_call_lives(way: str) -> None:
    """A deadline ends the wait, and the gate stays as it was."""
    gate = ReadWriteLock()
    with gate.exclusive(Call()), pytest.raises(DeadlineExceededError), getattr(gate, way)(Call(timeout=0.2)):
        pass

    with gate.exclusive(Call(timeout=20)):
        pass


def test_who_gives_up_waiting_lets_others_in() -> None:
    """A cancelled wait to be alone does not keep the gate closed."""
    gate = ReadWriteLock()
    call = Call()
    timer = threading.Timer(0.2, call.cancel)
    timer.start()
    with gate.shared(Call()):
        with pytest.raises(CancelledError), gate.exclusive(call):
            pass
        with gate.shared(Call(timeout=20)):
            pass
    timer.join()
