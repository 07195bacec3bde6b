"""Measure SQL over ADBC against what else runs Spark SQL for a client.

One run, rounds interleaved, medians. The rivals are Spark Connect's toArrow, plain spark.sql(...).toArrow()
where Spark is, and the Spark Thrift Server read by Hive's JDBC driver; each has a process of its own.

    python benchmarks/sql.py [--rounds 5] [--rows 10000000] [--gigabytes 5] [--no-thrift] [--folder DIR]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import adbc_driver_flightsql.dbapi as adbc
import numpy as np
import pyarrow as pa
from deltalake import write_deltalake

TABLE = "default.mixed"
FILES = 8
CLIENTS = 8
PARALLEL_SECONDS = 5.0
CALLS = 200
END_SECONDS = 30
FULL = f"SELECT * FROM {TABLE}"
AGGREGATIONS = {
    "sum by 1,000 keys": f"SELECT kind, sum(value) AS total, count(*) AS n FROM {TABLE} GROUP BY kind",
    "distinct texts": f"SELECT count(DISTINCT name) AS names FROM {TABLE}",
    "join and top ten": f"SELECT a.kind, max(b.value) AS top FROM {TABLE} a JOIN {TABLE} b ON a.id = b.id + 1"
    " WHERE a.kind < 100 GROUP BY a.kind ORDER BY top DESC LIMIT 10",
}
Run = Callable[[str], float]


def make_table(folder: Path, rows: int) -> None:
    """Write a table of numbers, times and texts."""
    chance = np.random.default_rng(7)
    step = -(-rows // FILES)
    for start in range(0, rows, step):
        ids = np.arange(start, min(start + step, rows))
        size = len(ids)
        columns = {
            "id": ids,
            "kind": chance.integers(0, 1000, size).astype(np.int32),
            "value": chance.random(size),
            "at": pa.array(ids * 1000, pa.timestamp("us", "UTC")),
            "name": pa.array([f"name-{number:07d}" for number in chance.integers(0, 10**6, size)]),
        }
        write_deltalake(str(folder), pa.table(columns), mode="append")


class Worker:
    """A rival in a process of its own: it answers a query on a line with seconds and rows on a line."""

    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout is not None
        self.hello = self.process.stdout.readline().strip()

    def run(self, sql: str) -> float:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(sql + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("a rival has ended")
        return float(json.loads(line)[0])

    def end(self) -> None:
        """Close its input, upon which it ends by itself, with what it has started."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def spark_worker(warehouse: Path) -> None:
    """Run queries by spark.sql(...).toArrow()."""
    from sparkport.app.process.logs import LogFormat, LogLevel, configure_logs
    from sparkport.catalog import Call
    from sparkport.spark.session.host import SparkHost
    from sparkport.spark.session.settings import SparkSettings

    configure_logs(LogFormat.CONSOLE, LogLevel.ERROR)
    host = SparkHost(SparkSettings(str(warehouse), driver_memory="6g"))
    answer_by(host.session(Call()), warehouse)
    host.stop()


def connect_worker(warehouse: Path) -> None:
    """Run queries by Spark Connect's toArrow."""
    from pyspark.sql import SparkSession

    from sparkport.spark.session.java_home import find_java
    from sparkport.spark.session.settings import SparkSettings

    os.environ["JAVA_HOME"] = str(find_java().path)
    with tempfile.TemporaryDirectory() as scratch:
        builder = SparkSession.builder.remote(SparkSettings(str(warehouse)).master)
        for key, value in spark_conf(warehouse, Path(scratch)).items():
            builder = builder.config(key, value)
        session = builder.getOrCreate()
        answer_by(session, warehouse)
        session.stop()


def spark_conf(warehouse: Path, scratch: Path) -> dict[str, str]:
    """Return the settings of a Spark with Delta that is not sparkport's own."""
    from sparkport.spark.session.delta_jars import delta_jars
    from sparkport.spark.session.settings import SparkSettings, start_conf

    settings = SparkSettings(str(warehouse), driver_memory="6g")
    conf = start_conf(settings, delta_jars(settings.jars_folder), scratch)
    own = {"spark.master", "spark.driver.extraJavaOptions", "spark.python.daemon.module"}
    return {key: value for key, value in conf.items() if key not in own}


def answer_by(session: Any, warehouse: Path) -> None:  # noqa: ANN401  (of either kind)
    """Answer queries by the toArrow of a session."""
    session.conf.set("spark.sql.files.maxPartitionBytes", "128m")  # Spark's own default
    session.sql(f"CREATE TABLE IF NOT EXISTS {TABLE} USING delta LOCATION '{warehouse / 'mixed'}'")
    print("ready", flush=True)
    for line in sys.stdin:
        begun = time.perf_counter()
        rows = session.sql(line).toArrow().num_rows
        print(json.dumps([time.perf_counter() - begun, rows]), flush=True)


@contextlib.contextmanager
def thrift(warehouse: Path) -> Iterator[Worker | None]:
    """Give a block a client of a Thrift Server, None if that does not start."""
    import pyspark

    from sparkport.spark.session.java_home import find_java

    home, java = Path(pyspark.__file__).parent, find_java().path
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as scratch, contextlib.ExitStack() as started:
        conf = spark_conf(warehouse, Path(scratch)) | {
            "spark.sql.catalogImplementation": "in-memory",
            "spark.sql.thriftServer.incrementalCollect": "true",  # else it keeps the whole result
        }
        command = [str(home / "bin" / "spark-submit"), "--master", "local[*]", "--driver-memory", "6g"]
        command += ["--class", "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2"]
        command += [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
        command += ["spark-internal", "--hiveconf", f"hive.server2.thrift.port={port}"]
        command += ["--hiveconf", "hive.server2.thrift.bind.host=127.0.0.1"]
        environment = os.environ | {"JAVA_HOME": str(java), "SPARK_HOME": str(home)}
        server = subprocess.Popen(
            command, cwd=scratch, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        started.callback(ended, server)
        if not listening(port, server):
            yield None
            return
        client = [str(java / "bin" / "java"), "-cp", f"{home}/jars/*"]
        client += [
            str(Path(__file__).with_name("ThriftClient.java")),
            f"jdbc:hive2://127.0.0.1:{port}/default",
        ]
        worker = Worker(client)
        started.callback(worker.end)
        if worker.hello != "ready":
            yield None
            return
        worker.run(f"DESCRIBE delta.`{warehouse / 'mixed'}`")
        yield worker


def listening(port: int, process: subprocess.Popen[bytes]) -> bool:
    """Wait until a process listens, and return whether it does."""
    until = time.monotonic() + 600
    while time.monotonic() < until and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return True
        time.sleep(0.5)
    return False


def ended(process: subprocess.Popen[Any]) -> None:
    process.terminate()
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def connected(location: str) -> adbc.Connection:
    return adbc.connect(location.replace("grpc://", "grpc+tcp://"), autocommit=True)


def by_adbc(location: str) -> Run:
    connection = connected(location)

    def run(sql: str) -> float:
        begun = time.perf_counter()
        with connection.cursor() as cursor:
            cursor.execute(sql)
            for _ in cursor.fetch_record_batch():
                pass
        return time.perf_counter() - begun

    return run


def compare(title: str, sql: str, runs: dict[str, Run], rounds: int) -> None:
    """Run a query by everyone in turn, and print medians and ratios to the first."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(rounds + 1):
        for name, run in runs.items():
            taken = run(sql)
            if number:  # the first one warms up
                times[name].append(taken)
    own = next(iter(times.values()))
    for name, found in times.items():
        ratios = sorted(other / mine for other, mine in zip(found, own, strict=True))
        print(
            f"{title:24} {name:20} {statistics.median(found):9.3f} s, {statistics.median(ratios):7.2f} times"
            f" ({ratios[len(ratios) // 4]:.2f} - {ratios[-1 - len(ratios) // 4]:.2f})",
            flush=True,
        )


def small_statements(location: str, rows: int) -> None:
    """Measure SELECT 1 alone and by eight clients, and prepared look-ups of one row."""
    with connected(location) as connection, connection.cursor() as cursor:
        for title, sql, parameters in (
            ("SELECT 1", "SELECT 1", lambda _: None),
            ("prepared look-up", f"SELECT * FROM {TABLE} WHERE id = ?", lambda n: (n * 7919 % rows,)),
        ):
            times = []
            for number in range(CALLS):
                begun = time.perf_counter()
                cursor.execute(sql, parameters(number))
                cursor.fetchall()
                times.append(1000 * (time.perf_counter() - begun))
            times.sort()
            print(
                f"{title}: p50 {times[CALLS // 2]:.1f} ms, p95 {times[CALLS * 95 // 100]:.1f} ms", flush=True
            )
    stop = threading.Event()

    def ask(_: int) -> int:
        done = 0
        with connected(location) as own, own.cursor() as its:
            while not stop.is_set():
                its.execute("SELECT 1")
                its.fetchall()
                done += 1
        return done

    with ThreadPoolExecutor(CLIENTS) as pool:
        begun = time.perf_counter()
        counts = [pool.submit(ask, number) for number in range(CLIENTS)]
        time.sleep(PARALLEL_SECONDS)
        stop.set()
        total = sum(count.result() for count in counts)
        print(f"SELECT 1 by {CLIENTS} clients: {total / (time.perf_counter() - begun):.0f}/s", flush=True)


def ingest(location: str, rows: int) -> None:
    """Measure adbc_ingest of rows of four numbers and a text."""
    step = 1 << 16
    ids = np.arange(step)
    batch = pa.record_batch(
        {
            "id": ids,
            "kind": (ids % 1000).astype(np.int32),
            "value": ids / 7,
            "other": ids * 3,
            "name": [f"name-{number:07d}" for number in ids],
        }
    )
    count = -(-rows // step)
    rates = []
    with connected(location) as connection, connection.cursor() as cursor:
        for number in range(3):
            reader = pa.RecordBatchReader.from_batches(batch.schema, (batch for _ in range(count)))
            begun = time.perf_counter()
            cursor.adbc_ingest(f"ingested_{number}", reader, mode="create")
            rates.append(count * step / (time.perf_counter() - begun))
            cursor.execute(f"DROP TABLE default.ingested_{number}")
    print(f"ingest of {count * step:,} rows: {statistics.median(rates) / 1e6:.2f} M rows/s", flush=True)


def memory(location: str, process_id: int, rows: int, gigabytes: float) -> None:
    """Stream a result that Spark SQL computes, and print by how much the server's memory grows."""
    times = max(1, round(gigabytes * 1e9 / (rows * 42)))
    sql = f"SELECT m.* FROM {TABLE} m LATERAL VIEW explode(sequence(1, {times})) AS again"
    before, most, size = resident(process_id), 0, 0
    with connected(location) as connection, connection.cursor() as cursor:
        cursor.execute(sql)
        for batch in cursor.fetch_record_batch():
            size += batch.nbytes
            most = max(most, resident(process_id))
    print(
        f"memory over {size / 1e9:.1f} GB: {(most - before) / 1e6:+.0f} MB on {before / 1e6:.0f} MB",
        flush=True,
    )


def resident(process_id: int) -> int:
    status = Path(f"/proc/{process_id}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024


def measure(location: str, process_id: int, warehouse: Path, options: argparse.Namespace) -> None:
    """Measure and print."""
    with contextlib.ExitStack() as started:
        runs: dict[str, Run] = {"sparkport, ADBC": by_adbc(location)}
        begun = time.perf_counter()
        runs["sparkport, ADBC"](f"SELECT count(DISTINCT kind) FROM {TABLE}")
        print(f"the first query in Spark SQL: {time.perf_counter() - begun:.1f} s", flush=True)
        small_statements(location, options.rows)
        ingest(location, options.rows)
        memory(location, process_id, options.rows, options.gigabytes)
        for kind in ("spark", "connect"):
            worker = Worker([sys.executable, __file__, "--worker", kind, "--folder", str(warehouse)])
            started.callback(worker.end)
            runs["plain toArrow" if kind == "spark" else "Spark Connect"] = worker.run
        for title, sql in AGGREGATIONS.items():
            compare(title, sql, runs, options.rounds)
        client = None if options.no_thrift else started.enter_context(thrift(warehouse))
        if client is not None:
            runs["Thrift Server"] = lambda sql: client.run(
                sql.replace(TABLE, f"delta.`{warehouse / 'mixed'}`")
            )
        elif not options.no_thrift:
            print("the Thrift Server did not start", flush=True)
        compare("whole table", FULL, runs, options.rounds)


def main() -> None:
    """Measure, or be a rival."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--gigabytes", type=float, default=5.0)
    parser.add_argument("--no-thrift", action="store_true")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--worker", choices=("spark", "connect"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        {"spark": spark_worker, "connect": connect_worker}[options.worker](options.folder)
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        make_table(Path(folder) / "mixed", options.rows)
        command = [
            sys.executable,
            "-m",
            "sparkport",
            "serve",
            folder,
            "--port",
            "0",
            "--no-auth",
            "--no-http",
        ]
        with subprocess.Popen(
            [*command, "--log-level", "warning"], stdout=subprocess.PIPE, text=True
        ) as server:
            assert server.stdout is not None
            location = server.stdout.readline().split()[-1]
            try:
                measure(location, server.pid, Path(folder), options)
            finally:
                server.terminate()


if __name__ == "__main__":
    main()
