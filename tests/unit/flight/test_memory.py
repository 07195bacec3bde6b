from __future__ import annotations

import gc
from pathlib import Path

import pytest

from sparkport.catalog.budget import Reservation
from sparkport.errors import LimitExceededError
from sparkport.flight import memory
from sparkport.flight.limits import ServerLimits
from sparkport.flight.memory import MemoryShares, machine_memory


def test_each_caller_has_a_part_of_his_own() -> None:
    """What one caller has staged is not another's, and outlives the calls that staged it."""
    shares = MemoryShares(100, 50)
    staged = Reservation(shares.of("alice").staged)
    staged.add(50)
    gc.collect()

    with pytest.raises(LimitExceededError, match="for what the transactions of this caller stage"):
        Reservation(shares.of("alice").staged).add(1)
    other = Reservation(shares.of("bob").staged)
    other.add(50)
    assert shares.of("alice").rows is shares.of("bob").rows


def test_callers_without_anything_staged_are_forgotten() -> None:
    """Callers come and go without a trace."""
    shares = MemoryShares(100, 50)
    for number in range(100):
        Reservation(shares.of(f"caller {number}").staged).add(1)
    gc.collect()

    assert not shares._staged


@pytest.mark.parametrize(("text", "expected"), [("1000000\n", 1_000_000), ("max\n", None), (None, None)])
def test_memory_of_a_container_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, expected: int | None
) -> None:
    """A container has the memory that its group is given, the machine's without a limit."""
    path = tmp_path / "memory.max"
    if text is not None:
        path.write_text(text)
    monkeypatch.setattr(memory, "_GROUP_LIMITS", (path,))
    whole = machine_memory()

    assert whole == expected if expected else whole > 1 << 28


def test_limits_are_derived_from_each_other() -> None:
    """One number changes what depends on it, unless that is given too."""
    derived, given = ServerLimits(concurrent_calls=8), ServerLimits(8, calls_per_caller=7)

    assert (derived.calls.calls_per_caller, derived.calls.calls_per_connection) == (6, 4)
    assert (given.calls.calls_per_caller, given.calls.calls_per_connection) == (7, 4)
    assert ServerLimits(concurrent_calls=1).calls.calls_per_connection == 1
