"""Measure how long it takes to list a large warehouse, against reading its tables one by one.

The server has started, and Spark behind it, before the first listing; the tables are new to it.

    python benchmarks/listing.py [--tables 1000] [--columns 20]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyarrow import flight

TABLES_PER_SCHEMA = 100
REPEATS = 20
KINDS = (pa.int64(), pa.string(), pa.float64(), pa.timestamp("us", "UTC"), pa.date32())


def make_tables(warehouse: Path, tables: int, columns: int) -> list[Path]:
    """Make empty Delta tables as another program would, and return their folders."""
    arrow_schema = pa.schema([(f"column_{i}", KINDS[i % len(KINDS)]) for i in range(columns)])
    roots = [
        warehouse / f"schema_{number // TABLES_PER_SCHEMA}.db" / f"table_{number}" for number in range(tables)
    ]
    for root in roots:
        DeltaTable.create(root, arrow_schema)
    return roots


def seconds(work: Callable[[], object]) -> float:
    """Return how long something takes."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def one_by_one(roots: list[Path]) -> None:
    """Read the columns of all tables with delta-rs, eight at a time."""
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda root: DeltaTable(root).schema(), roots))


def listed(client: flight.FlightClient) -> None:
    """List everything as DuckDB does when it attaches."""
    body = msgspec.msgpack.encode({"catalog_name": "lakehouse"})
    assert list(client.do_action(flight.Action("list_schemas", body)))


def version(client: flight.FlightClient) -> None:
    """Ask whether anything has changed, as DuckDB does before each transaction."""
    body = msgspec.msgpack.encode({"catalog_name": "lakehouse"})
    assert list(client.do_action(flight.Action("catalog_version", body)))


def serve(warehouse: Path) -> tuple[subprocess.Popen[str], str]:
    """Start a server on a warehouse, wait for its Spark, and return where it is."""
    command = [sys.executable, "-m", "sparkport", "serve", str(warehouse), "--port", "0", "--no-auth"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    location = process.stdout.readline().split()[-1]
    for line in process.stderr:
        if "Spark is up" in line:
            break
    return process, location


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--tables", type=int, default=1000)
    options.add_argument("--columns", type=int, default=20)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        warehouse = Path(folder) / "warehouse"
        warehouse.mkdir()
        process, location = serve(warehouse)
        try:
            roots = make_tables(warehouse, chosen.tables, chosen.columns)
            with flight.connect(location) as client:
                cold = seconds(lambda: listed(client))
                rival = seconds(lambda: one_by_one(roots))
                warm = statistics.median(seconds(lambda: listed(client)) for _ in range(REPEATS))
                asked = statistics.median(seconds(lambda: version(client)) for _ in range(REPEATS))
                changed = []
                for root in roots[:REPEATS]:
                    write_deltalake(root, DeltaTable(root).to_pyarrow_table().slice(0, 0), mode="append")
                    changed.append(seconds(lambda: listed(client)))
        finally:
            process.terminate()
            process.communicate()
    print(f"| {chosen.tables:,} tables x {chosen.columns} columns | measured |")
    print("|---|---|")
    print(f"| first listing | {cold * 1000:.0f} ms |")
    print(f"| delta-rs, eight threads | {rival * 1000:.0f} ms |")
    print(f"| listing again | {warm * 1000:.1f} ms |")
    print(f"| listing again after a commit to one table | {statistics.median(changed) * 1000:.1f} ms |")
    print(f"| has anything changed? | {asked * 1000:.1f} ms |")


if __name__ == "__main__":
    main()
