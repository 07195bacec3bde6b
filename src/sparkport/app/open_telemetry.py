"""Traces for OpenTelemetry: a span per request, with children for its steps."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

import structlog
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from sparkport import __version__
from sparkport.errors import ConfigError
from sparkport.flight.access_log import AccessLog
from sparkport.flight.statement_registry import FinishedRequest

__all__ = ["OpenTelemetry"]

_log = structlog.get_logger("sparkport")

_PATH = "/v1/traces"
_PROTOCOL = "http/protobuf"
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_LAST_SPANS_SECONDS = 3.0
_COMPLAINT_SECONDS = 60.0
_MAX_COMPLAINT = 300
_SERVICE = "arrow.flight.protocol.FlightService"
# Of the others the client is the reason: OpenTelemetry's rule for servers.
_OWN_ERRORS = frozenset(
    {"UNKNOWN", "DEADLINE_EXCEEDED", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"}
)


class OpenTelemetry:
    """Sends a span for each request to a collector, over OTLP by HTTP.

    Spans wait in a queue of limited length for a thread of their own: a collector that is slow or gone
    costs spans, and no request anything. What the SDK reads from variables (`OTEL_*`: headers, sampling,
    attributes of the resource, sizes of the queue) it reads here too.
    """

    def __init__(self, endpoint: str | None = None) -> None:
        """`endpoint` is the address of a collector, else the SDK's variables say it. Raises ConfigError."""
        protocol = next(filter(None, map(os.environ.get, _PROTOCOLS)), _PROTOCOL)
        if protocol != _PROTOCOL:
            raise ConfigError(f"traces are sent by {_PROTOCOL}; {' or '.join(_PROTOCOLS)} says '{protocol}'")
        exporter = OTLPSpanExporter(endpoint=None if endpoint is None else _address(endpoint))
        _hear_the_sdk()
        own = {SERVICE_VERSION: __version__}
        if not os.environ.get("OTEL_SERVICE_NAME"):
            own[SERVICE_NAME] = "sparkport"
        self._ids = _GivenTraceIds()
        self._provider = TracerProvider(
            resource=Resource.create(own), id_generator=self._ids, shutdown_on_exit=False
        )
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("sparkport", __version__)

    def begin(self, log: AccessLog) -> _RequestSpan:
        """Begin the span of a request, as a child of the client's if it told which."""
        with self._ids.giving(log.trace):
            span = self._tracer.start_span(log.method, _parent(log), SpanKind.SERVER)
        return _RequestSpan(self._tracer, span, log)

    def stop(self) -> None:
        """Send what is left, but do not wait long for a collector that does not answer."""
        last = threading.Thread(target=self._provider.shutdown, name="traces-end", daemon=True)
        last.start()
        last.join(_LAST_SPANS_SECONDS)


class _RequestSpan:
    """The span of one request. SQL, values and texts of errors are not in it: there may be data in them."""

    __slots__ = ("_context", "_log", "_span", "_tracer")

    def __init__(self, tracer: trace.Tracer, span: Span, log: AccessLog) -> None:
        self._tracer = tracer
        self._span = span
        self._log = log
        self._context = trace.set_span_in_context(span, Context())

    @contextlib.contextmanager
    def step(self, name: str, table: str) -> Iterator[None]:
        """Make a child of a block."""
        attributes = {"db.collection.name": table} if table else None
        span = self._tracer.start_span(name, self._context, attributes=attributes)
        try:
            yield
        except GeneratorExit:
            raise
        except BaseException as error:
            span.set_status(Status(StatusCode.ERROR, type(error).__name__))
            raise
        finally:
            span.end()

    def end(self, request: FinishedRequest) -> None:
        """End the span."""
        span = self._span
        if span.is_recording():
            name = request.kind or self._log.details.get("action", "")
            if name:
                span.update_name(f"{request.method} {name}")
            span.set_attributes(_attributes(request, self._log))
            if request.code in _OWN_ERRORS:
                span.set_status(Status(StatusCode.ERROR, request.code))
        span.end()


class _GivenTraceIds(RandomIdGenerator):
    """Makes ids, and takes the trace id that a request has already."""

    def __init__(self) -> None:
        self._given = threading.local()

    @contextlib.contextmanager
    def giving(self, trace_id: str) -> Iterator[None]:
        """Take a trace id for the span that a block starts on this thread."""
        self._given.value = uuid.UUID(trace_id).int
        try:
            yield
        finally:
            self._given.value = 0

    def generate_trace_id(self) -> int:
        """Return the trace id that was given, else a new one."""
        return getattr(self._given, "value", 0) or super().generate_trace_id()


class _Reporter(logging.Handler):
    """Writes what the SDK complains about to the server's own log, once in a while."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._next = 0.0

    def emit(self, record: logging.LogRecord) -> None:
        """Write one message, without its traceback, unless there was one a moment ago."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _COMPLAINT_SECONDS
            _log.warning("traces are not delivered", reason=record.getMessage()[:_MAX_COMPLAINT])


def _hear_the_sdk() -> None:
    logger = logging.getLogger("opentelemetry")
    if not any(isinstance(handler, _Reporter) for handler in logger.handlers):
        logger.addHandler(_Reporter())
        logger.propagate = False


def _address(endpoint: str) -> str:
    """Return where spans go: the address of a collector, as in the variables of OpenTelemetry, and a path."""
    parts = urlsplit(endpoint)
    if parts.scheme not in {"http", "https"} or not parts.netloc:
        raise ConfigError(f"--otel-endpoint is an address such as http://127.0.0.1:4318, not '{endpoint}'")
    return endpoint if parts.path.endswith(_PATH) else endpoint.rstrip("/") + _PATH


def _parent(log: AccessLog) -> Context:
    carrier: Mapping[str, str] = {"traceparent": log.parent}
    return TraceContextTextMapPropagator().extract(carrier, Context()) if log.parent else Context()


def _attributes(request: FinishedRequest, log: AccessLog) -> dict[str, str | int]:
    """Return what is told of a request; names are OpenTelemetry's where it has some."""
    found: dict[str, str | int] = {
        "rpc.system.name": "grpc",
        "rpc.method": f"{_SERVICE}/{request.method}",
        "rpc.response.status_code": request.code,
        "user.name": log.details.get("principal", ""),
        "db.operation.name": request.kind,
        "db.collection.name": log.details.get("path", ""),
        "sparkport.action": log.details.get("action", ""),
        "sparkport.dialect": request.dialect,
        "sparkport.read_mode": request.read_mode,
        "sparkport.rows_in": request.rows_in,
        "sparkport.rows_out": request.rows_out,
        "sparkport.bytes_in": request.bytes_in,
        "sparkport.bytes_out": request.bytes_out,
    }
    return {name: value for name, value in found.items() if value}
