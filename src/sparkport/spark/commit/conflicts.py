"""Conflicts of statements with commits of others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sparkport.errors import ConflictError


class FinalConflictError(ConflictError):
    """A conflict that another attempt of the same statement cannot resolve."""


@dataclass(frozen=True, slots=True)
class Basis:
    """The version that the rows of a statement were read from, and later commits of the same transaction."""

    version: int
    own: tuple[int, ...] = ()

    def gaps(self, newest: int) -> Iterator[tuple[int, int]]:
        """Yield the versions between which only others have committed."""
        starts = (self.version, *self.own)
        ends = (*(version - 1 for version in self.own), newest)
        return ((start, end) for start, end in zip(starts, ends, strict=True) if start < end)
