"""What keeps strangers and other pages out: headers of every answer, and checks of every request."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["CONSOLE_HEADER", "Protection"]

CONSOLE_HEADER = "x-sparkport-console"
"""Other pages cannot send it: a browser asks first, and nobody answers."""

_HEADERS: Mapping[str, str] = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self';"
    " img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})


class Protection:
    """Refuses requests that other pages could make a browser send, and adds headers to answers.

    On loopback the name in the request must be one of this machine: else any page could have its own name
    lead here (DNS rebinding).
    """

    def __init__(self, app: ASGIApp, *, is_loopback: bool) -> None:
        self._app = app
        self._is_loopback = is_loopback

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        refusal = self._refusal(scope["method"], Headers(scope=scope))
        answer = self._app if refusal is None else PlainTextResponse(refusal, 403)
        await answer(scope, receive, send_with_headers)

    def _refusal(self, method: str, headers: Headers) -> str | None:
        host = headers.get("host", "").lower()
        name = host if host.endswith("]") else host.rpartition(":")[0] or host
        if self._is_loopback and name not in _LOOPBACK:
            return "this server listens on loopback: use http://127.0.0.1 or http://localhost"
        if method not in {"GET", "HEAD"} and headers.get(CONSOLE_HEADER) != "1":
            return f"a request that changes something needs the header {CONSOLE_HEADER}: 1"
        return None
