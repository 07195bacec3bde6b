"""Errors of DuckDB, as the errors of the statements that clients wrote."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator

import duckdb

from sparkport.catalog.call import Call
from sparkport.errors import (
    DeadlineExceededError,
    InvalidRequestError,
    LimitExceededError,
    NotFoundError,
    PermissionDeniedError,
    SparkportError,
)
from sparkport.sql.database import DatabaseGoneError
from sparkport.sql.databases import MAX_SECONDS, memory_limit_megabytes

_MAX_MESSAGE = 600
_MISSING_COLUMN = re.compile(r'Referenced column "(?P<name>[^"]+)" (?:was )?not found')
_CANDIDATES = re.compile(r"Candidate bindings: (?P<names>.*)")
_MISSING_TABLE = re.compile(r"Table with name (?P<name>.+?) does not exist")
_QUOTED = re.compile(r'"([^"]+)"')


@contextlib.contextmanager
def translated(call: Call) -> Iterator[None]:
    """Turn errors of DuckDB into those of this package, and the end of its process into that of the call."""
    started = time.monotonic()
    try:
        yield
    except DatabaseGoneError as error:
        call.check()
        if time.monotonic() - started >= MAX_SECONDS:
            raise DeadlineExceededError(
                f"the statement took longer than {MAX_SECONDS:g} seconds, the limit of this server"
            ) from error
        raise _out_of_memory() from error
    except duckdb.OutOfMemoryException as error:
        raise _out_of_memory() from error
    except duckdb.Error as error:
        call.check()
        raise _translated(error) from error


def _out_of_memory() -> LimitExceededError:
    return LimitExceededError(f"the statement needs more than {memory_limit_megabytes()} MB of memory")


def _translated(error: duckdb.Error) -> SparkportError:
    text = str(error)
    if isinstance(error, duckdb.PermissionException):
        return PermissionDeniedError("SQL has no access to files, networks and extensions")
    if isinstance(error, duckdb.FatalException | duckdb.InternalException):
        return InvalidRequestError("DuckDB cannot run this statement")
    column = _MISSING_COLUMN.search(text)
    if column:
        candidates = _CANDIDATES.search(text)
        names = _QUOTED.findall(candidates["names"]) if candidates else []
        return NotFoundError("column", column["name"], [name.rpartition(".")[2] for name in names])
    table = _MISSING_TABLE.search(text)
    if table:
        return NotFoundError("table", table["name"])
    return InvalidRequestError(_shown(text))


def _shown(text: str) -> str:
    """Return DuckDB's message as one paragraph, with the line that it points at."""
    lines = [line.strip() for line in text.splitlines() if line.strip(" ^\t")]
    return " ".join(lines)[:_MAX_MESSAGE]
