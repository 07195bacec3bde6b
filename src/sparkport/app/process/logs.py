"""Logging: readable lines for people, JSON for machines, always to standard error."""

from __future__ import annotations

import enum
import logging
import sys

import structlog


class LogFormat(enum.StrEnum):
    """How log lines look."""

    CONSOLE = "console"
    JSON = "json"


class LogLevel(enum.StrEnum):
    """From which weight on lines are logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class _StandardError:
    """Writes lines to whatever standard error is at the time."""

    def msg(self, line: str) -> None:
        """Write one line at once, so that lines of several threads do not mix."""
        sys.stderr.write(f"{line}\n")

    debug = info = warning = error = msg


def configure_logs(log_format: LogFormat, level: LogLevel) -> None:
    """Set up the log of this process."""
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if log_format is LogFormat.JSON
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.format_exc_info
            if log_format is LogFormat.JSON
            else structlog.processors.UnicodeDecoder(),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=lambda *_: _StandardError(),
        cache_logger_on_first_use=True,
    )
