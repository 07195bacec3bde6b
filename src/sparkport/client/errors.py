"""Translate gRPC errors into the errors of sparkport."""

from __future__ import annotations

import grpc

from sparkport import errors
from sparkport.protocol import error_data

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
    """Return the error that the server raised, with its sentence and data.

    Without data, as from gRPC itself, the status decides the class and the attributes are empty.
    """
    text = error.details() or "the server gave no reason"
    for trailer in error.trailing_metadata() or ():
        if trailer.key == error_data.TRAILER and isinstance(trailer.value, bytes):
            decoded = error_data.decode(trailer.value, text)
            if decoded is not None:
                return decoded
    return error_data.make(_CLASSES.get(error.code(), errors.SparkportError), text)
