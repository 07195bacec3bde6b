"""What a call has done so far, for whoever watches it."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Protocol

__all__ = ["Meter", "Progress", "Steps"]

_UNTIMED = nullcontext()


class Steps(Protocol):
    """Whoever is told of the steps of a call, from any thread."""

    @abstractmethod
    def step(self, name: str, table: str) -> AbstractContextManager[None]:
        """Take the time of a block."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Progress:
    """How many of the steps that are known so far, such as tasks of Spark, are done."""

    done: int
    total: int

    @property
    def fraction(self) -> float | None:
        """How much is done, from 0 to 1; None while nothing is known."""
        return min(1.0, self.done / self.total) if self.total else None


class Meter:
    """Counts the rows and bytes of a call. The thread of the call writes it, any thread may read it."""

    __slots__ = (
        "_committing",
        "_progress",
        "bytes_in",
        "bytes_out",
        "committed_at",
        "given_at",
        "is_queued",
        "read_mode",
        "rows_in",
        "rows_out",
        "steps",
        "tables",
    )

    def __init__(self) -> None:
        self.rows_in = self.rows_out = self.bytes_in = self.bytes_out = 0
        self.read_mode = ""
        """Who reads the rows of a scan, where an engine has several ways."""
        self.is_queued = False
        """Whether the call waits for its turn."""
        self.tables: dict[str, tuple[str, ...]] = {}
        """The tables that were looked up, each with the row filters and masks that apply to the caller."""
        self.given_at: float | None = None
        """Since when (`time.monotonic`) the client has had the last rows and has not asked for more."""
        self._committing = 0
        self.committed_at: float | None = None
        """When (`time.monotonic`) the last commit was over."""
        self.steps: Steps | None = None
        """Who is told of the steps; None if nobody traces the call."""
        self._progress: Callable[[], Progress | None] | None = None

    def add_rows_in(self, count: int) -> None:
        """Count rows that the client has sent."""
        self.rows_in += count

    @contextmanager
    def queued(self) -> Iterator[None]:
        """Say that the call waits for its turn while a block runs."""
        self.is_queued = True
        try:
            yield
        finally:
            self.is_queued = False

    def step(self, name: str, table: str = "") -> AbstractContextManager[None]:
        """Tell whoever traces the call of a part of it that takes its time, while a block runs."""
        return _UNTIMED if self.steps is None else self.steps.step(name, table)

    @property
    def is_committing(self) -> bool:
        """Whether a commit has begun and is not over: nobody knows yet how it will end."""
        return self._committing > 0

    @contextmanager
    def committing(self) -> Iterator[None]:
        """Say that a block commits something."""
        self._committing += 1
        try:
            with self.step("commit"):
                yield
        finally:
            self.committed_at = time.monotonic()
            self._committing -= 1

    def watch(self, progress: Callable[[], Progress | None]) -> None:
        """Let `progress` be asked for the progress, on the thread of whoever wants to know it."""
        self._progress = progress

    def unwatch(self, progress: Callable[[], Progress | None]) -> None:
        """Ask `progress` no more, unless another one has taken its place."""
        if self._progress is progress:
            self._progress = None

    def progress(self) -> Progress | None:
        """Return the progress, or None where it is not known."""
        ask = self._progress
        return None if ask is None else ask()
