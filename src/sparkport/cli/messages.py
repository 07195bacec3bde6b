"""What commands tell people: notes, warnings and errors."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

import structlog
import typer

from sparkport.app.process.logs import LogFormat
from sparkport.errors import SparkportError

_log = structlog.get_logger("sparkport")


@contextlib.contextmanager
def errors_as_exit_codes() -> Iterator[None]:
    """Print an error in one line, and exit with code 2."""
    try:
        yield
    except (SparkportError, OSError, ValueError) as error:
        typer.echo(f"sparkport: {error}", err=True)
        raise typer.Exit(2) from error


def note(log_format: LogFormat, text: str) -> None:
    """Print a note."""
    tell(log_format, text, f"note: {text}")


def tell(log_format: LogFormat, event: str, line: str, level: int = logging.INFO) -> None:
    """Print a line, or log it as an event if the log is JSON."""
    if log_format is LogFormat.JSON:
        _log.log(level, event)
    else:
        typer.echo(line, err=True)
