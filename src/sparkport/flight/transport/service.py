"""The Flight service: gRPC methods on raw bytes.

Every method goes through the same door: authenticate, make the request, run, and
translate whatever goes wrong, with one log line at the end.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, NoReturn, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message

from sparkport.catalog.principal import Principal, WayIn
from sparkport.errors import (
    CancelledError,
    InvalidRequestError,
    LimitExceededError,
    NotImplementedByServerError,
    SparkportError,
    UnauthenticatedError,
    UnavailableError,
)
from sparkport.flight import routes, sql_routes
from sparkport.flight.access_log import AccessLog
from sparkport.flight.context import ServerContext
from sparkport.flight.handlers import discovery, exchange, rows, scans
from sparkport.flight.request import Headers, Request, make_request, open_log
from sparkport.flight.transport import auth
from sparkport.flight.transport.auth import Authenticator, PasswordAuthenticator, Revocable
from sparkport.flight.transport.open_calls import OpenCalls
from sparkport.flight.transport.rpc import CallDetails, Rpc
from sparkport.flight.transport.statuses import outcome
from sparkport.protocol import flight_pb2 as pb
from sparkport.protocol.flight_sql import actions as sql_actions
from sparkport.protocol.ipc import flight_data
from sparkport.protocol.ipc.flight_data import FlightData

_SMALL_BYTES = 1 << 16
_SERVICE = "/arrow.flight.protocol.FlightService/"

M = TypeVar("M", bound=Message)
Frames = Iterator[bytes]


class FlightService(grpc.GenericRpcHandler):
    """Routes Flight's methods to the handlers."""

    def __init__(
        self, context: ServerContext, authenticator: Authenticator, *, knows_certificates: bool = False
    ) -> None:
        """Make the service; `knows_certificates` if clients have to show one, which says who they are."""
        self._context = context
        self._knows_certificates = knows_certificates
        self._open_calls = OpenCalls(authenticator) if isinstance(authenticator, Revocable) else None
        self._authenticator = authenticator
        self._authenticate = auth.authenticating(authenticator)
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
        rpc = handler_call_details.rpc if isinstance(handler_call_details, CallDetails) else None
        try:
            principal = self._principal(headers, rpc)
        except (UnauthenticatedError, LimitExceededError) as error:
            # A handler of a stream starts before any message is read, so that a
            # stranger cannot make the server take in even one.
            return grpc.stream_stream_rpc_method_handler(self._stream(name, self._handshake, _refusal(error)))
        if rpc is not None:
            rpc.principal = principal
        if name == "DoAction" and headers.get("airport-action-name") in routes.ONE_RESULT:
            return self._one_result
        return self._methods.get(name)

    def _handshake(self, request: Request, frames: Frames) -> Iterator[bytes]:
        """Confirm the credentials, which `_admit` has checked."""
        for frame in frames:
            message = _parse(pb.HandshakeRequest, frame)
            yield pb.HandshakeResponse(protocol_version=message.protocol_version).SerializeToString()
        request.call.check()

    def _list_flights(self, request: Request, body: bytes) -> Iterator[bytes]:
        return discovery.list_flights(self._context, request, _parse(pb.Criteria, body).expression)

    def _get_flight_info(self, request: Request, body: bytes) -> bytes:
        command = sql_routes.command_of(body)
        if command is not None:
            return sql_routes.get_flight_info(self._context, request, command, body)
        request.access_log.add(path=_path(body))
        return scans.get_flight_info(self._context, request, body)

    def _poll_flight_info(self, request: Request, body: bytes) -> bytes:
        if sql_routes.command_of(body) is None:
            raise NotImplementedByServerError("PollFlightInfo is offered for Flight SQL; use GetFlightInfo")
        return sql_actions.encode_poll(self._get_flight_info(request, body))

    def _get_schema(self, request: Request, body: bytes) -> bytes:
        command = sql_routes.command_of(body)
        if command is not None:
            answer = sql_routes.get_schema(self._context, request, command)
        else:
            request.access_log.add(path=_path(body))
            answer = scans.get_schema(self._context, request, body)
        return pb.SchemaResult(schema=answer).SerializeToString()

    def _do_get(self, request: Request, body: bytes) -> Iterator[bytes]:
        request.access_log.add(path=request.headers.get("airport-flight-path"))
        data = _parse(pb.Ticket, body).ticket
        ticket = self._context.signer.verify(data, request.call.principal)
        if ticket.command or ticket.statement is not None:
            return sql_routes.do_get(self._context, request, ticket, data)
        if ticket.path is not None:
            request.access_log.add(reads="function" if ticket.function else "scan")
        return scans.do_get(self._context, request, ticket)

    def _do_put(self, request: Request, frames: Frames) -> Iterator[bytes]:
        received = _received(request, frames)
        first = next(received, None)
        messages = received if first is None else itertools.chain([first], received)
        command = sql_routes.command_of(first.descriptor) if first and first.descriptor else None
        if command is not None:
            return sql_routes.do_put(self._context, request, command, messages)
        return rows.do_put(self._context, request, messages)

    def _do_exchange(self, request: Request, frames: Frames) -> Iterator[bytes]:
        headers = request.headers
        request.access_log.add(
            operation=headers.get("airport-operation"), path=headers.get("airport-flight-path")
        )
        return exchange.do_exchange(self._context, request, _received(request, frames))

    def _do_action(self, request: Request, body: bytes) -> Iterator[bytes]:
        action = _parse(pb.Action, body)
        request.access_log.add(action=action.type, path=request.headers.get("airport-flight-path"))
        answer = routes.run(action.type, self._context, request, action.body)
        if answer is not None:
            yield pb.Result(body=answer).SerializeToString()

    def _one_action(self, request: Request, body: bytes) -> bytes:
        return next(self._do_action(request, body), pb.Result().SerializeToString())

    def _list_actions(self, request: Request, body: bytes) -> Iterator[bytes]:
        del body
        own = {name: a.comment for name, a in self._context.visible_actions(request.call).items()}
        for name, description in (routes.DESCRIPTIONS | own).items():
            yield pb.ActionType(type=name, description=description).SerializeToString()

    def _unary(self, method: str, run: Callable[[Request, bytes], bytes]) -> Callable[[bytes, Rpc], bytes]:
        def handle(body: bytes, rpc: Rpc) -> bytes:
            headers = Headers(rpc.invocation_metadata())
            access_log = open_log(method, headers)
            request: Request | None = None
            try:
                request = self._admit(headers, rpc, access_log)
                _hold_body(request, body)
                answer = run(request, body)
                request.call.meter.bytes_out += len(answer)
                self._audit(request, access_log, "OK")
            except Exception as error:  # noqa: BLE001 - the one place where errors become statuses
                self._fail(rpc, headers, error, request, access_log, typed=False)
            finally:
                _release(rpc, request)
            access_log.finish("OK")
            return answer

        return handle

    def _stream(
        self,
        method: str,
        run: Callable[[Request, M_in], Iterator[bytes]],
        refusal: Callable[[], SparkportError] | None = None,
    ) -> Callable[[M_in, Rpc], Iterator[bytes]]:
        def handle(body: M_in, rpc: Rpc) -> Iterator[bytes]:
            headers = Headers(rpc.invocation_metadata())
            access_log = open_log(method, headers)
            request: Request | None = None
            try:
                if refusal is not None:
                    raise refusal()  # noqa: TRY301  (it becomes a status as others do)
                request = self._admit(headers, rpc, access_log)
                if isinstance(body, bytes):
                    _hold_body(request, body)
                if method == "Handshake":
                    rpc.send_initial_metadata(self._bearer(headers))
                yield from _counted(request, self._announced(request, access_log, run(request, body)))
                self._audit(request, access_log, "OK")
            except GeneratorExit:
                self._audit_failure(request, access_log, "CANCELLED")
                access_log.finish("CANCELLED")
                raise
            except Exception as error:  # noqa: BLE001 - the one place where errors become statuses
                self._fail(rpc, headers, error, request, access_log, typed=method != "DoAction")
            finally:
                _release(rpc, request)
            access_log.finish("OK")

        return handle

    def _announced(self, request: Request, access_log: AccessLog, frames: Iterator[bytes]) -> Iterator[bytes]:
        """Yield the frames of an answer; the audit log knows of rows before the first of them leaves."""
        audit = self._context.audit
        if audit is not None and access_log.method == "DoGet":
            for frame in frames:
                audit.began(request.call, access_log)
                yield frame
                break
        yield from frames

    def _audit(self, request: Request | None, access_log: AccessLog, status: str, error: str = "") -> None:
        """Write how a call went to the audit log. Raises UnavailableError if it has to be and cannot."""
        if self._context.audit is not None:
            call = None if request is None else request.call
            self._context.audit.ended(call, access_log, status, error)

    def _audit_failure(
        self, request: Request | None, access_log: AccessLog, status: str, error: str = ""
    ) -> None:
        """Write that a call has failed. If that fails too, the log has it, and the client its error."""
        with suppress(UnavailableError):
            self._audit(request, access_log, status, error)

    def _fail(
        self,
        rpc: Rpc,
        headers: Headers,
        error: Exception,
        request: Request | None,
        access_log: AccessLog,
        *,
        typed: bool,
    ) -> NoReturn:
        airport = headers.optional("airport-user-agent") is not None
        result = outcome(error, access_log.trace, airport=airport, typed=typed)
        self._audit_failure(request, access_log, result.code.name, result.message)
        access_log.finish(result.code.name, result.message)
        if result.trailers:
            rpc.set_trailing_metadata(result.trailers)
        rpc.abort(result.code, result.message)

    def _principal(self, headers: Headers, rpc: Rpc | None) -> str:
        """Return who calls: by the header if there is one, else by the client's certificate."""
        authorization = headers.optional("authorization")
        if authorization is None and self._knows_certificates and rpc is not None:
            name = rpc.certificate_name()
            if name:
                return Principal(name, way_in=WayIn.CERTIFICATE)
        return self._authenticate(authorization, "" if rpc is None else rpc.connection)

    def _bearer(self, headers: Headers) -> tuple[tuple[str, str], ...]:
        """Return the header by which Flight clients take over a token after Basic authentication."""
        authorization = headers.get("authorization")
        token = None
        if isinstance(self._authenticator, PasswordAuthenticator):
            token = self._authenticator.session_token(authorization)
        token = token or auth.token(authorization).decode()
        return (("authorization", f"Bearer {token}"),) if token else ()

    def _admit(self, headers: Headers, rpc: Rpc, access_log: AccessLog) -> Request:
        """Authenticate before anything is parsed, and tie the call to the connection."""
        principal = rpc.principal
        if principal is None:
            principal = self._principal(headers, rpc)
        access_log.add(principal=principal)
        context = self._context
        if context.audit is not None:
            context.audit.check()
        request = make_request(
            headers, principal, context.resources, access_log, rpc, context.statements.max_seconds
        )
        if not rpc.add_callback(request.call.cancel):
            request.call.cancel()
        authorization = headers.optional("authorization")
        if self._open_calls is not None and authorization is not None:
            self._open_calls.add(rpc, principal, authorization)
        client = headers.get("airport-user-agent") or headers.get("user-agent")
        context.statements.begin(request.call, access_log, client, rpc.dismiss, is_airport=request.is_airport)
        return request


M_in = TypeVar("M_in", bytes, Frames)


def _refusal(error: UnauthenticatedError | LimitExceededError) -> Callable[[], SparkportError]:
    """Return a function that makes the error again.

    The error itself would keep its call, and the handler that raises it would keep the error.
    """
    kind = LimitExceededError if isinstance(error, LimitExceededError) else UnauthenticatedError
    return partial(kind, str(error))


def _counted(request: Request, frames: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the frames, and count their bytes as sent."""
    meter = request.call.meter
    try:
        for frame in frames:
            meter.bytes_out += len(frame)
            yield frame
    finally:
        if isinstance(frames, Generator):
            frames.close()


def _hold_body(request: Request, body: bytes) -> None:
    """Count a message while it is worked on, unless it is a small one."""
    request.call.meter.bytes_in += len(body)
    if len(body) > _SMALL_BYTES:
        request.incoming.resize(len(body))


def _release(rpc: Rpc, request: Request | None) -> None:
    """Give back the memory of a request, and that of its answer once the client has it or is gone."""
    if request is not None:
        request.incoming.release()
        if request.outgoing.size and not rpc.add_callback(request.outgoing.release):
            request.outgoing.release()


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
        _hold_body(request, frame)
        yield flight_data.decode(frame)


def _parse(message: type[M], data: bytes) -> M:
    try:
        return message.FromString(data)
    except DecodeError as error:
        raise InvalidRequestError(f"malformed {message.DESCRIPTOR.name} message") from error


def _path(descriptor: bytes) -> str:
    return "/".join(_parse(pb.FlightDescriptor, descriptor).path)
