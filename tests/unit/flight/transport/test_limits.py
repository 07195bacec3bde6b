from __future__ import annotations

from pathlib import Path

import pytest

from sparkport.flight.transport.limits import ServerLimits
from sparkport.toolkit import machine
from sparkport.toolkit.machine import machine_memory


@pytest.mark.parametrize(("text", "expected"), [("1000000\n", 1_000_000), ("max\n", None), (None, None)])
def test_memory_of_a_container_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, expected: int | None
) -> None:
    """A container has the memory that its group is given, the machine's without a limit."""
    path = tmp_path / "memory.max"
    if text is not None:
        path.write_text(text)
    monkeypatch.setattr(machine, "_GROUP_LIMITS", (path,))
    whole = machine_memory()

    assert whole == expected if expected else whole > 1 << 28


def test_limits_are_derived_from_each_other() -> None:
    """One number changes what depends on it, unless that is given too."""
    derived, given = ServerLimits(concurrent_calls=8), ServerLimits(8, calls_per_caller=7)

    assert (derived.calls.calls_per_caller, derived.calls.calls_per_connection) == (6, 4)
    assert (given.calls.calls_per_caller, given.calls.calls_per_connection) == (7, 4)
    assert ServerLimits(concurrent_calls=1).calls.calls_per_connection == 1
