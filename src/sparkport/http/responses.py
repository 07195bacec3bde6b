"""Answers over HTTP: JSON, errors, and streams that end their call when the client leaves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import anyio
import msgspec
from starlette.concurrency import iterate_in_threadpool
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from sparkport.catalog.call import Call
from sparkport.errors import SparkportError
from sparkport.flight.transport.statuses import outcome

__all__ = ["CallStream", "error_response", "json_response"]

_STATUS = {
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "ALREADY_EXISTS": 409,
    "ABORTED": 409,
    "RESOURCE_EXHAUSTED": 429,
    "CANCELLED": 499,
    "UNIMPLEMENTED": 501,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
}


def json_response(value: Any, status: int = 200) -> Response:  # noqa: ANN401  (anything that JSON has)
    """Return an answer in JSON."""
    return Response(msgspec.json.encode(value), status, media_type="application/json")


def error_response(error: Exception, trace_id: str) -> Response:
    """Return an error as JSON, with the code that gRPC has for it."""
    result = outcome(error, trace_id, airport=False, typed=False)
    status = _STATUS.get(result.code.name, 500) if isinstance(error, SparkportError) else 500
    return json_response({"error": result.message, "code": result.code.name}, status)


class CallStream(Response):
    """A stream whose call is cancelled when its client goes away."""

    def __init__(
        self, call: Call, parts: Iterator[bytes], media_type: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(None, 200, headers, media_type)
        del self.headers["content-length"]
        self._call = call
        self._parts = parts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the parts as they come."""
        del scope
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch, receive)
            async for part in iterate_in_threadpool(self._parts):
                await send({"type": "http.response.body", "body": part, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
            tasks.cancel_scope.cancel()

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        # Not on this thread, which serves all: callbacks may take their time.
        await anyio.to_thread.run_sync(self._call.cancel)
