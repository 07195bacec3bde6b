"""The routes of the HTTP port."""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from sparkport.catalog.call import Call
from sparkport.errors import InvalidRequestError, LimitExceededError
from sparkport.flight.context import ServerContext
from sparkport.http import descriptions, downloads
from sparkport.http.console_calls import ConsoleCall, sample, sql_lines, sql_statement
from sparkport.http.health import Readiness
from sparkport.http.metrics import Metrics
from sparkport.http.protection import Protection
from sparkport.http.responses import CallStream, error_response, json_response
from sparkport.http.sessions import Sessions

__all__ = ["About", "make_application"]

_STATIC = Path(__file__).parent / "static"
_MAX_BODY = 2 << 20
_MAX_SAMPLE = 1000

Answer = Callable[["Console", Request, str], Response]


@dataclass(frozen=True, slots=True)
class About:
    """What the console tells of its server."""

    version: str
    location: str
    needs_token: bool
    takes_passwords: bool
    is_encrypted: bool
    cookie: str


class Console:
    """The parts that answers are made of."""

    def __init__(
        self, context: ServerContext, sessions: Sessions, readiness: Readiness, about: About
    ) -> None:
        self.context = context
        self.sessions = sessions
        self.readiness = readiness
        self.about = about
        self.metrics = Metrics(context, sessions.count)

    def principal(self, request: Request) -> str:
        """Return who calls. Raises UnauthenticatedError."""
        session = request.cookies.get(self.about.cookie, "")
        return self.sessions.principal(session, request.headers.get("authorization"), _connection(request))

    def call(self, request: Request, principal: str) -> ConsoleCall:
        """Return a call for a request."""
        client = request.headers.get("user-agent", "")
        peer = "" if request.client is None else f"{request.client.host}:{request.client.port}"
        return ConsoleCall(self.context, principal, client, peer)


def make_application(
    context: ServerContext, sessions: Sessions, readiness: Readiness, about: About, *, is_loopback: bool
) -> ASGIApp:
    """Return all that the port answers."""
    console = Console(context, sessions, readiness, about)

    async def healthz(request: Request) -> Response:
        del request
        return PlainTextResponse("ok\n")

    async def readyz(request: Request) -> Response:
        del request
        problems = await run_in_threadpool(readiness.problems)
        return json_response({"ready": not problems, "problems": problems}, 503 if problems else 200)

    async def page(request: Request) -> Response:
        del request
        return FileResponse(_STATIC / "index.html")

    async def log_in(request: Request) -> Response:
        return await _guarded(lambda body: _log_in(console, request, body), request)

    async def ways_in(request: Request) -> Response:
        del request
        return json_response({"takes_passwords": about.takes_passwords})

    async def log_out(request: Request) -> Response:
        sessions.log_out(request.cookies.get(about.cookie, ""))
        answer = json_response({})
        answer.delete_cookie(about.cookie, httponly=True, samesite="strict")
        return answer

    def protected(answer: Callable[[Request, str, dict[str, Any]], Response]) -> Callable[..., Any]:
        async def endpoint(request: Request) -> Response:
            def run(body: dict[str, Any]) -> Response:
                return answer(request, console.principal(request), body)

            return await _guarded(run, request)

        return endpoint

    get = (
        ("/metrics", _metrics),
        ("/api/server", _server),
        ("/api/pulse", _pulse),
        ("/api/databases", _databases),
        ("/api/table", _table),
        ("/api/rows", _rows),
        ("/api/statements", _statements),
    )
    post = (("/api/cancel", _cancel), ("/api/sql", _sql), ("/api/download", _download))

    def bound(answer: Callable[..., Response]) -> Callable[..., Any]:
        return protected(lambda request, principal, body: answer(console, request, principal, body))

    routes = [
        Route("/healthz", healthz),
        Route("/readyz", readyz),
        Route("/api/login", ways_in),
        Route("/api/login", log_in, methods=["POST"]),
        Route("/api/logout", log_out, methods=["POST"]),
        *(Route(path, bound(answer)) for path, answer in get),
        *(Route(path, bound(answer), methods=["POST"]) for path, answer in post),
        Mount("/static", StaticFiles(directory=_STATIC)),
        Route("/", page),
        Route("/{view:path}", page),
    ]
    return Protection(Starlette(routes=routes), is_loopback=is_loopback)


async def _guarded(run: Callable[[dict[str, Any]], Response], request: Request) -> Response:
    """Run an answer on a thread, with the JSON of the body; errors become answers too."""
    try:
        body = await _body(request) if request.method == "POST" else {}
        return await run_in_threadpool(run, body)
    except Exception as error:  # noqa: BLE001 - the one place where errors become answers
        return error_response(error, str(uuid.uuid4()))


async def _body(request: Request) -> dict[str, Any]:
    data = bytearray()
    async for part in request.stream():
        data += part
        if len(data) > _MAX_BODY:
            raise LimitExceededError(f"a request has at most {_MAX_BODY} bytes")
    try:
        value = json.loads(bytes(data) or b"{}")
    except (ValueError, RecursionError) as error:
        raise InvalidRequestError("the request is not JSON") from error
    if not isinstance(value, dict):
        raise InvalidRequestError("the request is not a JSON object")
    return value


def _text(body: dict[str, Any], name: str) -> str:
    value = body.get(name, "")
    if not isinstance(value, str):
        raise InvalidRequestError(f"'{name}' must be text")
    return value


def _connection(request: Request) -> str:
    """Return the address of a client as gRPC says it."""
    if request.client is None:
        return ""
    host, port = request.client.host, request.client.port
    return f"ipv6:[{host}]:{port}" if ":" in host else f"ipv4:{host}:{port}"


def _log_in(console: Console, request: Request, body: dict[str, Any]) -> Response:
    name, connection = _text(body, "user").strip(), _connection(request)
    if name:
        session = console.sessions.log_in_user(name, _text(body, "password"), connection)
    else:
        session = console.sessions.log_in(_text(body, "token").strip(), connection)
    answer = json_response({})
    about = console.about
    answer.set_cookie(about.cookie, session, httponly=True, samesite="strict", secure=about.is_encrypted)
    return answer


def _metrics(console: Console, request: Request, principal: str, body: dict[str, Any]) -> Response:
    del request, principal, body
    return Response(console.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _server(console: Console, request: Request, principal: str, body: dict[str, Any]) -> Response:
    del request, body
    about, context = console.about, console.context
    return json_response(
        {
            "version": about.version,
            "location": about.location,
            "needs_token": about.needs_token,
            "principal": str(principal),
            "default": _default_catalog(context, principal),
            "offers_sql": context.offers_sql,
            "is_administrator": context.statements.is_administrator(principal),
        }
    )


def _default_catalog(context: ServerContext, principal: str) -> str:
    """Return the default database, an empty text if it does not exist for the caller."""
    visible = [name for name, _ in context.visible_catalogs(Call(principal))]
    return context.catalogs.default if context.catalogs.default in visible else ""


def _pulse(console: Console, request: Request, principal: str, body: dict[str, Any]) -> Response:
    del request, principal, body
    return json_response(console.metrics.pulse())


def _databases(console: Console, request: Request, principal: str, body: dict[str, Any]) -> Response:
    del body
    call = console.call(request, principal)
    with call.logged():
        return json_response(descriptions.list_databases(console.context, call.call))


def _table(console: Console, request: Request, principal: str, body: dict[str, Any]) -> Response:
    del body
    names = [request.query_params.get(name, "") for name in ("database", "schema", "table")]
    call = console.call(request, principal)
    with call.logged("/".join(names)):
        return json_response(descriptions.describe_table(console.context, call.call, *names))


def _rows(console: Console, request: Request, principal: str, body: dict[str, Any]) -> Response:
    del body
    query = request.query_params
    limit = query.get("limit", "100")
    if not limit.isdecimal() or not 0 < int(limit) <= _MAX_SAMPLE:
        raise InvalidRequestError(f"'limit' must be from 1 to {_MAX_SAMPLE}")
    address = [query.get(name, "") for name in ("database", "schema", "table")]
    version = query.get("version", "")
    return json_response(sample(console.call(request, principal), int(limit), version, *address))


def _statements(console: Console, request: Request, principal: str, body: dict[str, Any]) -> Response:
    del request, body
    return json_response(console.context.statements.list(principal))


def _cancel(console: Console, request: Request, principal: str, body: dict[str, Any]) -> Response:
    del request
    return json_response(console.context.statements.cancel(principal, _text(body, "id")))


def _sql(console: Console, request: Request, principal: str, body: dict[str, Any]) -> Response:
    call = console.call(request, principal)
    lines = sql_lines(call, _text(body, "sql"), _text(body, "database"))
    return CallStream(call.call, lines, "application/x-ndjson")


def _download(console: Console, request: Request, principal: str, body: dict[str, Any]) -> Response:
    form = _text(body, "format")
    if form not in downloads.FORMATS:
        raise InvalidRequestError(f"'format' must be one of {', '.join(downloads.FORMATS)}")
    call = console.call(request, principal)
    text = _text(body, "sql")
    with contextlib.ExitStack() as stack:
        stack.enter_context(call.running(text=text))
        statement = sql_statement(console.context, text, _text(body, "database"))
        file = downloads.file_of(console.context, call.call, statement, form)
    headers = {"content-disposition": f'attachment; filename="rows.{form}"'}
    return CallStream(call.call, downloads.parts_of(file), downloads.FORMATS[form], headers)
