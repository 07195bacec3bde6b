"""The log line of a request."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import structlog

_log = structlog.get_logger("sparkport")

_MAX_DETAIL = 200


@dataclass(slots=True)
class Note:
    """What the log line of a request will say; whoever decodes a part of the request adds to it."""

    method: str = ""
    trace: str = ""
    started: float = field(default_factory=time.perf_counter)
    details: dict[str, str] = field(default_factory=dict)

    def add(self, **details: str) -> None:
        """Add details; what is known already, or empty, is not said."""
        for key, value in details.items():
            if value:
                self.details.setdefault(key, value)

    def add_path(self, *names: str) -> None:
        """Add what the request is about, from the outermost name that it tells."""
        self.add(path="/".join(name for name in names if name))

    def finish(self, status: str) -> None:
        """Write the line."""
        _log.info(
            "request",
            method=_loggable(self.method),
            **{key: _loggable(value) for key, value in self.details.items()},
            ms=round((time.perf_counter() - self.started) * 1000, 1),
            status=status,
            trace_id=self.trace,
        )


def _loggable(text: str) -> str:
    """Return what a client sent: short, and without what would steer a terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in text[:_MAX_DETAIL])
