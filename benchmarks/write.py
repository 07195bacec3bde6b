"""Measure INSERT, UPDATE and DELETE on Delta tables against Spark's own.

One run, rounds interleaved, medians. sparkport and Spark have a process of their own each, and each
its own tables with equal rows; sparkport is written to by its Python client over loopback.

    python benchmarks/write.py [--rounds 5] [--rows 10000000] [--huge 100000000] [--folder DIR]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sparkport.client import Client, connect

CHANGED_TABLE_ROWS = 1_000_000
SINGLE_INSERTS = 30
WARM_UP_INSERTS = 50
CLIENTS = 8
HUGE_BATCH = 100_000
SCHEMA = pa.schema(
    [("id", pa.int64()), ("value", pa.float64()), ("at", pa.timestamp("us")), ("name", pa.string())]
)


def make_rows(start: int, count: int) -> pa.Table:
    """Return rows of four columns."""
    chance = np.random.default_rng(start)
    ids = np.arange(start, start + count)
    texts = pa.array([f"name-{number:05d}" for number in range(100_000)])
    names = texts.take(pa.array(chance.integers(0, len(texts), count)))
    return pa.table([ids, chance.random(count), pa.array(ids, pa.timestamp("us")), names], schema=SCHEMA)


class Sparkport:
    """The server under test."""

    def __init__(self, warehouse: Path) -> None:
        command = [sys.executable, "-m", "sparkport", "serve", str(warehouse), "--port", "0", "--no-auth"]
        self.process = subprocess.Popen(
            [*command, "--log-level", "warning"], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.location = self.process.stdout.readline().split()[-1]

    def memory(self, what: str) -> int:
        """Return a line of the process's status, in MB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith(what)).split()[1]) // 1024


class Spark:
    """The rival: it runs a line of Python's `spark` and tells how long that took."""

    def __init__(self, warehouse: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--worker", "--folder", str(warehouse)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout is not None
        self.process.stdout.readline()

    def sql(self, text: str) -> float:
        return self._asked({"sql": text})

    def append(self, staged: Path, table: Path) -> float:
        return self._asked({"staged": str(staged), "table": str(table)})

    def _asked(self, work: dict[str, str]) -> float:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(work) + "\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())


def worker(warehouse: Path) -> None:
    """Be the rival's process."""
    from sparkport.app.process.logs import LogFormat, LogLevel, configure_logs
    from sparkport.catalog import Call
    from sparkport.spark.session.host import SparkHost
    from sparkport.spark.session.settings import SparkSettings

    configure_logs(LogFormat.CONSOLE, LogLevel.ERROR)
    host = SparkHost(SparkSettings(str(warehouse)))
    session = host.session(Call())
    print("ready", flush=True)
    for line in sys.stdin:
        work = json.loads(line)
        begun = time.perf_counter()
        if "sql" in work:
            session.sql(work["sql"]).collect()
        else:
            rows = session.read.parquet(work["staged"])
            rows.write.format("delta").mode("append").save(work["table"])
        print(time.perf_counter() - begun, flush=True)
    host.stop()


def taken(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def compared(
    rounds: int, ours: Callable[[int], float], theirs: Callable[[int], float]
) -> tuple[float, float]:
    """Return the medians of both, measured in turn after a round that does not count."""
    ours(0), theirs(0)
    pairs = [(ours(number), theirs(number)) for number in range(1, rounds + 1)]
    return statistics.median(pair[0] for pair in pairs), statistics.median(pair[1] for pair in pairs)


def large_inserts(client: Client, spark: Spark, folder: Path, rounds: int, count: int) -> None:
    rows = make_rows(0, count)
    staged = folder / "staged"
    staged.mkdir(exist_ok=True)
    pq.write_table(rows, staged / "rows.parquet", compression="none", store_schema=False)
    client.create_table("bench", "large", SCHEMA)

    def ours(number: int) -> float:
        del number
        return taken(lambda: client.insert("bench", "large", rows))

    def theirs(number: int) -> float:
        del number
        return spark.append(staged, folder / "spark" / "large")

    here, there = compared(rounds, ours, theirs)
    print("\n| INSERT | sparkport | Spark, from the same staged Parquet | ratio |\n|---|---|---|---|")
    print(f"| {count:,} rows x 4 columns | {here:.2f} s | {there:.2f} s | {there / here:.2f} |", flush=True)


def huge_insert(server: Sparkport, client: Client, count: int) -> None:
    """Insert many narrow rows in one statement, made as they are sent."""
    columns = pa.schema([("id", pa.int64()), ("value", pa.float64())])
    client.create_table("bench", "huge", columns)
    values = pa.array(np.random.default_rng(1).random(HUGE_BATCH))

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, count, HUGE_BATCH):
            ids = pa.array(np.arange(start, start + HUGE_BATCH))
            yield pa.record_batch([ids, values], schema=columns)

    before = server.memory("VmRSS")
    rows = pa.RecordBatchReader.from_batches(columns, batches())
    seconds = taken(lambda: client.insert("bench", "huge", rows))
    print("\n| INSERT in one statement | time | memory before | at most |\n|---|---|---|---|")
    most = server.memory("VmHWM")
    print(f"| {count:,} rows x 2 columns | {seconds:.0f} s | {before} MB | {most} MB |", flush=True)


def single_inserts(server: Sparkport, client: Client) -> None:
    """Insert one row at a time: by one client, by several into one table, and into a table each."""
    tables = ["single", *(f"single_{number}" for number in range(CLIENTS))]
    for table in tables:
        client.create_table("bench", table, SCHEMA)
    # Made before: to make a row costs as much as to insert it.
    rows = [make_rows(number, 1) for number in range(WARM_UP_INSERTS)]

    def one(number: int) -> float:
        return taken(lambda: client.insert("bench", "single", rows[number]))

    for number in range(WARM_UP_INSERTS):
        one(number)
    alone = [one(number) for number in range(SINGLE_INSERTS)]
    print(f"\n| INSERT of one row, after {WARM_UP_INSERTS} others | measured |\n|---|---|")
    print(f"| one client, p50 | {statistics.median(alone) * 1000:,.0f} ms |")
    print(f"| one client | {SINGLE_INSERTS / sum(alone):.1f} statements/s |")
    clients = [connect(server.location) for _ in range(CLIENTS)]

    def many(own: Client, table: str) -> None:
        for number in range(SINGLE_INSERTS):
            own.insert("bench", table, rows[number])

    for label, targets in (("one table", tables[:1] * CLIENTS), ("a table each", tables[1:])):
        begun = time.perf_counter()
        with ThreadPoolExecutor(CLIENTS) as threads:
            list(threads.map(many, clients, targets))
        rate = CLIENTS * SINGLE_INSERTS / (time.perf_counter() - begun)
        print(f"| {CLIENTS} clients, {label} | {rate:.1f} statements/s |", flush=True)
    for own in clients:
        own.close()


def make_changed(client: Client, spark: Spark, folder: Path) -> tuple[pa.Table, Path]:
    """Make a table on both sides; return its rows in order, with their row ids, and where Spark's is."""
    rows = make_rows(0, CHANGED_TABLE_ROWS)
    client.create_table("bench", "changed", SCHEMA)
    client.insert("bench", "changed", rows)
    theirs = folder / "spark" / "changed"
    pq.write_table(rows, folder / "staged" / "rows.parquet", compression="none", store_schema=False)
    spark.append(folder / "staged", theirs)
    spark.sql(f"ALTER TABLE delta.`{theirs}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    return client.scan("bench", "changed").read_all().sort_by("id"), theirs


def changes(client: Client, spark: Spark, rows: pa.Table, theirs: Path, rounds: int) -> None:
    print(
        "\n| by row id, of 1,000,000 rows | sparkport | Spark, equal condition | ratio |\n|---|---|---|---|"
    )
    row_ids = rows.column(len(SCHEMA)).to_numpy()
    # Each round takes rows of its own, spread over the table.
    free = np.random.default_rng(5).permutation(CHANGED_TABLE_ROWS)
    for label, size in {"10 rows": 10, "1 % of the rows": CHANGED_TABLE_ROWS // 100}.items():
        picks = [np.sort(free[number * size :][:size]) for number in range(2 * (rounds + 1))]
        free = free[len(picks) * size :]

        def update(number: int, picks: list[Any] = picks) -> float:
            picked = picks[number]
            new = rows.select(SCHEMA.names).take(pa.array(picked))
            new = new.set_column(1, "value", pa.array(np.full(len(picked), -1.0)))
            return taken(lambda: client.update("bench", "changed", row_ids[picked].tolist(), new))

        def delete(number: int, picks: list[Any] = picks) -> float:
            return taken(lambda: client.delete("bench", "changed", row_ids[picks[~number]].tolist()))

        def update_by_spark(number: int, picks: list[Any] = picks) -> float:
            return spark.sql(f"UPDATE delta.`{theirs}` SET value = -1.0 WHERE {among(picks[number])}")

        def delete_by_spark(number: int, picks: list[Any] = picks) -> float:
            return spark.sql(f"DELETE FROM delta.`{theirs}` WHERE {among(picks[~number])}")

        for verb, ours, by_spark in (
            ("UPDATE", update, update_by_spark),
            ("DELETE", delete, delete_by_spark),
        ):
            here, there = compared(rounds, ours, by_spark)
            print(f"| {verb} of {label} | {here:.2f} s | {there:.2f} s | {here / there:.2f} |", flush=True)


def among(ids: Any) -> str:  # noqa: ANN401  (an array of numpy)
    return f"id IN ({', '.join(map(str, ids.tolist()))})"


def scan(client: Client, rounds: int) -> float:
    return statistics.median(taken(lambda: client.scan("bench", "changed").read_all()) for _ in range(rounds))


def run(folder: Path, rounds: int, count: int, huge: int) -> None:
    warehouse = folder / "warehouse"
    warehouse.mkdir(exist_ok=True)
    server = Sparkport(warehouse)
    spark = Spark(folder / "spark")
    try:
        with connect(server.location) as client:
            client.create_schema("bench")
            if huge:
                huge_insert(server, client, huge)
                return
            single_inserts(server, client)
            before = server.memory("VmRSS")
            large_inserts(client, spark, folder, rounds, count)
            rows, theirs = make_changed(client, spark, folder)
            fresh = scan(client, rounds)
            changes(client, spark, rows, theirs, rounds)
            print("\n| full scan of that table | measured |\n|---|---|")
            print(f"| before | {fresh:.2f} s |")
            print(f"| after the statements above | {scan(client, rounds):.2f} s |")
            spark.sql(f"OPTIMIZE delta.`{next(warehouse.glob('bench*/changed'))}`")
            print(f"| after OPTIMIZE | {scan(client, rounds):.2f} s |", flush=True)
            print("\n| memory of the server's process | measured |\n|---|---|")
            print(f"| after the single INSERTs | {before} MB |")
            print(f"| at the end | {server.memory('VmRSS')} MB |")
            print(f"| at most | {server.memory('VmHWM')} MB |", flush=True)
    finally:
        for process in (server.process, spark.process):
            process.terminate()
            process.wait()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--huge", type=int, default=0, metavar="ROWS", help="only insert so many at once")
    parser.add_argument("--folder", type=Path, help="where the tables are made and kept")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(options.folder)
        return
    with contextlib.ExitStack() as stack:
        folder = options.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        run(folder, options.rounds, options.rows, options.huge)


if __name__ == "__main__":
    main()
