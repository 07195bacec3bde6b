"""The log line of a request, and the seam where others learn how it went."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

_log = structlog.get_logger("sparkport")

_MAX_DETAIL = 200


@dataclass(slots=True)
class AccessLog:
    """The log line of a request; whoever decodes a part of the request adds details to it."""

    method: str = ""
    trace: str = ""
    parent: str = ""
    """What the client's header `traceparent` says, if it is one."""
    started: float = field(default_factory=time.perf_counter)
    details: dict[str, str] = field(default_factory=dict)
    text: str = ""
    """A statement in SQL. It is not logged: there may be data in it."""
    columns: tuple[str, ...] | None = None
    """The columns that are read or set; None if all of them. They are for the audit log."""
    on_finish: Callable[[str, str], None] | None = None
    """Called once, at the end, with the status and the text of the error."""

    def add(self, **details: str) -> None:
        """Add details; empty ones, and those that are already set, are ignored."""
        for key, value in details.items():
            if value:
                self.details.setdefault(key, value)

    def add_path(self, *names: str) -> None:
        """Add the path of the object that the request is about."""
        self.add(path="/".join(name for name in names if name))

    def finish(self, status: str, error: str = "") -> None:
        """Write the line."""
        _log.info(
            "request",
            method=loggable(self.method),
            **{key: loggable(value) for key, value in self.details.items()},
            ms=round((time.perf_counter() - self.started) * 1000, 1),
            status=status,
            trace_id=self.trace,
        )
        # Whoever is told knows this line and the call: the cycle would keep the call's stream open in gRPC.
        on_finish, self.on_finish = self.on_finish, None
        if on_finish is not None:
            on_finish(status, error)


def loggable(text: str) -> str:
    """Return text from a client, shortened and without control characters."""
    return "".join(letter if letter.isprintable() else "?" for letter in text[:_MAX_DETAIL])
