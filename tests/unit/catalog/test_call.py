from __future__ import annotations

import threading

import pytest

from sparkport.catalog import Call
from sparkport.errors import CancelledError, DeadlineExceededError


def test_new_call_is_nobody_in_no_hurry() -> None:
    """Without more it is anonymous, without transaction and deadline."""
    call = Call()

    assert (call.principal, call.transaction_id, call.trace_id) == ("anonymous", None, "")
    assert call.deadline is None
    assert call.remaining() is None
    assert not call.cancelled
    call.check()


def test_cancelled_call_fails_its_check() -> None:
    """Long work stops at the next check."""
    call = Call()
    call.cancel()

    assert call.cancelled
    with pytest.raises(CancelledError, match=r"^the call was cancelled$"):
        call.check()


def test_deadline_fails_the_check() -> None:
    """Time that is up stops work as well."""
    call = Call(timeout=0.0)
    remaining = call.remaining()

    assert remaining is not None
    assert remaining <= 0
    with pytest.raises(DeadlineExceededError, match=r"^the deadline of the call has passed$"):
        call.check()


def test_time_is_left_before_the_deadline() -> None:
    """A deadline far away changes nothing."""
    call = Call(timeout=60.0)
    remaining = call.remaining()
    call.check()

    assert remaining is not None
    assert 59 < remaining <= 60


def test_cancellation_counts_more_than_the_deadline() -> None:
    """A client that is gone does not wait for an answer."""
    call = Call(timeout=0.0)
    call.cancel()

    with pytest.raises(CancelledError):
        call.check()


def test_callbacks_run_once() -> None:
    """Cancelling again does nothing."""
    call = Call()
    seen: list[str] = []
    call.on_cancel(lambda: seen.append("first"))
    call.on_cancel(lambda: seen.append("second"))
    call.cancel()
    call.cancel()

    assert seen == ["first", "second"]


def test_late_callback_runs_at_once() -> None:
    """Who comes after the cancellation learns of it too."""
    call = Call()
    call.cancel()
    seen: list[str] = []
    call.on_cancel(lambda: seen.append("late"))

    assert seen == ["late"]


def test_callback_may_look_at_the_call() -> None:
    """Callbacks run outside of the lock."""
    call = Call()
    seen: list[bool] = []
    call.on_cancel(lambda: call.on_cancel(lambda: seen.append(call.cancelled)))
    call.cancel()

    assert seen == [True]


def test_waiting_ends_with_the_cancellation() -> None:
    """A wait says whether the cancellation came."""
    call = Call()
    timer = threading.Timer(0.02, call.cancel)
    early = call.wait_cancelled(0.0)
    timer.start()

    assert not early
    assert call.wait_cancelled(10.0)
    timer.join()


def test_many_threads_cancel_once() -> None:
    """A callback runs once, however many threads cancel."""
    call = Call()
    seen: list[int] = []
    call.on_cancel(lambda: seen.append(1))
    threads = [threading.Thread(target=call.cancel) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert seen == [1]


def test_callback_of_a_block_is_gone_after_it() -> None:
    """A cancellation reaches what is running, and not what is done."""
    call = Call()
    ran: list[str] = []
    with call.cancelling(lambda: ran.append("first")):
        pass
    with call.cancelling(lambda: ran.append("second")):
        call.cancel()

    assert ran == ["second"]
    with call.cancelling(lambda: ran.append("late")):
        pass
    assert ran == ["second", "late"]


def test_wait_ends_when_the_predicate_is_true() -> None:
    """Whoever changes the state notifies the condition, and the wait returns True."""
    condition = threading.Condition()
    ready = threading.Event()

    def change() -> None:
        with condition:
            ready.set()
            condition.notify_all()

    with condition:
        threading.Thread(target=change).start()
        waited = Call(timeout=20).wait_for(condition, ready.is_set)

    assert waited


def test_wait_returns_false_after_its_timeout() -> None:
    """A timeout of the wait is no error: the call goes on."""
    condition = threading.Condition()
    with condition:
        waited = Call().wait_for(condition, lambda: False, 0.01)

    assert not waited


@pytest.mark.parametrize("timeout", [None, 0.01])
def test_wait_ends_with_the_call(timeout: float | None) -> None:
    """A cancelled call, or one whose deadline has passed, waits no longer."""
    call = Call(timeout=timeout)
    if timeout is None:
        threading.Timer(0.01, call.cancel).start()
    condition = threading.Condition()

    with condition, pytest.raises((CancelledError, DeadlineExceededError)):
        call.wait_for(condition, lambda: False)


def test_lock_is_held_while_the_block_runs() -> None:
    """The lock is released after the block, also after an error."""
    lock = threading.Lock()
    with Call().holding(lock):
        is_held = lock.locked()
    with pytest.raises(ZeroDivisionError), Call().holding(lock):
        raise ZeroDivisionError

    assert is_held
    assert not lock.locked()


def test_waiting_for_a_lock_ends_with_the_call() -> None:
    """A lock that another holds is not waited for beyond the deadline."""
    lock = threading.Lock()
    with lock, pytest.raises(DeadlineExceededError), Call(timeout=0.01).holding(lock):
        pass

    assert not lock.locked()
