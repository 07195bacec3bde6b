"""What a server process uses, as the kernel counts it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import sparkport
from tests.flight_client import Flight

MB = 1 << 20


@dataclass(frozen=True)
class Usage:
    """Memory in bytes, threads and open files of a process."""

    memory: int
    threads: int
    files: int


def usage(pid: int) -> Usage:
    """Read what a process uses now."""
    status = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line
    )
    return Usage(
        int(status["VmRSS"].split()[0]) * 1024,
        int(status["Threads"]),
        len(os.listdir(f"/proc/{pid}/fd")),  # noqa: PTH208
    )


def eventually(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    """Wait until a condition holds; say whether it did in time."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def wait_idle(server: sparkport.Server, client: Flight) -> None:
    """Wait until all calls that a client has begun are over: nothing can come of them any more."""
    client.list_flights()  # which the server gets after whatever went before on the same connection
    running = server._grpc._server.running_calls
    assert eventually(lambda: running() == 0, 20), f"{running()} calls go on"
