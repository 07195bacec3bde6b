"""Whether requests are traced: OpenTelemetry is loaded only then."""

from __future__ import annotations

import os
from abc import abstractmethod
from typing import Protocol

import structlog

from sparkport.errors import ConfigError
from sparkport.flight.statement_registry import Tracer

__all__ = ["Traces", "open_traces"]

_log = structlog.get_logger("sparkport")

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


class Traces(Tracer, Protocol):
    """A tracer that sends what it is told somewhere until it is stopped."""

    @abstractmethod
    def stop(self) -> None:
        """Send what is left, if that does not take long."""
        raise NotImplementedError


def open_traces(endpoint: str | None) -> Traces | None:
    """Return who traces requests: if an endpoint is given, or OpenTelemetry's own variables name one.

    Raises ConfigError if the endpoint cannot be used. Variables may be meant for other programs too: what
    is wrong with them is only logged.
    """
    if endpoint is None and not _is_asked_for():
        return None
    try:
        return _open(endpoint)
    except ConfigError as error:
        if endpoint is not None:
            raise
        _log.warning("no traces", reason=str(error))
        return None


def _open(endpoint: str | None) -> Traces:
    try:
        # It takes its time to load, and is not always installed.
        from sparkport.app.open_telemetry import OpenTelemetry  # noqa: PLC0415
    except ImportError as error:
        raise ConfigError(f"traces need OpenTelemetry: pip install 'sparkport[otel]' ({error})") from error
    return OpenTelemetry(endpoint)


def _is_asked_for() -> bool:
    return (
        any(os.environ.get(name) for name in _ENDPOINTS)
        and os.environ.get("OTEL_SDK_DISABLED", "").lower() != "true"
        and os.environ.get("OTEL_TRACES_EXPORTER", "otlp") != "none"
    )
