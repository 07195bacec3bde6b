from __future__ import annotations

from dataclasses import dataclass

import pytest

from sparkport.catalog import Call, TransactionState
from sparkport.errors import NotFoundError, TransactionNotActiveError
from sparkport.memory.commits import Commits
from sparkport.memory.transactions import MemoryTransactions
from sparkport.toolkit import transaction_registry as module


@dataclass
class Clock:
    """A clock that the test sets."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    """Return a clock of the test's own."""
    return Clock()


@pytest.fixture
def manager(clock: Clock) -> MemoryTransactions:
    """Return a manager that forgets after ten seconds."""
    return MemoryTransactions(Commits(), idle_seconds=10.0, clock=clock)


def test_idle_transaction_is_aborted(manager: MemoryTransactions, clock: Clock) -> None:
    """DuckDB never ends its transactions, so idle ones are aborted."""
    key = manager.begin_transaction(Call())
    clock.now += 10.0
    in_time = manager.transaction_status(Call(), key)
    clock.now += 0.5

    assert in_time is TransactionState.ACTIVE
    assert manager.transaction_status(Call(), key) is TransactionState.ABORTED
    with pytest.raises(TransactionNotActiveError, match=r"\(state: aborted\)$"):
        manager.commit_transaction(Call(), key)
    manager.rollback_transaction(Call(), key)


def test_used_transaction_lives_on(manager: MemoryTransactions, clock: Clock) -> None:
    """Every use counts anew."""
    key = manager.begin_transaction(Call())
    idle = manager.begin_transaction(Call())
    for _ in range(5):
        clock.now += 8.0
        manager.transaction_mode(Call(), key)

    assert manager.transaction_status(Call(), key) is TransactionState.ACTIVE
    assert manager.transaction_status(Call(), idle) is TransactionState.ABORTED


def test_committed_transaction_stays_committed(manager: MemoryTransactions, clock: Clock) -> None:
    """Time does not turn a commit into an abort; committing again is still fine."""
    key = manager.begin_transaction(Call())
    manager.commit_transaction(Call(), key)
    clock.now += 100.0

    assert manager.transaction_status(Call(), key) is TransactionState.COMMITTED
    manager.commit_transaction(Call(), key)
    with pytest.raises(TransactionNotActiveError, match=r"\(state: committed\)$"):
        manager.rollback_transaction(Call(), key)


def test_expired_transaction_betrays_nothing_to_others(manager: MemoryTransactions, clock: Clock) -> None:
    """Another principal learns no more of an expired id than of an active one."""
    key = manager.begin_transaction(Call("ann"))
    clock.now += 100.0

    assert manager.transaction_status(Call("bob"), key) is None
    with pytest.raises(NotFoundError):
        manager.commit_transaction(Call("bob"), key)
    assert manager.transaction_status(Call("ann"), key) is TransactionState.ABORTED


def test_crowd_pushes_the_oldest_out(
    manager: MemoryTransactions, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory is limited: the least recently used goes first, and in the end is unknown."""
    monkeypatch.setattr(module, "_MAX_TRANSACTIONS", 3)
    keys = [manager.begin_transaction(Call()) for _ in range(9)]
    clock.now += 1.0
    states = [manager.transaction_status(Call(), key) for key in keys]

    assert states[:3] == [None, None, None]
    assert states[3:6] == [TransactionState.ABORTED] * 3
    assert states[6:] == [TransactionState.ACTIVE] * 3
