"""Conflicts of statements with commits of other writers."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from sparkport.catalog.call import Call
from sparkport.catalog.measures import MEASURES
from sparkport.errors import ConflictError

_FIRST_PAUSE_SECONDS = 0.05

T = TypeVar("T")


class FinalConflictError(ConflictError):
    """A conflict that another attempt of the same statement cannot resolve."""


class OutdatedCheckError(FinalConflictError):
    """Rows were compared with a version that is no longer the newest; compare them again."""


def retry_on_conflict(call: Call, attempt: Callable[[int], T], *, max_tries: int) -> T:
    """Return what an attempt returns; after a conflict pause, longer each time, and try again.

    Attempts are numbered from 0. The conflict of the last one is raised, and so is any
    FinalConflictError.
    """
    pause = _FIRST_PAUSE_SECONDS
    for number in range(max_tries - 1):
        try:
            return attempt(number)
        except FinalConflictError:
            raise
        except ConflictError:
            MEASURES.count("commit_retries")
            call.wait_cancelled(pause * random.uniform(0.5, 1.5))  # noqa: S311  (to part those who collide)
            call.check()
            pause *= 2
    return attempt(max_tries - 1)


@dataclass(frozen=True, slots=True)
class Basis:
    """The version that a statement's rows were read from, and later commits of its own transaction."""

    version: int
    own: tuple[int, ...] = ()

    def gaps(self, newest: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges of versions, each after its start, in which only others have committed."""
        starts = (self.version, *self.own)
        ends = (*(version - 1 for version in self.own), newest)
        return ((start, end) for start, end in zip(starts, ends, strict=True) if start < end)
