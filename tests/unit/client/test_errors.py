"""gRPC statuses as errors of the package."""

from __future__ import annotations

import grpc
import pytest

from sparkport import errors
from sparkport.client.errors import translate
from sparkport.flight.transport.statuses import STATUS


class Status(grpc.RpcError):
    """An error as gRPC raises it."""

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        self._code = code
        self._details = details

    def code(self) -> grpc.StatusCode:
        """Return the status code."""
        return self._code

    def details(self) -> str:
        """Return the text."""
        return self._details


@pytest.mark.parametrize("kind", STATUS, ids=lambda kind: kind.__name__)
def test_every_status_becomes_its_class_again(kind: type[errors.SparkportError]) -> None:
    """The class that the server mapped to a code is the class that the client raises, with its text."""
    made = translate(Status(STATUS[kind], "it is so"))

    assert type(made) is kind
    assert str(made) == "it is so"


@pytest.mark.parametrize(
    "code", [grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.DATA_LOSS]
)
def test_other_status_is_the_common_base(code: grpc.StatusCode) -> None:
    """A code that the server uses for nothing of its own becomes the base class."""
    assert type(translate(Status(code, "x"))) is errors.SparkportError


def test_error_always_has_a_text() -> None:
    """A status without a text gets one."""
    assert str(translate(Status(grpc.StatusCode.NOT_FOUND, ""))) == "the server gave no reason"
