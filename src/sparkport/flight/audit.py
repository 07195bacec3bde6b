"""The audit log: who did what to which tables, one line of JSON for each call."""

from __future__ import annotations

import json
import os
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import structlog

from sparkport.catalog.call import Call
from sparkport.errors import ConfigError, UnavailableError
from sparkport.flight.access_log import AccessLog

_log = structlog.get_logger("sparkport")

STDOUT = "stdout"
_MAX_TEXT = 100_000
# They tell nothing of data, and DuckDB asks before each statement.
_LEFT_OUT_METHODS = frozenset({"ListActions"})
_LEFT_OUT_ACTIONS = frozenset({"catalog_version"})


class AuditLog:
    """Appends lines to a file, or to standard output. Safe to use from many threads.

    A line is handed to the operating system before the call is answered. If that fails, the call fails too
    where the audit `is_required`, and further ones are refused until a line can be written again; else the
    failure is logged as an error.
    """

    def __init__(self, target: str, *, is_required: bool = False) -> None:
        """Open the log; `target` is a file, or `stdout`. Raises ConfigError."""
        self._is_required = is_required
        self._lock = threading.Lock()
        self._is_broken = False
        if target == STDOUT:
            self._descriptor = sys.stdout.fileno()
            return
        try:
            self._descriptor = os.open(Path(target), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        except OSError as error:
            raise ConfigError(f"the audit log '{target}' cannot be written: {error.strerror}") from error

    def check(self) -> None:
        """Make sure that work can be audited, if it has to be. Raises UnavailableError."""
        if self._is_required and self._is_broken:
            self._append({"time": _now(), "event": "resumed"})

    def began(self, call: Call, access_log: AccessLog) -> None:
        """Write that a stream of rows is about to be sent. Raises UnavailableError."""
        self._append({**_who(call, access_log), "event": "begin", **_what(access_log)})

    def ended(self, call: Call | None, access_log: AccessLog, status: str, error: str = "") -> None:
        """Write how a call went, before its answer is complete. Raises UnavailableError."""
        if access_log.method in _LEFT_OUT_METHODS or access_log.details.get("action") in _LEFT_OUT_ACTIONS:
            return
        line = {**_who(call, access_log), "event": "end", **_what(access_log)}
        if call is not None:
            meter = call.meter
            line["tables"] = [
                {"table": table, "policies": list(policies)} if policies else {"table": table}
                for table, policies in meter.tables.items()
            ]
            line["columns"] = access_log.columns
            line["rows_in"], line["rows_out"] = meter.rows_in, meter.rows_out
        line["outcome"] = status
        if error:
            line["error"] = error
        self._append(line)

    def _append(self, line: dict[str, Any]) -> None:
        # One write each: lines of several threads, or servers, do not mix.
        data = json.dumps(line, ensure_ascii=False).encode(errors="replace") + b"\n"
        try:
            with self._lock:
                written = os.write(self._descriptor, data)
            reason = "" if written == len(data) else f"{written} of {len(data)} bytes were written"
        except OSError as error:
            reason = str(error)
        self._is_broken = bool(reason)
        if not reason:
            return
        _log.error("audit log cannot be written", error=reason)
        if self._is_required:
            raise UnavailableError(
                "the audit log of this server cannot be written, so that nothing is answered; what the call"
                " has changed stays changed"
            )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")


def _who(call: Call | None, access_log: AccessLog) -> dict[str, Any]:
    line: dict[str, Any] = {"time": _now(), "trace_id": access_log.trace}
    if call is not None:
        principal = call.principal
        line |= {
            "principal": principal.name,
            "roles": sorted(principal.roles),
            "way_in": principal.way_in,
            "peer": call.peer,
            "transaction": call.transaction_id,
        }
    return line


def _what(access_log: AccessLog) -> dict[str, Any]:
    details = {key: value for key, value in access_log.details.items() if key != "principal"}
    what: dict[str, Any] = {"method": access_log.method, **details}
    if access_log.text:
        what["sql"] = access_log.text[:_MAX_TEXT]
    return what
