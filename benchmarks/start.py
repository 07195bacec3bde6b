"""Measure how soon a server on an existing warehouse answers, and runs its first statement on Spark.

Wall times say little on a busy machine, so the CPU time of the server's process is printed beside them.

    python benchmarks/start.py [--rounds 3]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake

from sparkport.client import connect

TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process, without its children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def measure(warehouse: Path, number: int) -> None:
    """Start a server, read a small table, create another one, alter that, and stop it."""
    begun = time.perf_counter()
    command = [sys.executable, "-m", "sparkport", "serve", str(warehouse), "--port", "0", "--no-auth"]
    server = subprocess.Popen([*command, "--log-level", "warning"], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        location = server.stdout.readline().split()[-1]
        steps = [(time.perf_counter() - begun, cpu_seconds(server.pid))]
        with connect(location) as client:
            client.scan("shop", "stock").read_all()
            steps.append((time.perf_counter() - begun, cpu_seconds(server.pid)))
            client.create_table("shop", f"made_{number}", pa.schema([("n", pa.int64())]))
            steps.append((time.perf_counter() - begun, cpu_seconds(server.pid)))
            client.add_column("shop", f"made_{number}", pa.field("text", pa.string()))
            steps.append((time.perf_counter() - begun, cpu_seconds(server.pid)))
    finally:
        server.terminate()
        server.wait()
    print(f"| {number} |", " | ".join(f"{wall:.2f} s ({cpu:.2f} s)" for wall, cpu in steps), "|", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        warehouse = Path(folder)
        write_deltalake(str(warehouse / "shop.db" / "stock"), pa.table({"item": ["pencil"], "pieces": [1]}))
        print("| round | ready (CPU of the server) | first read | new table | first Spark statement |")
        print("|---|---|---|---|---|")
        for number in range(1, rounds + 1):
            measure(warehouse, number)


if __name__ == "__main__":
    main()
