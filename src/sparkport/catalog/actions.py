"""Actions of a user's own."""

from __future__ import annotations

from abc import abstractmethod
from typing import Protocol, runtime_checkable

from sparkport.catalog.call import Call


@runtime_checkable
class Action(Protocol):
    """What a client can ask for by DoAction beside what the server offers."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name, not one of the server's own."""
        raise NotImplementedError

    @property
    @abstractmethod
    def comment(self) -> str:
        """What ListActions says of it."""
        raise NotImplementedError

    @abstractmethod
    def run(self, call: Call, body: bytes) -> bytes | None:
        """Do it and return the only result, or None for no result."""
        raise NotImplementedError
