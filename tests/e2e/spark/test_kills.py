"""Servers that are killed at work: what was acknowledged stays, and nothing is half there."""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from .lake import LakeServer, await_gone, descendants, kill, wait_until
from .workload import SCHEMA, Workload, by_deltalake, by_spark

KILLS = int(os.environ.get("SPARKPORT_KILLS", "6"))
SEED = int(os.environ.get("SPARKPORT_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 31)
READY_SECONDS = 15

pytestmark = pytest.mark.timeout(600 + 120 * KILLS)


def kill_server(server: LakeServer) -> None:
    """Kill the server's process alone; Spark notices by itself."""
    processes = descendants(server.process.pid)
    kill(server.process.pid)
    server.finished()
    await_gone(processes)


def kill_all(server: LakeServer) -> None:
    """Kill the server, Spark and its workers at once."""
    processes = [server.process.pid, *descendants(server.process.pid)]
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            kill(process)
    server.finished()
    await_gone(processes[1:])


def kill_spark(server: LakeServer) -> None:
    """Kill Spark's Java process alone; the server starts another."""
    kill(server.java()[0])


def ready(server: LakeServer, count: int = 1) -> float:
    """Return how long after Spark the server has answered with rows."""
    server.await_log("Spark is up", count)
    begun = time.monotonic()
    server.rows(SCHEMA, "updated")
    return time.monotonic() - begun


def leftovers(server: LakeServer) -> list[Path]:
    """Return what statements have staged, and what is left of tables in the trash that are no more."""
    hidden = server.warehouse / "_sparkport"
    return [path for kind in ("staging/*/", "trash/*-gone/") for path in hidden.glob(kind)]


def test_killed_at_work(tmp_path: Path) -> None:
    """No acknowledged statement is lost and none is half there, whatever is killed, and whenever.

    A kill interrupts the statements of nine clients at once: INSERTs (small ones that share commits,
    and large), UPDATE, DELETE, CREATE TABLE, DROP TABLE, and ALTER with and without new rows. So
    six kills make some fifty interrupted statements; SPARKPORT_KILLS asks for more kills,
    SPARKPORT_SEED for the same moments again.
    """
    chance = random.Random(SEED)
    kinds: list[Callable[[LakeServer], None]] = [kill_spark, kill_all, kill_server]
    workload = Workload()
    interrupted = 0
    server = LakeServer(tmp_path)
    try:
        workload.prepare(server)
        server.await_log("Spark is up")
        starts = 1
        for number in range(KILLS):
            moment = f"kill {number} of seed {SEED}"
            work = workload.start(server)
            wanted = chance.randrange(1, 12)
            wait_until(lambda: work.acknowledged >= wanted or work.is_over, moment)  # noqa: B023
            time.sleep(chance.random())
            interrupted += work.under_way
            killed = server
            kinds[number % len(kinds)](server)
            work.join()
            if server.process.poll() is None:
                starts += 1
            else:
                server = LakeServer(tmp_path)
                starts = 1
            try:
                workload.check(by_deltalake(server))
            except AssertionError as error:
                raise AssertionError(f"{moment}: {error}\n{killed.text}") from error

            assert ready(server, starts) < READY_SECONDS, moment
            wait_until(lambda: not leftovers(server), f"{moment}: staged rows are left", 20)  # noqa: B023
        workload.check(by_spark(server))
        server.terminate()

        assert server.finished() == 0
        assert "Traceback" not in server.text
        assert interrupted >= 4 * KILLS
    finally:
        server.__exit__(None, None, None)
