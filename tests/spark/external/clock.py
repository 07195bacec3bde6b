"""A clock for tests."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Clock:
    """Shows the time it was set to."""

    now: float = 1_000_000.0

    def __call__(self) -> float:
        return self.now
