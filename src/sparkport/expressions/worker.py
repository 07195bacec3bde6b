"""The process that evaluates expressions: one query at a time, within limits that the kernel enforces.

The server starts this file as a script, so it imports nothing else of the package. A request is a line
of JSON, followed by an Arrow stream of `bytes` if the query reads rows; so is the answer. The process
ends when a request exceeds its time limit, and when the server closes the pipe or ends.
"""

from __future__ import annotations

import contextlib
import json
import resource
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import duckdb
import pyarrow as pa

_KIB = 1024
_START_SECONDS = 60.0
_MAX_REASON = 1000  # characters: it may quote a long value
_STATUS = Path("/proc/self/status")
_OOM_SCORE = Path("/proc/self/oom_score_adj")
_FIRST_TO_END = "1000"
# After these errors a database answers no further query.
_FATAL = (duckdb.FatalException, duckdb.InternalException)


def main() -> None:
    """Answer requests until the server closes the pipe."""
    # The signal has no handler, so it ends the process at any point: DuckDB checks for an
    # interrupt only between batches of values.
    signal.setitimer(signal.ITIMER_REAL, _START_SECONDS)
    connection = open_sandbox(megabytes=int(sys.argv[1]))
    warm_up(connection)
    limit_process(megabytes=int(sys.argv[1]))
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    signal.setitimer(signal.ITIMER_REAL, 0)
    while line := source.readline():
        request = json.loads(line)
        signal.setitimer(signal.ITIMER_REAL, request["seconds"])
        answer(connection, request, source, sink)
        signal.setitimer(signal.ITIMER_REAL, 0)


def open_sandbox(*, megabytes: int) -> duckdb.DuckDBPyConnection:
    """Return a database in memory without files, network, extensions or settings to change."""
    connection = duckdb.connect(
        ":memory:",
        config={
            "enable_external_access": "false",
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "python_enable_replacements": "false",
            "memory_limit": f"{megabytes}MB",
            "threads": "1",
            "arrow_lossless_conversion": "true",
        },
    )
    connection.execute("SET lock_configuration = true")
    return connection


def warm_up(connection: duckdb.DuckDBPyConnection) -> None:
    """Read rows once: the imports that DuckDB does for its first rows take seconds on a busy machine."""
    connection.register("rows", pa.table({"n": [1]}))
    connection.execute("SELECT n FROM rows").fetch_arrow_table()
    connection.unregister("rows")


def limit_process(*, megabytes: int) -> None:
    """Limit the memory beyond what is in use now, and forbid to write files.

    If the machine runs out of memory nevertheless, the kernel ends this process before the server.
    """
    lower_limit("RLIMIT_DATA", (_megabytes("VmData:") + megabytes) * _KIB * _KIB)
    lower_limit("RLIMIT_FSIZE", 0)
    lower_limit("RLIMIT_CORE", 0)
    if _OOM_SCORE.exists():  # on Linux
        with contextlib.suppress(OSError):  # read-only in some containers; the limits hold
            _OOM_SCORE.write_text(_FIRST_TO_END, encoding="ascii")


def lower_limit(name: str, value: int) -> None:
    """Lower a limit of this process, if the platform has it; a lower one stays."""
    number = getattr(resource, name, None)
    if number is None:
        return
    hard = resource.getrlimit(number)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(number, (value, value))


def answer(
    connection: duckdb.DuckDBPyConnection, request: Mapping[str, Any], source: BinaryIO, sink: BinaryIO
) -> None:
    """Run the query of a request and write its rows or its error."""
    try:
        if request["bytes"]:
            connection.register("rows", pa.ipc.open_stream(source.read(request["bytes"])).read_all())
        result = connection.execute(request["query"], request["parameters"]).fetch_arrow_table()
        body = pa.BufferOutputStream()
        with pa.ipc.new_stream(body, result.schema) as writer:
            writer.write_table(result)
        data = memoryview(body.getvalue())
    except (MemoryError, duckdb.OutOfMemoryException, pa.ArrowMemoryError):
        _write(sink, {"kind": "memory"})
    except (duckdb.Error, pa.ArrowException) as error:
        reason = str(error).partition("\n")[0][:_MAX_REASON]
        _write(sink, {"kind": "error", "reason": reason, "is_fatal": isinstance(error, _FATAL)})
    else:
        _write(sink, {"kind": "rows", "bytes": len(data), "megabytes": _megabytes("VmRSS:")}, data)
    finally:
        connection.unregister("rows")


def _write(sink: BinaryIO, header: Mapping[str, Any], data: memoryview | None = None) -> None:
    sink.write(json.dumps(header).encode() + b"\n")
    if data is not None:
        sink.write(data)
    sink.flush()


def _megabytes(entry: str) -> int:
    """Return an entry of the kernel's status of this process, in MiB."""
    if not _STATUS.exists():  # not on Linux: only the peak is known, in bytes on macOS
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (_KIB * _KIB)
    # The peak would include that of the server process it was forked from.
    lines = _STATUS.read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) // _KIB for line in lines if line.startswith(entry))


if __name__ == "__main__":
    main()
