"""Measure scans of Delta tables against what else can read them.

One run, rounds interleaved, medians. The data are TPC-H's lineitem at scale 1 in 16 files and a
table of 10 M rows of mixed types in 8; sparkport and the rivals that need one have a process of their own.
DuckDB's delta_scan takes part where the package `duckdb-extension-delta` of the same version is installed.

    python benchmarks/scan.py [--rounds 5] [--scale 1] [--connect sc://...] [--folder DIR]
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from deltalake import write_deltalake
from pyarrow import flight

FILES = 16
TWO_COLUMNS = ("l_orderkey", "l_extendedprice")
LOOKUPS = 15
OWN_CONNECT = "connect"
END_SECONDS = 20
ROWID_KEY = b"is_rowid"


@dataclass(frozen=True, slots=True)
class Scan:
    """What is read: columns, and rows of a range of `l_orderkey`."""

    table: str
    columns: tuple[str, ...] | None = None
    low: int | None = None
    high: int | None = None

    @property
    def expression(self) -> ds.Expression | None:
        if self.low is None:
            return None
        return (ds.field("l_orderkey") >= self.low) & (ds.field("l_orderkey") <= self.high)

    @property
    def sql(self) -> str:
        return f"l_orderkey >= {self.low} AND l_orderkey <= {self.high}" if self.low is not None else "true"


@dataclass(frozen=True, slots=True)
class Measured:
    """What a scan took, and what came."""

    seconds: float
    first: float
    size: int
    rows: int


Reader = Callable[[Scan], Measured]


def measured(batches: Iterator[pa.RecordBatch], begun: float) -> Measured:
    """Take all batches."""
    first, size, rows = 0.0, 0, 0
    for batch in batches:
        first = first or time.perf_counter() - begun
        size += batch.nbytes
        rows += batch.num_rows
    return Measured(time.perf_counter() - begun, first, size, rows)


def make_lineitem(folder: Path, scale: float) -> None:
    """Generate lineitem and write it as a Delta table in 16 files."""
    with tempfile.TemporaryDirectory() as raw:
        program = Path(sys.executable).parent / "tpchgen-cli"
        command = [str(program), "parquet", "-s", str(scale), "--tables=lineitem", f"--output-dir={raw}"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        source = next(Path(raw).rglob("*.parquet"))
        table = pq.read_table(source)
    table = table.cast(pa.schema([(field.name, plain(field.type)) for field in table.schema]))
    step = -(-len(table) // FILES)
    for start in range(0, len(table), step):
        write_deltalake(str(folder), table.slice(start, step), mode="append")


def plain(kind: pa.DataType) -> pa.DataType:
    return pa.string() if pa.types.is_string_view(kind) or pa.types.is_large_string(kind) else kind


def make_mixed(folder: Path, rows: int) -> None:
    """Write a table of numbers, times and texts."""
    chance = np.random.default_rng(7)
    step = rows // 8
    for start in range(0, rows, step):
        ids = np.arange(start, start + step)
        columns = {
            "id": ids,
            "kind": chance.integers(0, 1000, step).astype(np.int32),
            "value": chance.random(step),
            "at": pa.array(ids * 1000, pa.timestamp("us")),
            "name": pa.array([f"name-{number:07d}" for number in chance.integers(0, 10**6, step)]),
        }
        write_deltalake(str(folder), pa.table(columns), mode="append")


class Sparkport:
    """The server under test, read by pyarrow.flight."""

    def __init__(self, warehouse: Path) -> None:
        command = [sys.executable, "-m", "sparkport", "serve", str(warehouse), "--port", "0", "--no-auth"]
        command += ["--log-level", "warning"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.location = self.process.stdout.readline().split()[-1]

    def read(self, scan: Scan) -> Measured:
        with flight.connect(self.location) as client:
            begun = time.perf_counter()
            tickets = self._endpoints(client, scan)
            batches = (chunk.data for ticket in tickets for chunk in client.do_get(ticket))
            return measured(batches, begun)

    def _endpoints(self, client: flight.FlightClient, scan: Scan) -> list[flight.Ticket]:
        descriptor = flight.FlightDescriptor.for_path("default", scan.table)
        schema = client.get_schema(descriptor).schema
        visible = [field.name for field in schema if ROWID_KEY not in (field.metadata or {})]
        request = {
            "json_filters": filters(scan),
            "column_ids": [visible.index(name) for name in scan.columns or visible],
            "table_function_parameters": b"",
            "at_unit": "",
            "at_value": "",
        }
        body = {"descriptor": descriptor.serialize(), "parameters": request}
        action = flight.Action("endpoints", msgspec.msgpack.encode(body))
        answer = msgspec.msgpack.decode(next(iter(client.do_action(action))).body.to_pybytes())
        return [flight.FlightEndpoint.deserialize(part).ticket for part in answer]


def filters(scan: Scan) -> str:
    """Return the filter as DuckDB sends it."""
    if scan.low is None:
        return ""

    def constant(value: int | None) -> dict[str, Any]:
        typed = {"type": {"id": "BIGINT", "type_info": None}, "is_null": False, "value": value}
        return {"expression_class": "BOUND_CONSTANT", "type": "VALUE_CONSTANT", "alias": "", "value": typed}

    column = {
        "expression_class": "BOUND_COLUMN_REF",
        "type": "BOUND_COLUMN_REF",
        "alias": "l_orderkey",
        "return_type": {"id": "BIGINT", "type_info": None},
        "binding": {"table_index": 0, "column_index": 0},
        "depth": 0,
    }
    between = {
        "expression_class": "BOUND_BETWEEN",
        "type": "COMPARE_BETWEEN",
        "alias": "",
        "input": column,
        "lower": constant(scan.low),
        "upper": constant(scan.high),
        "lower_inclusive": True,
        "upper_inclusive": True,
    }
    return json.dumps({"filters": [between], "column_binding_names_by_index": ["l_orderkey"]})


class Bare(flight.FlightServerBase):  # type: ignore[misc]  # pyarrow is untyped
    """A Flight server that has the table in memory."""

    def __init__(self, tables: dict[bytes, pa.Table]) -> None:
        super().__init__("grpc://127.0.0.1:0")
        self.tables = tables

    def do_get(self, context: flight.ServerCallContext, ticket: flight.Ticket) -> flight.RecordBatchStream:
        del context
        return flight.RecordBatchStream(self.tables[ticket.ticket])


class Worker:
    """A rival in a process of its own: it answers a line with a line."""

    def __init__(self, kind: str, warehouse: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--worker", kind, "--folder", str(warehouse)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout is not None
        self.hello = self.process.stdout.readline().strip()

    def read(self, scan: Scan) -> Measured:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([scan.table, scan.columns, scan.low, scan.high]) + "\n")
        self.process.stdin.flush()
        return Measured(*json.loads(self.process.stdout.readline()))

    def end(self) -> None:
        """Close its input, upon which it ends by itself, with what it has started."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def asked() -> Iterator[Scan]:
    for line in sys.stdin:
        table, columns, low, high = json.loads(line)
        yield Scan(table, None if columns is None else tuple(columns), low, high)


def answer(found: Measured) -> None:
    print(json.dumps([found.seconds, found.first, found.size, found.rows]), flush=True)


def spark_worker(warehouse: Path) -> None:
    """Read by Spark's own toArrow."""
    from sparkport.app.process.logs import LogFormat, LogLevel, configure_logs
    from sparkport.catalog import Call
    from sparkport.spark.session.host import SparkHost
    from sparkport.spark.session.settings import SparkSettings

    configure_logs(LogFormat.CONSOLE, LogLevel.ERROR)
    host = SparkHost(SparkSettings(str(warehouse), driver_memory="6g"))
    answer_by(host.session(Call()), warehouse)
    host.stop()


def connect_worker(warehouse: Path, address: str) -> None:
    """Read by Spark Connect's toArrow, from a server of our own unless there is an address."""
    from pyspark.sql import SparkSession

    from sparkport.spark.session.delta_jars import delta_jars
    from sparkport.spark.session.java_home import find_java
    from sparkport.spark.session.settings import SparkSettings, start_conf

    if address != OWN_CONNECT:
        answer_by(SparkSession.builder.remote(address).getOrCreate(), warehouse)
        return
    settings = SparkSettings(str(warehouse), driver_memory="6g")
    os.environ["JAVA_HOME"] = str(find_java().path)
    with tempfile.TemporaryDirectory() as scratch:
        builder = SparkSession.builder.remote(settings.master)
        for key, value in start_conf(settings, delta_jars(settings.jars_folder), Path(scratch)).items():
            # The address says the master, and the others belong to sparkport's own process.
            if key not in {"spark.master", "spark.driver.extraJavaOptions", "spark.python.daemon.module"}:
                builder = builder.config(key, value)
        session = builder.getOrCreate()
        answer_by(session, warehouse)
        session.stop()


def answer_by(session: Any, warehouse: Path) -> None:  # noqa: ANN401  (of either kind)
    """Answer what is asked by the toArrow of a session."""
    session.conf.set("spark.sql.files.maxPartitionBytes", "128m")  # Spark's own default
    print("ready", flush=True)
    for scan in asked():
        begun = time.perf_counter()
        frame = session.read.format("delta").load(str(warehouse / scan.table)).filter(scan.sql)
        if scan.columns is not None:
            frame = frame.select(*scan.columns)
        answer(measured(iter(frame.toArrow().to_batches()), begun))


def bare_worker(warehouse: Path) -> None:
    """Hold the tables in memory behind a bare Flight server."""
    names = [folder.name for folder in warehouse.iterdir() if (folder / "_delta_log").exists()]
    server = Bare({name.encode(): ds.dataset(files(warehouse, name)).to_table() for name in names})
    print(f"grpc://127.0.0.1:{server.port}", flush=True)
    for scan in asked():
        with flight.connect(f"grpc://127.0.0.1:{server.port}") as client:
            begun = time.perf_counter()
            reader = client.do_get(flight.Ticket(scan.table.encode()))
            answer(measured((chunk.data for chunk in reader), begun))


def files(warehouse: Path, name: str) -> list[str]:
    return sorted(str(path) for path in (warehouse / name).glob("*.parquet"))


def by_dataset(warehouse: Path) -> Reader:
    def read(scan: Scan) -> Measured:
        begun = time.perf_counter()
        source = ds.dataset(files(warehouse, scan.table))
        columns = None if scan.columns is None else list(scan.columns)
        return measured(source.to_batches(columns=columns, filter=scan.expression), begun)

    return read


def by_duckdb(warehouse: Path) -> Reader:
    connection = duckdb.connect()
    return lambda scan: read_by_duckdb(connection, scan, "read_parquet", files(warehouse, scan.table))


def by_delta_scan(warehouse: Path, extension: Path) -> Reader:
    connection = duckdb.connect()
    connection.execute(f"LOAD '{extension}'")
    return lambda scan: read_by_duckdb(connection, scan, "delta_scan", str(warehouse / scan.table))


def read_by_duckdb(
    connection: duckdb.DuckDBPyConnection, scan: Scan, function: str, source: list[str] | str
) -> Measured:
    begun = time.perf_counter()
    names = "*" if scan.columns is None else ", ".join(scan.columns)
    query = f"SELECT {names} FROM {function}(?) WHERE {scan.sql}"
    return measured(iter(connection.execute(query, [source]).fetch_record_batch(65_536)), begun)


def delta_extension() -> Path | None:
    """Return the file of DuckDB's delta extension, if a package has brought it."""
    package = importlib.util.find_spec("duckdb_extension_delta")
    if package is None or package.origin is None:
        return None
    path = Path(package.origin).parent / "extensions" / f"v{duckdb.__version__}" / "delta.duckdb_extension"
    return path if path.is_file() else None


def loopback_bytes() -> int:
    """Return how much the loopback interface has carried."""
    line = next(
        line for line in Path("/proc/net/dev").read_text().splitlines() if line.strip().startswith("lo:")
    )
    return int(line.split()[1])


def rate(found: Measured) -> float:
    return found.size / found.seconds / 1e6


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument(
        "--connect",
        metavar="sc://...",
        default=OWN_CONNECT,
        help="a Spark Connect server with Delta to compare with, instead of one that is started",
    )
    parser.add_argument("--folder", type=Path, help="where the tables are, or are to be made and kept")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker == "bare":
        bare_worker(options.folder)
        return
    if options.worker == "spark":
        spark_worker(options.folder)
        return
    if options.worker:
        connect_worker(options.folder, options.worker)
        return
    with contextlib.ExitStack() as stack:
        folder = options.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if not (folder / "lineitem").exists():
            print("making the tables ...", flush=True)
            make_lineitem(folder / "lineitem", options.scale)
            make_mixed(folder / "mixed", int(10_000_000 * min(1, options.scale)))
        run(folder, options.rounds, options.connect)


def run(folder: Path, rounds: int, connect: str) -> None:
    server = Sparkport(folder)
    workers = {
        "Spark toArrow": Worker("spark", folder),
        "Spark Connect toArrow": Worker(connect, folder),
        "bare Flight, in memory": Worker("bare", folder),
    }
    rivals: dict[str, Reader] = {
        "sparkport": server.read,
        "pyarrow.dataset": by_dataset(folder),
        "DuckDB read_parquet": by_duckdb(folder),
        **{name: worker.read for name, worker in workers.items()},
    }
    extension = delta_extension()
    if extension is None:
        print("without DuckDB's delta_scan: the package duckdb-extension-delta is not installed", flush=True)
    else:
        rivals["DuckDB delta_scan"] = by_delta_scan(folder, extension)
    highest = ds.dataset(files(folder, "lineitem")).scanner(columns=["l_orderkey"]).to_table()
    top = int(pa.compute.max(highest["l_orderkey"]).as_py())
    middle = top // 2
    scans = {
        "lineitem, all": Scan("lineitem"),
        "mixed, all": Scan("mixed"),
        "2 of 16 columns": Scan("lineitem", TWO_COLUMNS),
        "1 % of the rows": Scan("lineitem", None, middle, middle + top // 100),
    }
    try:
        warm_up(rivals, scans)
        tables(rivals, scans, rounds)
        lookups(rivals, top)
        details(server, scans, rounds)
    finally:
        for worker in workers.values():
            worker.end()
        server.process.terminate()
        server.process.wait()


def warm_up(rivals: dict[str, Reader], scans: dict[str, Scan]) -> None:
    for scan in scans.values():
        rows = {}
        for _ in range(2):
            for name, read in rivals.items():
                if name != "bare Flight, in memory" or (scan.columns is None and scan.low is None):
                    rows[name] = read(scan).rows
        assert len(set(rows.values())) == 1, rows


def tables(rivals: dict[str, Reader], scans: dict[str, Scan], rounds: int) -> None:
    print("\n| scan | " + " | ".join(rivals) + " |\n" + "|---" * (1 + len(rivals)) + "|")
    for label, scan in scans.items():
        found: dict[str, list[Measured]] = {name: [] for name in rivals}
        for _ in range(rounds):
            for name, read in rivals.items():
                if name != "bare Flight, in memory" or (scan.columns is None and scan.low is None):
                    found[name].append(read(scan))
        cells = [cell(runs) for runs in found.values()]
        print(f"| {label} | " + " | ".join(cells) + " |", flush=True)


def cell(runs: list[Measured]) -> str:
    if not runs:
        return "-"
    seconds = statistics.median(run.seconds for run in runs)
    return f"{statistics.median(map(rate, runs)):,.0f} MB/s, {seconds:.2f} s"


def lookups(rivals: dict[str, Reader], top: int) -> None:
    print("\n| point look-up, warm | p50 |\n|---|---|")
    keys = [int(key) for key in np.random.default_rng(3).integers(1, top, LOOKUPS)]
    for name in ("sparkport", "Spark toArrow", "pyarrow.dataset", "DuckDB read_parquet"):
        seconds = [rivals[name](Scan("lineitem", None, key, key)).seconds for key in keys]
        print(f"| {name} | {statistics.median(seconds) * 1000:,.0f} ms |", flush=True)


def details(server: Sparkport, scans: dict[str, Scan], rounds: int) -> None:
    print("\n| sparkport | measured |\n|---|---|")
    whole = scans["lineitem, all"]
    firsts = [server.read(whole).first for _ in range(rounds)]
    print(f"| time to the first batch, full scan, warm | {statistics.median(firsts):.2f} s |")
    sent = {}
    for label in ("lineitem, all", "2 of 16 columns", "1 % of the rows"):
        before = loopback_bytes()
        server.read(scans[label])
        sent[label] = loopback_bytes() - before
        share = sent[label] / sent["lineitem, all"]
        print(f"| bytes sent: {label} | {sent[label] / 1e6:,.1f} MB ({share:.1%}) |")
    one = statistics.median(rate(server.read(whole)) for _ in range(rounds))
    begun = time.perf_counter()
    with ThreadPoolExecutor(8) as threads:
        parts = list(threads.map(lambda _: server.read(whole), range(8)))
    total = sum(part.size for part in parts) / (time.perf_counter() - begun) / 1e6
    print(f"| one scan | {one:,.0f} MB/s |")
    print(f"| eight scans at once, together | {total:,.0f} MB/s |")
    memory = Path(f"/proc/{server.process.pid}/status").read_text()
    peak = next(line for line in memory.splitlines() if line.startswith("VmHWM"))
    print(f"| most memory of the server's process | {int(peak.split()[1]) / 1024:,.0f} MB |", flush=True)


if __name__ == "__main__":
    main()
