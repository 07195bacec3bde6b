"""The statements that run, and the last ones that have ended."""

from __future__ import annotations

import itertools
import secrets
import threading
import time
from abc import abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

import grpc
import structlog

from sparkport.catalog.call import Call
from sparkport.catalog.meter import Progress, Steps
from sparkport.errors import LimitExceededError, NotFoundError, SparkportError
from sparkport.flight.access_log import AccessLog, loggable
from sparkport.flight.statement_kinds import CONSOLE, dialect_of, kind_of

__all__ = ["FinishedRequest", "RequestTrace", "StatementRegistry", "StatementView", "Tracer"]

_log = structlog.get_logger("sparkport")

_MAX_FINISHED = 1000
_MAX_TEXT = 2000
_MAX_ERROR = 500
_YIELD_SECONDS = 1.0  # for a handler to end by itself, and say what it has done
_WATCH_SECONDS = 0.25
_STREAMS = frozenset({"DoGet", "DoPut", "DoExchange"})
_SHARED = _STREAMS | {CONSOLE}

OVER = frozenset({"finished", "failed", "cancelled"})


@dataclass(frozen=True, slots=True)
class StatementView:
    """A statement as it was at one moment."""

    id: str
    principal: str
    client: str
    peer: str
    dialect: str
    kind: str
    table: str
    sql: str
    read_mode: str
    state: str
    rows: int
    bytes: int
    progress: Progress | None
    started: datetime
    ended: datetime | None
    seconds: float
    trace_id: str
    code: str
    error: str


@dataclass(frozen=True, slots=True)
class FinishedRequest:
    """What is counted of a request: of every one, statement or not."""

    method: str
    dialect: str
    code: str
    kind: str
    read_mode: str
    seconds: float
    rows_in: int
    rows_out: int
    bytes_in: int
    bytes_out: int


class RequestTrace(Steps, Protocol):
    """Whoever is told of the steps of one request, and of its end."""

    @abstractmethod
    def end(self, request: FinishedRequest) -> None:
        """Take note of how it went, on the thread of the request."""
        raise NotImplementedError


class Tracer(Protocol):
    """Whoever is told of requests while they run. It neither blocks nor raises."""

    @abstractmethod
    def begin(self, log: AccessLog) -> RequestTrace:
        """Take note of a request that begins."""
        raise NotImplementedError


Dismiss = Callable[[grpc.StatusCode, str], None]
"""Ends a call from any thread, with a code and a text."""


@dataclass(slots=True, eq=False)
class _Running:
    number: int
    call: Call
    log: AccessLog
    client: str
    is_airport: bool
    dismiss: Dismiss
    trace: RequestTrace | None = None
    started: float = field(default_factory=time.time)
    is_cancelled: bool = False
    dismissal: str = ""
    """What the client of a cancelled request is told that does not end by itself."""
    cancelled_at: float = 0.0
    over: threading.Event | None = None  # made by whoever waits for the end


class StatementRegistry:
    """Knows all requests that run. Of those that are statements, the last 1,000 are kept after their end.

    Safe to use from many threads.
    """

    def __init__(
        self,
        *,
        is_administrator: Callable[[str], bool] = lambda _: False,
        per_principal: int | None = None,
        max_seconds: float | None = None,
        max_finished: int = _MAX_FINISHED,
    ) -> None:
        """`per_principal` is how many streams of one principal may run, `max_seconds` how long each."""
        self.max_seconds = max_seconds
        self.is_administrator = is_administrator
        self._tracer: Tracer | None = None
        self._per_principal = per_principal
        self._prefix = secrets.token_hex(3)
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._running: dict[int, _Running] = {}
        self._finished: deque[StatementView] = deque(maxlen=max_finished)
        self._observers: tuple[Callable[[FinishedRequest], None], ...] = ()
        self._is_watched = False

    def observe(self, observer: Callable[[FinishedRequest], None]) -> None:
        """Tell an observer of each request that ends, on the thread of the request."""
        self._observers = (*self._observers, observer)

    def trace_by(self, tracer: Tracer) -> None:
        """Tell a tracer of each request from now on."""
        self._tracer = tracer

    def begin(self, call: Call, log: AccessLog, client: str, dismiss: Dismiss, *, is_airport: bool) -> str:
        """Know a request until its log line is written; return its id. Raises LimitExceededError."""
        entry = _Running(next(self._numbers), call, log, client, is_airport, dismiss)
        with self._lock:
            if self._per_principal is not None and log.method in _SHARED:
                self._check_share(call.principal, self._per_principal)
            self._running[entry.number] = entry
            if self.max_seconds is not None:
                self._begin_to_watch()
        if self._tracer is not None:
            entry.trace = call.meter.steps = self._tracer.begin(log)
        log.on_finish = lambda status, error: self._finish(entry, status, error)
        return f"{self._prefix}-{entry.number}"

    def list(self, principal: str) -> list[StatementView]:
        """Return a principal's own statements, for administrators those of all; running ones first."""
        with self._lock:
            running = list(self._running.values())
            finished = list(self._finished)
        views = [self._view(entry) for entry in reversed(running) if kind_of(entry.log)]
        views += reversed(finished)
        if self.is_administrator(principal):
            return views
        return [view for view in views if view.principal == principal]

    def running(self) -> int:
        """Return how many statements run."""
        with self._lock:
            running = list(self._running.values())
        return sum(1 for entry in running if kind_of(entry.log))

    def open_streams(self) -> int:
        """Return how many streams are open, of statements or not."""
        with self._lock:
            return sum(1 for entry in self._running.values() if entry.log.method in _STREAMS)

    def cancel(self, principal: str, statement_id: str) -> StatementView:
        """Cancel a statement and return how it stands then; one that has ended stays as it is.

        It gets a moment to end by itself; after that its client is told, whatever it is busy with.
        Raises NotFoundError for a statement that the principal may not see.
        """
        entry = self._find(statement_id)
        if entry is None or not self._may_see(principal, entry.call.principal):
            view = next((view for view in self.list(principal) if view.id == statement_id), None)
            if view is None:
                raise NotFoundError("statement", statement_id)
            return view
        _log.info("statement cancelled", statement=statement_id, by=loggable(principal))
        self._end(entry, f"the statement was cancelled by '{loggable(principal)}'")
        return next((view for view in self.list(principal) if view.id == statement_id), self._view(entry))

    def cancel_all(self) -> None:
        """Cancel everything that runs, without waiting for it."""
        with self._lock:
            running = list(self._running.values())
        for entry in running:
            entry.is_cancelled = True
            entry.call.cancel()

    def _end(self, entry: _Running, message: str) -> None:
        entry.is_cancelled = True
        entry.cancelled_at = time.monotonic()
        with self._lock:
            entry.over = over = entry.over or threading.Event()
            if entry.number not in self._running:
                return
            entry.dismissal = message
            self._begin_to_watch()
        entry.call.cancel()
        if not over.wait(_YIELD_SECONDS):
            if not _is_committing(entry):
                entry.dismiss(grpc.StatusCode.CANCELLED, message)
            over.wait(_YIELD_SECONDS / 2)

    def _begin_to_watch(self) -> None:
        """Have somebody watch; the caller holds the lock."""
        if not self._is_watched:
            self._is_watched = True
            threading.Thread(target=self._watch, name="flight-timeouts", daemon=True).start()

    def _watch(self) -> None:
        """End the calls that are cancelled or late and do not end by themselves, until there are none.

        Not those that commit: their clients are told how that ended.
        """
        while True:
            time.sleep(_WATCH_SECONDS)
            with self._lock:
                running = list(self._running.values())
                if not any(self.max_seconds is not None or entry.dismissal for entry in running):
                    self._is_watched = False
                    return
            for entry in running:
                reason = _overdue(entry)
                if reason is not None and not _is_committing(entry):
                    entry.dismiss(*reason)

    def _find(self, statement_id: str) -> _Running | None:
        prefix, _, number = statement_id.partition("-")
        if prefix != self._prefix or not number.isdecimal():
            return None
        with self._lock:
            entry = self._running.get(int(number))
        return entry if entry is not None and kind_of(entry.log) else None

    def _may_see(self, principal: str, owner: str) -> bool:
        return principal == owner or self.is_administrator(principal)

    def _check_share(self, principal: str, limit: int) -> None:
        own = sum(
            1
            for entry in self._running.values()
            if entry.call.principal == principal and entry.log.method in _SHARED
        )
        if own >= limit:
            raise LimitExceededError(
                f"{limit} statements of this principal are running, which is the limit"
                " (--statements-per-principal); try again when one has finished"
            )

    def _finish(self, entry: _Running, status: str, error: str) -> None:
        kind = kind_of(entry.log)
        view = self._view(entry, status, error) if kind else None
        with self._lock:
            self._running.pop(entry.number, None)
            if view is not None:
                self._finished.append(view)
            over = entry.over
        if over is not None:
            over.set()
        if self._observers or entry.trace is not None:
            self._tell(entry, status, kind)

    def _tell(self, entry: _Running, status: str, kind: str) -> None:
        log, meter = entry.log, entry.call.meter
        request = FinishedRequest(
            log.method,
            dialect_of(log, is_airport=entry.is_airport),
            status,
            kind,
            meter.read_mode,
            time.perf_counter() - log.started,
            meter.rows_in,
            meter.rows_out,
            meter.bytes_in,
            meter.bytes_out,
        )
        for observer in self._observers:
            observer(request)
        if entry.trace is not None:
            entry.trace.end(request)

    def _view(self, entry: _Running, status: str = "", error: str = "") -> StatementView:
        log, call = entry.log, entry.call
        meter = call.meter
        seconds = time.perf_counter() - log.started
        started = datetime.fromtimestamp(entry.started, UTC)
        return StatementView(
            f"{self._prefix}-{entry.number}",
            call.principal.name,
            loggable(entry.client),
            call.peer,
            dialect_of(log, is_airport=entry.is_airport),
            kind_of(log),
            log.details.get("path", ""),
            log.text[:_MAX_TEXT],
            meter.read_mode,
            _state(entry, status),
            meter.rows_out or meter.rows_in,
            meter.bytes_out + meter.bytes_in,
            None if status else _progress(call),
            started,
            datetime.fromtimestamp(entry.started + seconds, UTC) if status else None,
            seconds,
            log.trace,
            status,
            error[:_MAX_ERROR],
        )


def _overdue(entry: _Running) -> tuple[grpc.StatusCode, str] | None:
    """Return why a call is to be ended that had a moment to end by itself."""
    if entry.dismissal and time.monotonic() - entry.cancelled_at >= _YIELD_SECONDS:
        return grpc.StatusCode.CANCELLED, entry.dismissal
    remaining = entry.call.remaining()
    if entry.call.deadline_text and remaining is not None and remaining < -_YIELD_SECONDS:
        return grpc.StatusCode.DEADLINE_EXCEEDED, entry.call.deadline_text
    return None


def _is_committing(entry: _Running) -> bool:
    """Return whether a call commits, or has done so just now and has yet to tell its client."""
    meter = entry.call.meter
    told_at = meter.committed_at
    return meter.is_committing or (told_at is not None and time.monotonic() - told_at < _YIELD_SECONDS)


def _state(entry: _Running, status: str) -> str:
    meter = entry.call.meter
    match status:
        case "":
            if meter.is_queued:
                return "queued"
            if entry.log.method in {"DoGet", CONSOLE} and meter.rows_out:
                return "streaming"
            return "planning" if kind_of(entry.log) == "plan" else "running"
        case "OK":
            return "finished"
        case "CANCELLED":
            return "cancelled"
        case _:
            return "cancelled" if entry.is_cancelled else "failed"


def _progress(call: Call) -> Progress | None:
    try:
        return call.meter.progress()
    except SparkportError:  # whoever could tell is gone, and the statement will say so itself
        return None
