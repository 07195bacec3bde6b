"""What the server and its process for queries say to each other over a socket: one request, then answers.

Both ends are the same program, so values are pickled. The server says nothing after its request: when it
closes the socket, nobody waits for the answers any more.
"""

from __future__ import annotations

import enum
import pickle
import traceback
from dataclasses import dataclass, field
from io import BufferedIOBase
from typing import IO, Any

from sparkport.catalog.scan import ScanOptions
from sparkport.errors import SparkportError
from sparkport.spark.query.tables import BoundQuery
from sparkport.spark.session.settings import SparkSettings

Stream = IO[bytes] | BufferedIOBase


@dataclass(frozen=True, slots=True)
class Start:
    """What the process is started with; `functions` are those of the user's, pickled."""

    settings: SparkSettings
    functions: bytes


class Question(enum.Enum):
    """What is asked about a query; the first may be asked about any statement."""

    PLAN = enum.auto()
    TABLE_NAMES = enum.auto()
    COLUMNS = enum.auto()
    EXPLANATION = enum.auto()
    ROWS = enum.auto()


@dataclass(frozen=True, slots=True)
class Request:
    """A question about a query; the rows are asked for with the columns that they must have."""

    question: Question
    query: BoundQuery
    seconds: float | None
    spark_schema: str = ""
    options: ScanOptions = field(default_factory=ScanOptions)


@dataclass(frozen=True, slots=True)
class End:
    """The last answer."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The last answer where something was raised. Classes of users are known by their names only."""

    kind: type[SparkportError] | str
    message: str
    data: dict[str, Any]
    trace: str

    def error(self) -> Exception:
        """Return what was raised, with the trace of the other process as its cause if it was not foreseen."""
        if isinstance(self.kind, str):
            unknown: Exception = type(self.kind, (Exception,), {})(self.message)
            unknown.__cause__ = RuntimeError(self.trace)
            return unknown
        error = self.kind.__new__(self.kind)
        Exception.__init__(error, self.message)
        error.__dict__.update(self.data)
        return error


def failure(error: Exception) -> Failure:
    """Return an error as an answer."""
    if isinstance(error, SparkportError):
        return Failure(type(error), str(error), dict(error.__dict__), "")
    return Failure(type(error).__name__, str(error), {}, "".join(traceback.format_exception(error)))


def send(stream: Stream, message: object) -> None:
    """Write one message."""
    pickle.dump(message, stream, protocol=pickle.HIGHEST_PROTOCOL)
    stream.flush()


def receive(stream: Stream) -> Any:  # noqa: ANN401  (any of the messages)
    """Read one message. Raises EOFError when the other end is closed."""
    try:
        return pickle.load(stream)  # noqa: S301  (the other end is this program)
    except pickle.UnpicklingError as error:
        raise EOFError from error
