"""Errors on their way out: one table from error class to gRPC status."""

from __future__ import annotations

import traceback
from dataclasses import dataclass

import grpc
import structlog

from sparkport import errors
from sparkport.protocol import error_data, msgpack

_log = structlog.get_logger("sparkport")

# The first class that fits wins, so the special stand before the general. What is not here, as
# UserCodeError, is INTERNAL.
STATUS: dict[type[errors.SparkportError], grpc.StatusCode] = {
    errors.InvalidRequestError: grpc.StatusCode.INVALID_ARGUMENT,
    errors.NotFoundError: grpc.StatusCode.NOT_FOUND,
    errors.AlreadyExistsError: grpc.StatusCode.ALREADY_EXISTS,
    errors.PreconditionError: grpc.StatusCode.FAILED_PRECONDITION,
    errors.NotImplementedByServerError: grpc.StatusCode.UNIMPLEMENTED,
    errors.UnauthenticatedError: grpc.StatusCode.UNAUTHENTICATED,
    errors.PermissionDeniedError: grpc.StatusCode.PERMISSION_DENIED,
    errors.ConflictError: grpc.StatusCode.ABORTED,
    errors.LimitExceededError: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.CancelledError: grpc.StatusCode.CANCELLED,
    errors.DeadlineExceededError: grpc.StatusCode.DEADLINE_EXCEEDED,
    errors.UnavailableError: grpc.StatusCode.UNAVAILABLE,
}

# DuckDB raises these as its own exception classes.
_DUCKDB_EXCEPTIONS: dict[type[errors.SparkportError], str] = {
    errors.ConstraintViolationError: "ConstraintException",
    errors.PermissionDeniedError: "PermissionException",
}

_MAX_MESSAGE = 1500  # clients drop longer ones: all response headers share 16 KiB
_ARROW_INVALID = "4"


@dataclass(frozen=True, slots=True)
class Outcome:
    """A gRPC status with its trailers."""

    code: grpc.StatusCode
    message: str
    trailers: tuple[tuple[str, str | bytes], ...] = ()


def outcome(error: BaseException, trace_id: str, *, airport: bool, typed: bool) -> Outcome:
    """Translate any exception; what nobody foresaw is logged and shown only as a trace id.

    For the Airport client the trailers say "invalid" in Arrow's terms beside the
    exact gRPC code: without them it sleeps three seconds on half of the codes. Other clients get
    the error's class and data.
    `typed` adds DuckDB's exception class, which it understands on streams only.
    """
    if isinstance(error, errors.SparkportError):
        code = _code(error)
        message = _shortened(str(error))
    else:
        code = grpc.StatusCode.INTERNAL
        message = f"Internal error, trace id {trace_id}"
    if isinstance(error, errors.UserCodeError) or not isinstance(error, errors.SparkportError):
        # Written out here: a renderer of its own would print local variables, rows among them.
        text = "".join(traceback.format_exception(error))
        _log.error("unexpected error", trace_id=trace_id, exception=text)
    if not airport:
        sent = error_data.encode(error) if isinstance(error, errors.SparkportError) else None
        return Outcome(code, message, () if sent is None else ((error_data.TRAILER, sent),))
    trailers: list[tuple[str, str | bytes]] = [
        ("x-arrow-status", _ARROW_INVALID),
        ("x-arrow-status-message-bin", message.encode()),
    ]
    exception = next(
        (name for error_class, name in _DUCKDB_EXCEPTIONS.items() if isinstance(error, error_class)), None
    )
    if typed and exception:
        details = msgpack.encode({"exception_type": exception, "message": message})
        trailers.append(("grpc-status-details-bin", details))
    return Outcome(code, message, tuple(trailers))


def _code(error: errors.SparkportError) -> grpc.StatusCode:
    return next(
        (code for error_class, code in STATUS.items() if isinstance(error, error_class)),
        grpc.StatusCode.INTERNAL,
    )


def _shortened(message: str) -> str:
    data = message.encode(errors="replace")  # JSON can spell half a character
    if len(data) <= _MAX_MESSAGE:
        return data.decode()
    return data[: _MAX_MESSAGE - 3].decode(errors="ignore") + "..."
