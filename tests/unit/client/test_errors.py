"""gRPC statuses as errors of the package."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from sparkport import errors
from sparkport.client.errors import translate
from sparkport.flight.transport.statuses import STATUS, outcome
from sparkport.protocol.error_data import FIELDS, TRAILER


class Status(grpc.RpcError):
    """An error as gRPC raises it."""

    def __init__(
        self, code: grpc.StatusCode, details: str, trailers: tuple[tuple[str, str | bytes], ...] = ()
    ) -> None:
        self._code = code
        self._details = details
        self._trailers = trailers

    def code(self) -> grpc.StatusCode:
        """Return the status code."""
        return self._code

    def details(self) -> str:
        """Return the text."""
        return self._details

    def trailing_metadata(self) -> tuple[Any, ...]:
        """Return the trailers."""
        return tuple(SimpleNamespace(key=key, value=value) for key, value in self._trailers)


@pytest.mark.parametrize("kind", STATUS, ids=lambda kind: kind.__name__)
def test_every_status_becomes_its_class_again(kind: type[errors.SparkportError]) -> None:
    """The class that the server mapped to a code is the class that the client raises, with its text."""
    made = translate(Status(STATUS[kind], "it is so"))

    assert type(made) is kind
    assert str(made) == "it is so"
    assert vars(made) == FIELDS.get(kind, {})


@pytest.mark.parametrize(
    "code", [grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.DATA_LOSS]
)
def test_other_status_is_the_common_base(code: grpc.StatusCode) -> None:
    """A code that the server uses for nothing of its own becomes the base class."""
    assert type(translate(Status(code, "x"))) is errors.SparkportError


def test_error_always_has_a_text() -> None:
    """A status without a text gets one."""
    assert str(translate(Status(grpc.StatusCode.NOT_FOUND, ""))) == "the server gave no reason"


ERRORS: list[errors.SparkportError] = [
    errors.InvalidRequestError("no"),
    errors.SchemaMismatchError("two columns"),
    errors.ConstraintViolationError("NOT NULL", "t", column="c"),
    errors.NotFoundError("table", "s.t"),
    errors.RowNotFoundError(7),
    errors.AlreadyExistsError("schema", "s"),
    errors.PreconditionError("not now"),
    errors.SchemaNotEmptyError("s", ["t", "u"], ["x"]),
    errors.LastColumnError("t", "c"),
    errors.UnsupportedOperationError("table", "t", "INSERT"),
    errors.TransactionNotActiveError("x", "committed"),
    errors.NotImplementedByServerError("unknown action"),
    errors.UnauthenticatedError("no token"),
    errors.PermissionDeniedError("no"),
    errors.ConflictError("t", "it changed"),
    errors.LimitExceededError("too much"),
    errors.CancelledError(),
    errors.DeadlineExceededError(),
    errors.ClientSilentError("sent", 1.5),
    errors.UnavailableError("Spark is starting"),
    errors.UserCodeError("function", "f", ValueError("x"), "id"),
    errors.ConfigError("the token is empty"),
    errors.SparkportError("something"),
]


def sent(error: errors.SparkportError) -> errors.SparkportError:
    """Return what a client raises for an error of the server."""
    result = outcome(error, "id", airport=False, typed=False)
    return translate(Status(result.code, result.message, result.trailers))


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_every_error_arrives_with_its_data(error: errors.SparkportError) -> None:
    """A client raises the class that the server raised, with the same sentence and attributes."""
    arrived = sent(error)

    assert type(arrived) is type(error)
    assert str(arrived) == str(error)
    assert vars(arrived) == vars(error)


def test_every_class_is_in_the_list() -> None:
    """A new class of error has to be added above, and its attributes to `FIELDS`."""
    assert {type(error).__name__ for error in ERRORS} == set(errors.__all__)


def test_class_of_an_engine_arrives_as_its_public_base() -> None:
    """What an engine derives for itself is to clients the class that they can import."""

    class EngineError(errors.ConflictError):
        pass

    arrived = sent(EngineError("t", "it changed"))

    assert type(arrived) is errors.ConflictError
    assert vars(arrived) == {"table": "t"}


def test_data_that_is_too_long_is_left_out() -> None:
    """A field that does not fit into a trailer is empty, the others are there."""
    tables = [f"table_{number}" for number in range(10_000)]
    result = outcome(errors.SchemaNotEmptyError("s", tables, ["x"]), "id", airport=False, typed=False)
    arrived = translate(Status(result.code, result.message, result.trailers))

    assert len(result.trailers[0][1]) <= 2048
    assert vars(arrived) == {"schema": "s", "tables": (), "others": ("x",)}


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x80", b"\x81\xa5error\xa7Unknown"])
def test_unreadable_data_leaves_the_class_to_the_status(data: bytes) -> None:
    """Data of another server or version does not hide what happened."""
    arrived = translate(Status(grpc.StatusCode.NOT_FOUND, "x", ((TRAILER, data),)))

    assert type(arrived) is errors.NotFoundError
    assert str(arrived) == "x"
