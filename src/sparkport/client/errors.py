"""Errors on their way in: gRPC statuses become the package's own classes."""

from __future__ import annotations

import grpc

from sparkport import errors

_CLASSES: dict[grpc.StatusCode, type[errors.SparkportError]] = {
    grpc.StatusCode.INVALID_ARGUMENT: errors.InvalidRequestError,
    grpc.StatusCode.NOT_FOUND: errors.NotFoundError,
    grpc.StatusCode.ALREADY_EXISTS: errors.AlreadyExistsError,
    grpc.StatusCode.FAILED_PRECONDITION: errors.PreconditionError,
    grpc.StatusCode.UNIMPLEMENTED: errors.NotImplementedByServerError,
    grpc.StatusCode.UNAUTHENTICATED: errors.UnauthenticatedError,
    grpc.StatusCode.PERMISSION_DENIED: errors.PermissionDeniedError,
    grpc.StatusCode.ABORTED: errors.ConflictError,
    grpc.StatusCode.RESOURCE_EXHAUSTED: errors.LimitExceededError,
    grpc.StatusCode.CANCELLED: errors.CancelledError,
    grpc.StatusCode.DEADLINE_EXCEEDED: errors.DeadlineExceededError,
    grpc.StatusCode.UNAVAILABLE: errors.UnavailableError,
}


def translate(error: grpc.RpcError) -> errors.SparkportError:
    """Return the error that the server meant, with its text."""
    code, text = error.code(), error.details() or "the server gave no reason"
    kind = _CLASSES.get(code, errors.SparkportError)
    # The server has written the sentence already, so the class's own constructor is passed over.
    made = kind.__new__(kind)
    errors.SparkportError.__init__(made, text)
    return made
