"""Run queries with clients' expressions in worker processes with limits on memory and time."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import structlog

from sparkport.catalog.call import Call
from sparkport.errors import InvalidRequestError, LimitExceededError, UnavailableError
from sparkport.expressions.turns import Turns
from sparkport.toolkit.machine import machine_memory

TIME_LIMIT_SECONDS = 10.0
"""How long one query may take."""

_MAX_WORKERS = 4
_MAX_IDLE_WORKERS = 2
_MIN_MEGABYTES = 64
_MAX_MEGABYTES = 512
_SHARE_OF_MACHINE = 4  # all workers together may use a quarter of its memory
_MEGABYTE = 1 << 20
# A worker that once needed much memory does not free it, so it is replaced by a new one.
_START_MEGABYTES = 100
_RETIRING_SHARE = 0.4
# What Python and the C library need to run; no others, which may be secrets.
_PASSED_VARIABLES = ("LANG", "LC_ALL", "LD_LIBRARY_PATH", "SYSTEMROOT", "TZ")

_log = structlog.get_logger("sparkport")


def memory_limit_megabytes() -> int:
    """Return how much memory a worker may use beyond what it starts with, on this machine or container."""
    share = machine_memory() // _SHARE_OF_MACHINE // _MAX_WORKERS // _MEGABYTE
    return min(max(share, _MIN_MEGABYTES), _MAX_MEGABYTES)


def passed_variables() -> dict[str, str]:
    """Return the variables of the environment that a worker gets."""
    return {name: os.environ[name] for name in _PASSED_VARIABLES if name in os.environ}


class QueryFailedError(InvalidRequestError):
    """A query is not valid or fails for a row; its text is DuckDB's reason."""


class _Worker:
    """A process that runs one query at a time."""

    def __init__(self) -> None:
        self._megabytes = memory_limit_megabytes()
        variables = passed_variables()
        variables["PYTHONPATH"] = os.pathsep.join(entry for entry in sys.path if entry)
        script = str(Path(__file__).with_name("worker.py"))
        self._process = subprocess.Popen(  # noqa: S603  (our own file)
            [sys.executable, "-P", "-s", script, str(self._megabytes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env=variables,
            start_new_session=True,  # Ctrl-C is for the server, which lets its calls finish
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests = self._process.stdin
        self._answers = self._process.stdout
        self.is_reusable = True

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def run(self, call: Call, query: str, parameters: Sequence[str], rows: pa.Table | None) -> pa.Table:
        """Return the rows of a query."""
        self.is_reusable = False
        body = b"" if rows is None else _serialize(rows)
        remaining = call.remaining()
        seconds = TIME_LIMIT_SECONDS if remaining is None else min(max(remaining, 0.001), TIME_LIMIT_SECONDS)
        request = {"query": query, "parameters": parameters, "seconds": seconds, "bytes": len(body)}
        try:
            with call.cancelling(self._process.kill):
                self._requests.write(json.dumps(request).encode() + b"\n")
                self._requests.write(body)
                self._requests.flush()
                answer = json.loads(self._answers.readline() or "{}")
                data = self._answers.read(answer.get("bytes", 0))
        except BrokenPipeError:
            answer, data = {}, b""
        match answer.get("kind"):
            case "rows" if len(data) == answer["bytes"]:
                # A call that was cancelled meanwhile may still be about to end the process.
                self.is_reusable = not call.cancelled and self._is_small(answer["megabytes"])
                return pa.ipc.open_stream(data).read_all()
            case "error":
                self.is_reusable = not answer["is_fatal"] and not call.cancelled
                raise QueryFailedError(answer["reason"])
            case "memory":
                raise self._out_of_memory()
        raise self._death_cause(call)

    def close(self) -> None:
        """End the process and wait for it."""
        self._process.kill()
        self._process.wait()
        # A request that was not sent completely is of no use.
        with contextlib.suppress(BrokenPipeError):
            self._requests.close()
        self._answers.close()

    def _death_cause(self, call: Call) -> Exception:
        """Return the error for a process that has ended during a query."""
        status = self._process.wait()
        call.check()
        if status == -signal.SIGALRM:
            return LimitExceededError(f"evaluating it took longer than {TIME_LIMIT_SECONDS:g} seconds")
        _log.warning("expression worker ended", status=status)
        if status < 0:  # DuckDB does not survive every failed allocation
            return self._out_of_memory()
        return UnavailableError(
            f"the worker process for expressions ended with status {status}; run the statement again"
        )

    def _is_small(self, megabytes: int) -> bool:
        return megabytes < _START_MEGABYTES + _RETIRING_SHARE * self._megabytes

    def _out_of_memory(self) -> LimitExceededError:
        return LimitExceededError(f"evaluating it needs more than {self._megabytes} MB of memory")


class Sandbox:
    """Distributes queries to a few workers, which are started when needed and reused.

    One of them is for quick queries only, so that these do not wait for the others, and no caller can use
    all workers.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        self._turns = Turns(_MAX_WORKERS)

    @property
    def busy_workers(self) -> int:
        """How many queries run now."""
        return self._turns.running

    def run(
        self,
        call: Call,
        query: str,
        parameters: Sequence[str] = (),
        rows: pa.Table | None = None,
        *,
        is_quick: bool = False,
    ) -> pa.Table:
        """Return the rows of a query, which may read the `rows` given.

        Raises QueryFailedError, and LimitExceededError for one that takes too much memory or time. A
        cancelled call ends its query.
        """
        with self._turns.take(call, is_quick=is_quick):
            worker = self._take()
            try:
                return worker.run(call, query, parameters, rows)
            finally:
                self._give_back(worker)

    def start_ahead(self) -> None:
        """Start a worker, unless one is idle, so that the first query need not wait. Return at once."""
        with self._lock:
            if self._idle:
                return
            try:
                self._idle.append(_start_worker())
            except UnavailableError as error:  # the first query tries again and raises it
                _log.warning("expression worker not started", reason=str(error))

    def close(self) -> None:
        """End the idle workers."""
        with self._lock:
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.close()

    def _take(self) -> _Worker:
        while True:
            with self._lock:
                worker = self._idle.pop() if self._idle else None
            if worker is None:
                return _start_worker()
            if worker.is_alive:
                return worker
            worker.close()

    def _give_back(self, worker: _Worker) -> None:
        with self._lock:
            if worker.is_reusable and len(self._idle) < _MAX_IDLE_WORKERS:
                self._idle.append(worker)
                return
        worker.close()


SANDBOX = Sandbox()
"""The sandbox of this process."""
atexit.register(SANDBOX.close)


def _start_worker() -> _Worker:
    try:
        return _Worker()
    except OSError as error:
        raise UnavailableError(f"cannot start a worker process for expressions: {error.strerror}") from error


def _serialize(rows: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return sink.getvalue()
