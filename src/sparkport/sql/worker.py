"""The process that runs statements: a DuckDB with limits that the kernel enforces.

Started by `sql.database` as `python -m sparkport.sql.worker MEGABYTES`. A request is a line of JSON, with an
Arrow stream after it if it has rows. The answer to `execute` is an Arrow stream between two such lines, of
which the last tells what has failed. The process ends when the server closes the pipe, or kills it: DuckDB
looks for an interrupt between batches of values, and one value can take an hour.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any, BinaryIO

import duckdb
import pyarrow as pa

from sparkport.expressions.worker import limit_process

BATCH_ROWS = 65_536
_ERRORS = (duckdb.Error, pa.ArrowException, MemoryError, RuntimeError)
_SHARE_OF_DUCKDB = 0.8  # of the memory; the rest is for rows on their way


def main() -> None:
    """Answer requests until the server closes the pipe."""
    megabytes = int(sys.argv[1])
    connection = open_database(int(megabytes * _SHARE_OF_DUCKDB))
    connection.execute("SELECT json_serialize_sql('SELECT 1')").fetch_arrow_table()  # loads what is needed
    limit_process(megabytes=megabytes)
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    while line := source.readline():
        request = json.loads(line)
        match request["do"]:
            case "register":
                connection.register(request["name"], pa.ipc.open_stream(source).read_all())
            case "unregister":
                connection.unregister(request["name"])
            case _:
                execute(connection, request, source, sink)


def open_database(megabytes: int) -> duckdb.DuckDBPyConnection:
    """Return a database in memory without files, network, extensions or settings to change."""
    return duckdb.connect(
        ":memory:",
        config={
            "enable_external_access": "false",
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "allow_community_extensions": "false",
            "python_enable_replacements": "false",  # else a name in FROM could be a variable of this module
            "memory_limit": f"{megabytes}MB",
            "temp_directory": "",
            "threads": "2",
            "lock_configuration": "true",
        },
    )


def execute(
    connection: duckdb.DuckDBPyConnection, request: Mapping[str, Any], source: BinaryIO, sink: BinaryIO
) -> None:
    """Run a statement and write its rows."""
    values: list[Any] = []
    if request["has_values"]:
        rows = pa.ipc.open_stream(source).read_all().to_pylist()
        values = list(rows[0].values())
    failure: dict[str, str] = {}
    try:
        reader = connection.execute(request["sql"], values).fetch_record_batch(BATCH_ROWS)
    except _ERRORS as error:
        _write(sink, _described(error))
    else:
        _write(sink, {})
        with pa.ipc.new_stream(sink, reader.schema) as writer:
            try:
                for batch in reader:
                    writer.write_batch(batch)
            except _ERRORS as error:
                failure = _described(error)
        _write(sink, failure)


def _described(error: BaseException) -> dict[str, str]:
    if isinstance(error, MemoryError | pa.ArrowMemoryError):
        return {"kind": duckdb.OutOfMemoryException.__name__, "text": ""}
    return {"kind": type(error).__name__, "text": str(error)}


def _write(sink: BinaryIO, message: Mapping[str, str]) -> None:
    sink.write(json.dumps(message).encode() + b"\n")
    sink.flush()


if __name__ == "__main__":
    main()
