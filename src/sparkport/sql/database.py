"""A DuckDB in a process of its own, which can be killed without harm to the server."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import duckdb
import pyarrow as pa

from sparkport.expressions.sandbox import passed_variables

_MODULE = "sparkport.sql.worker"
_BREAKING = (duckdb.OutOfMemoryException, duckdb.FatalException, duckdb.InternalException)


class DatabaseGoneError(Exception):
    """The process has ended: it was killed, or has used too much memory."""


class Result:
    """The rows of a statement, which have to be read before the next one."""

    def __init__(self, reader: pa.RecordBatchReader, finish: Callable[[], None]) -> None:
        self._reader = reader
        self._finish = finish
        self.schema: pa.Schema = reader.schema

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as they come. Raises duckdb.Error."""
        try:
            yield from self._reader
        except (pa.ArrowException, OSError) as error:
            raise DatabaseGoneError from error
        self._finish()

    def table(self) -> pa.Table:
        """Return all rows."""
        return pa.Table.from_batches(list(self), self.schema)

    def rows(self) -> list[tuple[Any, ...]]:
        """Return all rows as values of Python."""
        return [tuple(row.values()) for row in self.table().to_pylist()]


class Database:
    """Runs one statement at a time. Errors of DuckDB are raised as its own."""

    def __init__(self, megabytes: int) -> None:
        path = os.pathsep.join(entry for entry in sys.path if entry)
        self._process = subprocess.Popen(  # noqa: S603  (our own module)
            [sys.executable, "-P", "-s", "-m", _MODULE, str(megabytes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env=passed_variables() | {"PYTHONPATH": path},
            start_new_session=True,  # Ctrl-C is for the server, which lets its calls finish
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests = self._process.stdin
        self._answers = self._process.stdout
        self.is_idle = True
        """Whether the last statement has been read to its end, so that another one can be run."""

    @property
    def process_id(self) -> int:
        """The process."""
        return self._process.pid

    def execute(self, sql: str, values: Sequence[Any] = ()) -> Result:
        """Run a statement. Raises duckdb.Error, or DatabaseGoneError."""
        self.is_idle = False
        with _talking():
            self._send({"do": "execute", "sql": sql, "has_values": bool(values)})
            if values:
                row = _one_row(values)
                self._send_rows(row.schema, [row])
            self._check(self._receive())
            return Result(pa.ipc.open_stream(self._answers), self._finish)

    def run(self, sql: str) -> None:
        """Run a statement whose rows do not matter."""
        self.execute(sql).table()

    def register(self, name: str, arrow_schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
        """Give a name to rows, which are sent one batch after the other. Raises what `batches` raises."""
        with _talking():
            self._send({"do": "register", "name": name})
            self._send_rows(arrow_schema, batches)

    def unregister(self, name: str) -> None:
        """Forget rows."""
        with _talking():
            self._send({"do": "unregister", "name": name})

    def kill(self) -> None:
        """End the process, whatever it does."""
        self._process.kill()

    def close(self) -> None:
        """End the process and wait for it."""
        self._process.kill()
        self._process.wait()
        with contextlib.suppress(OSError, ValueError):  # a request that was not sent completely is of no use
            self._requests.close()
        self._answers.close()

    def _finish(self) -> None:
        with _talking():
            self._check(self._receive())
        self.is_idle = True

    def _check(self, answer: Mapping[str, str]) -> None:
        if answer:
            kind = getattr(duckdb, answer["kind"], duckdb.Error)
            # DuckDB does not always recover from these, and then the next statement would hang.
            self.is_idle = not issubclass(kind, _BREAKING)
            raise kind(answer["text"])

    def _send(self, message: Mapping[str, object]) -> None:
        self._requests.write(json.dumps(message).encode() + b"\n")
        self._requests.flush()

    def _send_rows(self, arrow_schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
        with pa.ipc.new_stream(self._requests, arrow_schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
        self._requests.flush()

    def _receive(self) -> dict[str, str]:
        line = self._answers.readline()
        if not line:
            raise DatabaseGoneError
        answer: dict[str, str] = json.loads(line)
        return answer


@contextlib.contextmanager
def _talking() -> Iterator[None]:
    """Take a broken pipe for the end of the process."""
    try:
        yield
    except (BrokenPipeError, ConnectionError, EOFError) as error:
        raise DatabaseGoneError from error
    except pa.ArrowInvalid as error:  # a stream that ends before its schema
        raise DatabaseGoneError from error


def _one_row(values: Sequence[Any]) -> pa.RecordBatch:
    return pa.record_batch({str(number): pa.array([value]) for number, value in enumerate(values)})
