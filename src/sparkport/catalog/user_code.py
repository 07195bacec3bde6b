"""The boundary around code that users write."""

from __future__ import annotations

from types import TracebackType

from sparkport.catalog.call import Call
from sparkport.errors import SparkportError, UserCodeError


class UserCodeBoundary:
    """A context manager that turns every error but those of sparkport into a UserCodeError.

    It can be entered repeatedly: scalar functions enter it for every batch.
    """

    __slots__ = ("_call", "_kind", "_name")

    def __init__(self, call: Call, kind: str, name: str) -> None:
        self._call = call
        self._kind = kind
        self._name = name

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # sys.exit() in a handler would end its thread and leave the client waiting.
        if isinstance(error, Exception | SystemExit) and not isinstance(error, SparkportError):
            raise UserCodeError(self._kind, self._name, error, self._call.trace_id) from error
