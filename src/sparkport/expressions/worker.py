"""The process that evaluates expressions: one query at a time, within limits that the kernel enforces.

The server starts this file as a script, so it imports nothing else of the package. A request is a line
of JSON, with an Arrow stream of `bytes` behind it if the query reads rows; so is the answer. The process
ends by itself when its time for a request is up, and when the server closes the pipe or is gone.
"""

from __future__ import annotations

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
_MAX_REASON = 1000  # it may quote a value, of any length
# After these a database answers nothing else.
_FATAL = (duckdb.FatalException, duckdb.InternalException)


def main() -> None:
    """Answer requests until there are no more."""
    # Nobody catches the signal, so it ends the process wherever that is: DuckDB looks for an
    # interrupt only between batches of values.
    signal.setitimer(signal.ITIMER_REAL, _START_SECONDS)
    connection = open_sandbox(megabytes=int(sys.argv[1]))
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


def limit_process(*, megabytes: int) -> None:
    """Allow so much memory beyond what is in use now, and no files to be written."""
    limit = (_megabytes("VmData:") + megabytes) * _KIB * _KIB
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def answer(
    connection: duckdb.DuckDBPyConnection, request: Mapping[str, Any], source: BinaryIO, sink: BinaryIO
) -> None:
    """Run the query of a request and write its rows, or why there are none."""
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
    """Return what the kernel says of this process. A peak would be that of the server it came from."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) // _KIB for line in status.splitlines() if line.startswith(entry))


if __name__ == "__main__":
    main()
