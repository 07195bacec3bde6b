"""Measure transactions over Delta tables: their commit, their overhead, their own reads, and many at once.

Medians of one run; the server is a process of its own, and is called by its Python client over loopback.

    python benchmarks/transactions.py [--rounds 20] [--rows 1000000] [--folder DIR]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa

from sparkport.client import Client, connect

SCHEMA = "bench"
COLUMNS = pa.schema([("id", pa.int64()), ("value", pa.float64())])
CHANGED = 10
STAGED = 1000
CLIENTS = 8
PARALLEL_SECONDS = 10.0


def taken(work: Callable[[], object]) -> float:
    """Return how many milliseconds work takes."""
    begun = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - begun)


def new_values(ids: list[int]) -> pa.Table:
    """Return other values for rows."""
    return pa.table(
        [pa.array(ids, pa.int64()), pa.array(np.random.default_rng().random(len(ids)))], schema=COLUMNS
    )


def prepare(client: Client, rows: int) -> dict[str, list[int]]:
    """Make two tables, and return the row ids of each."""
    client.create_schema(SCHEMA)
    found = {}
    for table in ("first", "second"):
        client.create_table(SCHEMA, table, COLUMNS)
        client.insert(SCHEMA, table, pa.table([np.arange(rows), np.zeros(rows)], schema=COLUMNS))
        scanned = client.scan(SCHEMA, table).read_all()
        found[table] = scanned.column(scanned.num_columns - 1).to_pylist()
    return found


def commits(client: Client, ids: dict[str, list[int]], rounds: int) -> list[float]:
    """Change ten rows in each of two tables, and measure the commit alone."""
    times = []
    for number in range(rounds + 1):
        part = slice(number * CHANGED, (number + 1) * CHANGED)
        transaction = client.transaction()
        own = transaction.__enter__()
        for table, rows in ids.items():
            own.update(SCHEMA, table, rows[part], new_values(rows[part]))
        times.append(taken(lambda: transaction.__exit__(None, None, None)))  # noqa: B023
    return times[1:]


def overhead(client: Client, ids: list[int], rounds: int) -> tuple[list[float], list[float]]:
    """Change ten rows by a statement alone, and by a transaction of one statement."""
    alone, within = [], []
    for number in range(1, rounds + 1):
        rows = ids[-(number + 1) * CHANGED : -number * CHANGED]

        def change(caller: Client) -> None:
            caller.update(SCHEMA, "first", rows, new_values(rows), overwrite=caller is client)  # noqa: B023

        def change_within() -> None:
            with client.transaction() as own:
                change(own)

        alone.append(taken(lambda: change(client)))
        within.append(taken(change_within))
    return alone, within


def own_reads(client: Client, ids: list[int], rounds: int) -> tuple[list[float], list[float]]:
    """Read a table as it is, and within a transaction that has changed a thousand of its rows."""
    rows = ids[:: max(1, len(ids) // STAGED)][:STAGED]
    with client.transaction() as own:
        own.update(SCHEMA, "second", rows, new_values(rows))
        pairs = [
            (
                taken(lambda: client.scan(SCHEMA, "second").read_all()),
                taken(lambda: own.scan(SCHEMA, "second").read_all()),
            )
            for _ in range(rounds)
        ]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def parallel(location: str, ids: dict[str, list[int]]) -> float:
    """Return how many transactions per second eight clients make, each on rows of its own in two tables."""
    stop = threading.Event()

    def run(number: int) -> int:
        done = 0
        with connect(location, timeout=60) as client:
            while not stop.is_set():
                with client.transaction() as own:
                    for table, rows in ids.items():
                        part = rows[number * 1000 : number * 1000 + CHANGED]
                        own.update(SCHEMA, table, part, new_values(part))
                done += 1
        return done

    with ThreadPoolExecutor(CLIENTS) as pool:
        begun = time.perf_counter()
        counts = [pool.submit(run, number) for number in range(CLIENTS)]
        time.sleep(PARALLEL_SECONDS)
        stop.set()
        total = sum(count.result() for count in counts)
        return total / (time.perf_counter() - begun)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        command = [sys.executable, "-m", "sparkport", "serve", folder, "--port", "0", "--no-auth"]
        with subprocess.Popen(
            [*command, "--log-level", "warning"], stdout=subprocess.PIPE, text=True
        ) as server:
            assert server.stdout is not None
            location = server.stdout.readline().split()[-1]
            try:
                with connect(location, timeout=600) as client:
                    measure(client, location, options.rows, options.rounds)
            finally:
                server.terminate()


def measure(client: Client, location: str, rows: int, rounds: int) -> None:
    """Print one line for each figure."""
    ids = prepare(client, rows)
    commit = statistics.median(commits(client, ids, rounds))
    print(f"commit of {CHANGED} rows in each of two tables: {commit:.0f} ms")
    alone, within = (statistics.median(times) for times in overhead(client, ids["first"], rounds))
    print(f"UPDATE of {CHANGED} rows: alone {alone:.0f} ms, as a transaction {within:.0f} ms")
    plain, own = (statistics.median(times) for times in own_reads(client, ids["second"], rounds))
    print(f"scan: {plain:.0f} ms, with {STAGED} staged changes {own:.0f} ms")
    print(f"{CLIENTS} clients on rows of their own: {parallel(location, ids):.1f} transactions/s")


if __name__ == "__main__":
    main()
