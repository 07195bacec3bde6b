from __future__ import annotations

import io
import pickle

import pytest

from sparkport import errors
from sparkport.errors import NotFoundError, SparkportError
from sparkport.spark.errors import VacuumedError
from sparkport.spark.query.messages import failure, receive, send

ERRORS: list[SparkportError] = [
    errors.AlreadyExistsError("table", "t"),
    errors.CancelledError(),
    errors.ConflictError("t", "why"),
    errors.ConstraintViolationError("CHECK", "t", column="c"),
    errors.DeadlineExceededError(),
    errors.InvalidRequestError("wrong"),
    errors.LimitExceededError("full"),
    errors.PermissionDeniedError("no"),
    errors.PreconditionError("not now"),
    errors.UnavailableError("gone"),
    NotFoundError("function", "uper", ["upper"]),
    VacuumedError("t"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_errors_pass_between_processes(error: SparkportError) -> None:
    """Class, sentence and data are those of the error that was raised."""
    again = pickle.loads(pickle.dumps(failure(error))).error()

    assert type(again) is type(error)
    assert str(again) == str(error)
    assert again.__dict__ == error.__dict__


def test_errors_of_users_are_known_by_name() -> None:
    """Their classes need not exist in the server; where they were raised is their cause."""
    again = pickle.loads(pickle.dumps(failure(type("OddError", (Exception,), {})("odd")))).error()

    assert type(again).__name__ == "OddError"
    assert str(again) == "odd"
    assert "OddError" in str(again.__cause__)


@pytest.mark.parametrize("data", [b"", pickle.dumps("a" * 100)[:50]])
def test_half_a_message_is_the_end(data: bytes) -> None:
    """A process that was killed may have written a part of one."""
    with pytest.raises(EOFError):
        receive(io.BytesIO(data))


def test_messages_come_in_order() -> None:
    """Each is read by itself."""
    stream = io.BytesIO()
    for message in ("a", [("b",)], None):
        send(stream, message)
    stream.seek(0)

    assert [receive(stream) for _ in range(3)] == ["a", [("b",)], None]
