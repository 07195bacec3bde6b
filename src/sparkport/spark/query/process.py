"""The process for queries as the server sees it: started when needed, and again when it is gone."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import IO, Any

import pyarrow as pa
import structlog

from sparkport.catalog.call import Call
from sparkport.catalog.scan import ScanOptions
from sparkport.errors import UnavailableError
from sparkport.spark.query.messages import End, Failure, Question, Request, Start, receive, send
from sparkport.spark.query.runner import QueryRunner
from sparkport.spark.query.tables import BoundQuery, NamedTable
from sparkport.spark.session.process import child_environment
from sparkport.spark.session.settings import SparkSettings

_log = structlog.get_logger("sparkport.query")

_MODULE = "sparkport.spark.query.worker"
_STOP_SECONDS = 10.0
_SEND_SECONDS = 5.0
_GONE = "Spark stopped while it worked on this query; try again"


class ProcessRunner(QueryRunner):
    """Runs queries in a process with a Spark of its own.

    What a query does to its Spark, such as to use up memory or to go on when nobody can stop it, does not
    reach the Spark that reads and writes tables.
    """

    def __init__(self, settings: SparkSettings, functions: Callable[[], bytes]) -> None:
        self._settings = settings
        self._functions = functions
        self._lock = threading.Lock()
        self._process: _Process | None = None
        self._stopped = False

    @property
    def process_id(self) -> int | None:
        """The process, once a query has started it."""
        process = self._process
        return process.process_id if process else None

    def parsed(self, call: Call, sql: str) -> str:
        """Return the plan of any statement."""
        return str(self._answer(call, Question.PLAN, BoundQuery(sql)))

    def table_names(self, call: Call, sql: str) -> list[NamedTable]:
        """Return the tables that a query names."""
        return list(self._answer(call, Question.TABLE_NAMES, BoundQuery(sql)))

    def spark_schema(self, call: Call, query: BoundQuery) -> str:
        """Return the columns of a query."""
        return str(self._answer(call, Question.COLUMNS, query))

    def explained(self, call: Call, query: BoundQuery) -> str:
        """Return the plan of a query as a text."""
        return str(self._answer(call, Question.EXPLANATION, query))

    def rows(
        self, call: Call, query: BoundQuery, spark_schema: str, options: ScanOptions
    ) -> Iterator[pa.RecordBatch]:
        """Yield the stored values of the rows."""
        request = Request(Question.ROWS, query, call.remaining(), spark_schema, options)
        return self._answers(call, request)

    def stop(self) -> None:
        """End the process and its Spark."""
        with self._lock:
            self._stopped = True
            process, self._process = self._process, None
        if process is not None:
            process.stop()

    def _answer(self, call: Call, question: Question, query: BoundQuery) -> Any:  # noqa: ANN401  (by question)
        return next(self._answers(call, Request(question, query, call.remaining())))

    def _answers(self, call: Call, request: Request) -> Iterator[Any]:
        call.check()
        with self._connection() as connection, _until_deadline(call, connection):
            call.on_cancel(lambda: _hang_up(connection))
            try:
                with connection.makefile("rwb") as stream:
                    send(stream, request)
                    while not isinstance(answer := receive(stream), End):
                        if isinstance(answer, Failure):
                            raise answer.error()
                        yield answer
            except (EOFError, ConnectionError) as error:
                call.check()
                raise UnavailableError(_GONE) from error

    def _connection(self) -> socket.socket:
        with self._lock:
            if self._stopped:
                raise UnavailableError("the server is stopping")
            if self._process is None or not self._process.is_alive:
                self._process = _Process(Start(self._settings, self._functions()))
            return self._process.connect()


class _Process:
    def __init__(self, start: Start) -> None:
        self._control, theirs = socket.socketpair()
        self._control.settimeout(_SEND_SECONDS)  # a process that hangs takes no more requests
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603
                [sys.executable, "-m", _MODULE, str(theirs.fileno())],
                env=child_environment(),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        assert self._process.stdin is not None
        assert self._process.stderr is not None
        threading.Thread(
            target=_forward, args=(self._process.stderr,), name="query-output", daemon=True
        ).start()
        threading.Thread(
            target=_give, args=(self._process.stdin, start), name="query-start", daemon=True
        ).start()

    @property
    def process_id(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def connect(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                socket.send_fds(self._control, [b"\0"], [theirs.fileno()])
        except OSError as error:
            ours.close()
            raise UnavailableError(_GONE) from error
        return ours

    def stop(self) -> None:
        self._control.close()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()  # its Spark ends when it loses its standard input
            self._process.wait()


@contextlib.contextmanager
def _until_deadline(call: Call, connection: socket.socket) -> Iterator[None]:
    """Hang up when the call's time is up: a process that hangs does not notice that."""
    remaining = call.remaining()
    if remaining is None:
        yield
        return
    timer = threading.Timer(max(0.0, remaining), _hang_up, [connection])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _hang_up(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # closed already
        connection.shutdown(socket.SHUT_RDWR)


def _give(stdin: IO[bytes], start: Start) -> None:
    """Tell a process what it is started with; not all of it may fit into the pipe at once."""
    with contextlib.suppress(BrokenPipeError), stdin:  # it has ended already, which its queries notice
        send(stdin, start)


def _forward(output: IO[bytes]) -> None:
    """Put what the process reports into the server's log."""
    with output:
        for line in output:
            _log.warning("query process", line=line.decode(errors="replace").rstrip())
