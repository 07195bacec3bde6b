"""The process for queries: a Spark of its own, which may hang or be killed without harm to the tables.

Started by `query.process` as `python -m sparkport.spark.query.worker SOCKET`. Each request comes as
a socket of its own through the one that the process is started with, whose end is the end of the process.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import structlog
from pyspark import cloudpickle

from sparkport.catalog.call import Call
from sparkport.errors import SparkportError
from sparkport.spark.query.messages import End, Question, Request, Start, failure, receive, send
from sparkport.spark.query.runner import SessionRunner
from sparkport.spark.session.host import SparkHost
from sparkport.spark.session.jobs import Jobs
from sparkport.spark.user_functions import register_functions

_log = structlog.get_logger("sparkport.query")

_NICENESS = 3  # scans and writes of the server come first where processors are short
_LOOK_SECONDS = 1.0
CANCEL_SECONDS = 10.0
"""How long a cancelled query may still run before its Spark is killed."""


def main() -> None:
    """Serve requests until the server is gone."""
    structlog.configure(
        processors=[structlog.processors.KeyValueRenderer(key_order=["event"])],
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    if hasattr(os, "nice"):
        os.nice(_NICENESS)
    start: Start = receive(sys.stdin.buffer)
    host = SparkHost(replace(start.settings, warm_up=False))
    host.start()
    jobs = Jobs(host, keeps_cancelled=True)
    runner = SessionRunner(jobs, functools.partial(register_functions, cloudpickle.loads(start.functions)))
    threading.Thread(target=_end_stuck, args=(host, jobs), name="query-watch", daemon=True).start()
    with socket.socket(fileno=int(sys.argv[1])) as control:
        while sockets := socket.recv_fds(control, 1, 1)[1]:
            connection = socket.socket(fileno=sockets[0])
            threading.Thread(target=_serve, args=(runner, connection), name="query", daemon=True).start()
    jobs.close()
    host.stop(0)


def _serve(runner: SessionRunner, connection: socket.socket) -> None:
    # A server that has closed its end wants no more answers.
    with connection, contextlib.suppress(EOFError, ConnectionError), connection.makefile("rwb") as stream:
        request: Request = receive(stream)
        call = Call(timeout=request.seconds)
        threading.Thread(target=_watch, args=(connection, call), name="query-client", daemon=True).start()
        try:
            for answer in _answers(runner, call, request):
                send(stream, answer)
            send(stream, End())
        except ConnectionError:
            raise
        except Exception as error:  # noqa: BLE001  (it is raised where the call was made)
            send(stream, failure(error))
        finally:
            call.cancel()
            with contextlib.suppress(OSError):  # the other end is closed
                connection.shutdown(socket.SHUT_RDWR)


def _answers(runner: SessionRunner, call: Call, request: Request) -> Iterator[Any]:
    query = request.query
    match request.question:
        case Question.PLAN:
            yield runner.parsed(call, query.sql)
        case Question.TABLE_NAMES:
            yield runner.table_names(call, query.sql)
        case Question.COLUMNS:
            yield runner.spark_schema(call, query)
        case Question.EXPLANATION:
            yield runner.explained(call, query)
        case Question.ROWS:
            yield from runner.rows(call, query, request.spark_schema, request.options)


def _watch(connection: socket.socket, call: Call) -> None:
    """Cancel the call when the server closes its end; it sends nothing before that."""
    with contextlib.suppress(OSError):
        connection.recv(1, socket.MSG_PEEK)
    call.cancel()


def _end_stuck(host: SparkHost, jobs: Jobs) -> None:
    """Kill Spark when work goes on that was cancelled: Java has no other way to end a regular expression."""
    while True:
        time.sleep(_LOOK_SECONDS)
        try:
            stuck = jobs.still_running(CANCEL_SECONDS)
        except SparkportError:  # Spark is being started again
            continue
        except Exception as error:  # noqa: BLE001  (nobody else would look at the next query)
            _log.warning("running queries could not be checked", reason=type(error).__name__)
            continue
        if stuck:
            _log.warning(
                "restarting Spark for queries: a cancelled query did not end",
                seconds=CANCEL_SECONDS,
                count=stuck,
            )
            host.kill()


if __name__ == "__main__":
    main()
