"""Run TPC-H over ATTACH against DuckDB on the same files and Spark SQL itself.

One run, rounds interleaved, medians of each query; the results of all are compared. The tables are Delta
tables written by delta-rs. It needs DuckDB's Airport extension: set SPARKPORT_AIRPORT_EXTENSION to its path.
DuckDB's delta_scan takes part where the package `duckdb-extension-delta` of the same version is installed.

    python benchmarks/tpch.py [--rounds 3] [--scale 1] [--queries q01,q06] [--folder DIR] [--no-spark]
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
from deltalake import write_deltalake

EXTENSION = "SPARKPORT_AIRPORT_EXTENSION"
# How many files a table has at scale 1; the others have one.
FILES = {"lineitem": 16, "orders": 4, "partsupp": 2}
START_SECONDS = 40

# By name: each begins after a line such as `-- q01`.
QUERIES = dict(
    re.findall(
        r"^-- (q\d\d)\n(.*?);$", Path(__file__).with_suffix(".sql").read_text(), re.DOTALL | re.MULTILINE
    )
)

Row = tuple[Any, ...]
Query = Callable[[str], list[Row]]


def make_tables(folder: Path, scale: float) -> None:
    """Generate the tables and write them as Delta tables."""
    with tempfile.TemporaryDirectory() as raw:
        program = Path(sys.executable).parent / "tpchgen-cli"
        command = [str(program), "parquet", "-s", str(scale), f"--output-dir={raw}"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for source in sorted(Path(raw).rglob("*.parquet")):
            table = pq.read_table(source)
            step = -(-len(table) // FILES.get(source.stem, 1))
            for start in range(0, len(table), step):
                write_deltalake(str(folder / source.stem), table.slice(start, step), mode="append")


def tables(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if (path / "_delta_log").exists())


@contextlib.contextmanager
def by_attach(warehouse: Path, *arguments: str) -> Iterator[Query]:
    """Query over ATTACH, through a server with these arguments."""
    command = [sys.executable, "-m", "sparkport", "serve", str(warehouse), "--port", "0", "--no-auth"]
    command += ["--log-level", "warning", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        ready = next(line for line in process.stdout if line.startswith("sparkport ready"))
        location = next(word for word in ready.split() if word.startswith("grpc://"))
        connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
        connection.execute(f"LOAD '{os.environ[EXTENSION]}'")
        connection.execute(f"ATTACH 'lakehouse' AS lake (TYPE airport, LOCATION '{location}')")
        connection.execute("USE lake.tpch")
        yield lambda sql: connection.execute(sql).fetchall()
    finally:
        process.terminate()
        process.wait()


@contextlib.contextmanager
def by_files(warehouse: Path, function: str, setup: Sequence[str] = ()) -> Iterator[Query]:
    """Query the files with a function of DuckDB's."""
    connection = duckdb.connect()
    for statement in setup:
        connection.execute(statement)
    folder = warehouse / "tpch.db"
    for name in tables(folder):
        source = f"{folder}/{name}/*.parquet" if function == "read_parquet" else f"{folder}/{name}"
        connection.execute(f"CREATE VIEW {name} AS SELECT * FROM {function}('{source}')")
    yield lambda sql: connection.execute(sql).fetchall()


@contextlib.contextmanager
def by_spark(warehouse: Path) -> Iterator[Query]:
    """Query with Spark SQL, in a session of the same kind as the server's own."""
    from sparkport.app.process.logs import LogFormat, LogLevel, configure_logs
    from sparkport.catalog import Call
    from sparkport.spark.session.host import SparkHost
    from sparkport.spark.session.settings import SparkSettings

    configure_logs(LogFormat.CONSOLE, LogLevel.ERROR)
    host = SparkHost(SparkSettings(str(warehouse), driver_memory="4g"))
    session = host.session(Call())
    folder = warehouse / "tpch.db"
    for name in tables(folder):
        session.read.format("delta").load(str(folder / name)).createOrReplaceTempView(name)
    try:
        yield lambda sql: [tuple(row) for row in session.sql(sql).collect()]
    finally:
        host.stop()


def comparable(rows: list[Row]) -> list[Row]:
    """Return rows in one form: engines differ in the types of sums, and in the digits of quotients."""
    return [
        tuple(f"{float(value):.4g}" if isinstance(value, float | Decimal) else str(value) for value in row)
        for row in rows
    ]


def rivals(
    warehouse: Path, *, with_spark: bool
) -> Iterator[tuple[str, contextlib.AbstractContextManager[Query]]]:
    yield "DuckDB on the files", by_files(warehouse, "read_parquet")
    streamed = ("--direct-reads", "never")
    yield "ATTACH", by_attach(warehouse)
    yield "ATTACH, streamed", by_attach(warehouse, *streamed)
    yield "ATTACH, in Spark's tasks", by_attach(warehouse, *streamed, "--local-scan-bytes", "0")
    delta = importlib.util.find_spec("duckdb_extension_delta")
    if delta is not None and delta.origin is not None:
        extension = next(Path(delta.origin).parent.rglob("*.duckdb_extension"))
        yield "delta_scan", by_files(warehouse, "delta_scan", [f"LOAD '{extension}'"])
    if with_spark:
        yield "Spark SQL", by_spark(warehouse)


def measure(queries: dict[str, Query], names: Sequence[str], rounds: int) -> dict[str, dict[str, float]]:
    """Return the median seconds of each query by rival; the first round is not counted."""
    seconds: dict[str, dict[str, list[float]]] = {rival: {name: [] for name in names} for rival in queries}
    for number in range(rounds + 1):
        for name in names:
            expected: list[Row] | None = None
            for rival, query in queries.items():
                begun = time.perf_counter()
                rows = query(QUERIES[name])
                if number:
                    seconds[rival][name].append(time.perf_counter() - begun)
                expected = comparable(rows) if expected is None else expected
                if comparable(rows) != expected:
                    raise AssertionError(f"{rival} gives another result of {name}")
    return {
        rival: {name: statistics.median(times) for name, times in of.items()} for rival, of in seconds.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--queries", default=",".join(QUERIES))
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--no-spark", action="store_true")
    options = parser.parse_args()
    if EXTENSION not in os.environ:
        parser.error(f"set {EXTENSION} to the path of DuckDB's Airport extension")
    names = options.queries.split(",")
    with contextlib.ExitStack() as stack:
        warehouse = options.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if not (warehouse / "tpch.db").exists():
            make_tables(warehouse / "tpch.db", options.scale)
        queries = {
            rival: stack.enter_context(opened)
            for rival, opened in rivals(warehouse, with_spark=not options.no_spark)
        }
        time.sleep(START_SECONDS)  # the servers' Sparks have started and warmed up
        medians = measure(queries, names, options.rounds)
    first = next(iter(medians))
    print("| query | " + " | ".join(medians) + " |\n|---|" + "---|" * len(medians))
    for name in names:
        print(f"| {name} | " + " | ".join(f"{of[name] * 1000:,.0f} ms" for of in medians.values()) + " |")
    totals = {rival: sum(of.values()) for rival, of in medians.items()}
    cells = (f"{total:.1f} s ({total / totals[first]:.1f})" for total in totals.values())
    print("| **all** (ratio) | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
