"""Runs SQL in DuckDB with the Airport extension; the tests start this as a process of its own.

The client dies with its whole process on some mistakes of a server. Reads one JSON
document from standard input; writes a line before and a line after each statement.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

import duckdb


def main() -> None:
    """Run the script on standard input."""
    script = json.load(sys.stdin)
    connections: dict[str, duckdb.DuckDBPyConnection] = {}
    for index, step in enumerate(script["steps"]):
        name = step["on"]
        if name not in connections:
            connections[name] = _connect(script)
        time.sleep(step["pause_before"])
        _say({"begun": index})
        _say(_outcome(connections[name], step))


def _connect(script: dict[str, Any]) -> duckdb.DuckDBPyConnection:
    """Open a DuckDB of its own, which shares nothing with the others in this process."""
    connection = duckdb.connect(
        config={
            "allow_unsigned_extensions": "true",
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "extension_directory": script["extensions"],
        }
    )
    connection.execute(f"SET home_directory = '{script['home']}'")
    for statement in script["setup"]:
        connection.execute(statement)
    return connection


def _outcome(connection: duckdb.DuckDBPyConnection, step: dict[str, Any]) -> dict[str, Any]:
    timer = None
    if step["interrupt_after"] is not None:
        timer = threading.Timer(step["interrupt_after"], connection.interrupt)
        timer.start()
    started = time.perf_counter()
    rows: list[list[Any]] = []
    error = kind = None
    try:
        result = connection.execute(step["sql"])
        if result.description:
            rows = [[_plain(value) for value in row] for row in result.fetchall()]
    except duckdb.Error as raised:
        error, kind = str(raised), type(raised).__name__
    finally:
        if timer is not None:
            timer.cancel()
    milliseconds = (time.perf_counter() - started) * 1000
    return {"rows": rows, "error": error, "kind": kind, "milliseconds": milliseconds}


def _plain(value: object) -> object:
    match value:
        case None | bool() | int() | float() | str():
            return value
        case list() | tuple():
            return [_plain(item) for item in value]
        case dict():
            return {str(key): _plain(item) for key, item in value.items()}
        case bytes():
            return value.hex()
        case _:
            return str(value)


def _say(document: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
