"""A collector of OpenTelemetry's traces, over OTLP by HTTP."""

from __future__ import annotations

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from .e2e.usage import eventually


class Collector:
    """Keeps the spans that it is sent; `pause` makes it take them and never answer."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.resources: list[dict[str, str]] = []
        self.pause = threading.Event()
        self.released = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True

    @property
    def location(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()

    def trace(self, trace_id: str, count: int) -> list[Span]:
        """Wait for so many spans of a trace, and return them by their times."""

        def found() -> list[Span]:
            return [span for span in list(self.spans) if span.trace_id.hex() == trace_id]

        assert eventually(lambda: len(found()) >= count), [span.name for span in self.spans]
        return sorted(found(), key=lambda span: span.start_time_unix_nano)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                data = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    data = gzip.decompress(data)
                if collector.pause.is_set():
                    collector.released.wait()
                    return
                collector._take(self.path, data)
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        return Handler

    def _take(self, path: str, data: bytes) -> None:
        assert path == "/v1/traces"
        for resource in ExportTraceServiceRequest.FromString(data).resource_spans:
            self.resources.append({a.key: a.value.string_value for a in resource.resource.attributes})
            for scope in resource.scope_spans:
                self.spans.extend(scope.spans)


def attributes(span: Span) -> dict[str, str | int]:
    """Return the attributes of a span."""
    return {a.key: a.value.string_value or a.value.int_value for a in span.attributes}
