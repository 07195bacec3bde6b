"""The Flight service: gRPC methods on raw bytes.

Every method goes through the same door: authenticate, make the request, run, and
translate whatever goes wrong, with one log line at the end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar

import grpc
import structlog
from google.protobuf.message import DecodeError, Message

from sparkport.errors import (
    CancelledError,
    InvalidRequestError,
    NotImplementedByServerError,
    UnauthenticatedError,
)
from sparkport.flight import auth, routes
from sparkport.flight.auth import Authenticator
from sparkport.flight.errors import outcome
from sparkport.flight.handlers import discovery, exchange, rows, scans
from sparkport.flight.request import Headers, Request, make_request, trace_id
from sparkport.flight.rpc import Rpc
from sparkport.flight.site import Site
from sparkport.protocol import flight_data
from sparkport.protocol import flight_pb2 as pb
from sparkport.protocol.flight_data import FlightData

_log = structlog.get_logger("sparkport")

_SERVICE = "/arrow.flight.protocol.FlightService/"
_LONGEST_DETAIL = 200

M = TypeVar("M", bound=Message)
Frames = Iterator[bytes]


@dataclass(slots=True)
class _Note:
    """What the log line of a request will say."""

    method: str
    trace: str
    started: float = field(default_factory=time.perf_counter)
    details: dict[str, str] = field(default_factory=dict)


class FlightService(grpc.GenericRpcHandler):
    """Routes Flight's methods to the handlers."""

    def __init__(self, site: Site, authenticator: Authenticator) -> None:
        self._site = site
        self._authenticator = authenticator
        unary, server_stream, both = (
            grpc.unary_unary_rpc_method_handler,
            grpc.unary_stream_rpc_method_handler,
            grpc.stream_stream_rpc_method_handler,
        )
        self._methods: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            "Handshake": both(self._stream("Handshake", self._handshake)),
            "ListFlights": server_stream(self._stream("ListFlights", self._list_flights)),
            "GetFlightInfo": unary(self._unary("GetFlightInfo", self._get_flight_info)),
            "PollFlightInfo": unary(self._unary("PollFlightInfo", self._poll_flight_info)),
            "GetSchema": unary(self._unary("GetSchema", self._get_schema)),
            "DoGet": server_stream(self._stream("DoGet", self._do_get)),
            "DoPut": both(self._stream("DoPut", self._do_put)),
            "DoExchange": both(self._stream("DoExchange", self._do_exchange)),
            "DoAction": server_stream(self._stream("DoAction", self._do_action)),
            "ListActions": server_stream(self._stream("ListActions", self._list_actions)),
        }
        # On the wire one result is the same as a stream of one, and gRPC for Python
        # answers it with a third less work. DuckDB names the action in a header.
        self._one_result: grpc.RpcMethodHandler[Any, Any] = unary(self._unary("DoAction", self._one_action))

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        """Return the handler of a method, None for a method of another service."""
        method = handler_call_details.method
        if not method.startswith(_SERVICE):
            return None
        name = method.removeprefix(_SERVICE)
        headers = Headers(handler_call_details.invocation_metadata)
        try:
            self._authenticator.authenticate(headers.optional("authorization"))
        except UnauthenticatedError:
            # A handler of a stream starts before any message is read, so that a
            # stranger cannot make the server take in even one.
            return grpc.stream_stream_rpc_method_handler(self._stream(name, self._handshake))
        if name == "DoAction" and headers.get("airport-action-name") in routes.ONE_RESULT:
            return self._one_result
        return self._methods.get(name)

    def _handshake(self, request: Request, frames: Frames, note: _Note) -> Iterator[bytes]:
        """Confirm the credentials, which `_admit` has checked."""
        del note
        for frame in frames:
            message = _parse(pb.HandshakeRequest, frame)
            yield pb.HandshakeResponse(protocol_version=message.protocol_version).SerializeToString()
        request.call.check()

    def _list_flights(self, request: Request, body: bytes, note: _Note) -> Iterator[bytes]:
        del note
        return discovery.list_flights(self._site, request, _parse(pb.Criteria, body).expression)

    def _get_flight_info(self, request: Request, body: bytes, note: _Note) -> bytes:
        note.details["path"] = _path(body)
        return scans.get_flight_info(self._site, request, body)

    def _poll_flight_info(self, request: Request, body: bytes, note: _Note) -> bytes:
        del request, body, note
        raise NotImplementedByServerError("PollFlightInfo is not offered; use GetFlightInfo")

    def _get_schema(self, request: Request, body: bytes, note: _Note) -> bytes:
        note.details["path"] = _path(body)
        return pb.SchemaResult(schema=scans.get_schema(self._site, request, body)).SerializeToString()

    def _do_get(self, request: Request, body: bytes, note: _Note) -> Iterator[bytes]:
        note.details["path"] = request.headers.get("airport-flight-path")
        return scans.do_get(self._site, request, _parse(pb.Ticket, body).ticket)

    def _do_put(self, request: Request, frames: Frames, note: _Note) -> Iterator[bytes]:
        del note
        return rows.do_put(self._site, request, _received(request, frames))

    def _do_exchange(self, request: Request, frames: Frames, note: _Note) -> Iterator[bytes]:
        note.details["operation"] = request.headers.get("airport-operation")
        note.details["path"] = request.headers.get("airport-flight-path")
        return exchange.do_exchange(self._site, request, _received(request, frames))

    def _do_action(self, request: Request, body: bytes, note: _Note) -> Iterator[bytes]:
        action = _parse(pb.Action, body)
        note.details["action"] = action.type
        note.details["path"] = request.headers.get("airport-flight-path")
        answer = routes.run(action.type, self._site, request, action.body)
        if answer is not None:
            yield pb.Result(body=answer).SerializeToString()

    def _one_action(self, request: Request, body: bytes, note: _Note) -> bytes:
        return next(self._do_action(request, body, note), pb.Result().SerializeToString())

    def _list_actions(self, request: Request, body: bytes, note: _Note) -> Iterator[bytes]:
        del request, body, note
        own = {name: action.comment for name, action in self._site.actions.items()}
        for name, description in (routes.DESCRIPTIONS | own).items():
            yield pb.ActionType(type=name, description=description).SerializeToString()

    def _unary(
        self, method: str, run: Callable[[Request, bytes, _Note], bytes]
    ) -> Callable[[bytes, Rpc], bytes]:
        def handle(body: bytes, context: Rpc) -> bytes:
            headers = Headers(context.invocation_metadata())
            note = _Note(method, trace_id(headers))
            try:
                answer = run(self._admit(headers, context, note.trace), body, note)
            except Exception as error:  # noqa: BLE001 - the one place where errors become statuses
                _fail(context, headers, error, note, typed=False)
            _finish(note, "OK")
            return answer

        return handle

    def _stream(
        self, method: str, run: Callable[[Request, M_in, _Note], Iterator[bytes]]
    ) -> Callable[[M_in, Rpc], Iterator[bytes]]:
        def handle(body: M_in, context: Rpc) -> Iterator[bytes]:
            headers = Headers(context.invocation_metadata())
            note = _Note(method, trace_id(headers))
            try:
                request = self._admit(headers, context, note.trace)
                if method == "Handshake":
                    context.send_initial_metadata(_bearer(headers))
                yield from run(request, body, note)
            except GeneratorExit:
                _finish(note, "CANCELLED")
                raise
            except Exception as error:  # noqa: BLE001 - the one place where errors become statuses
                _fail(context, headers, error, note, typed=method != "DoAction")
            _finish(note, "OK")

        return handle

    def _admit(self, headers: Headers, context: Rpc, trace: str) -> Request:
        """Authenticate before anything is parsed, and tie the call to the connection."""
        principal = self._authenticator.authenticate(headers.optional("authorization"))
        request = make_request(headers, principal, trace, context)
        if not context.add_callback(request.call.cancel):
            request.call.cancel()
        return request


M_in = TypeVar("M_in", bytes, Frames)


def _bearer(headers: Headers) -> tuple[tuple[str, str], ...]:
    """Return the header by which Flight clients take over a token after Basic authentication."""
    token = auth.token(headers.get("authorization"))
    return (("authorization", f"Bearer {token.decode()}"),) if token else ()


def _received(request: Request, frames: Frames) -> Iterator[FlightData]:
    """Yield decoded frames; a broken connection is a cancelled call, not an end of input."""
    while True:
        try:
            frame = next(frames)
        except StopIteration:
            return
        except grpc.RpcError as error:
            request.call.cancel()
            raise CancelledError from error
        yield flight_data.decode(frame)


def _parse(message: type[M], data: bytes) -> M:
    try:
        return message.FromString(data)
    except DecodeError as error:
        raise InvalidRequestError(f"malformed {message.DESCRIPTOR.name} message") from error


def _path(descriptor: bytes) -> str:
    parsed = _parse(pb.FlightDescriptor, descriptor)
    return "/".join(parsed.path)


def _fail(context: Rpc, headers: Headers, error: Exception, note: _Note, *, typed: bool) -> NoReturn:
    airport = headers.optional("airport-user-agent") is not None
    result = outcome(error, note.trace, airport=airport, typed=typed)
    _finish(note, result.code.name)
    if result.trailers:
        context.set_trailing_metadata(result.trailers)
    context.abort(result.code, result.message)


def _finish(note: _Note, status: str) -> None:
    _log.info(
        "request",
        method=note.method,
        **{key: _loggable(value) for key, value in note.details.items() if value},
        ms=round((time.perf_counter() - note.started) * 1000, 1),
        status=status,
        trace_id=note.trace,
    )


def _loggable(text: str) -> str:
    """Return what a client sent: short, and without what would steer a terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in text[:_LONGEST_DETAIL])
