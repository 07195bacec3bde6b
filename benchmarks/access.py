"""Measure what access rules and encryption cost.

Rounds interleaved in one run. The servers are processes of their own on loopback: without an access file
(two of them, for the noise), with one, and with TLS. A ratio above 1 is a cost. The row filters are measured
in this process too, against the same condition as the filter of a scan.

    python benchmarks/access.py [--rounds 15] [--quick]
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
from pyarrow import flight, parquet

from sparkport.access.decisions import Rights
from sparkport.access.file import parse_rules
from sparkport.access.guard import Guard
from sparkport.catalog import (
    Call,
    Catalog,
    CreateSchemaOptions,
    CreateTableOptions,
    ScanOptions,
    SqlStatement,
)
from sparkport.catalog.lookup import find_schema, find_table
from sparkport.catalog.predicates import Column, Comparison, ComparisonOperator, Constant
from sparkport.memory import MemoryCatalog
from sparkport.sql import CatalogSql

ROWS = 10_000_000
TOKEN = "benchmark-token"
GRANTS = """
[roles]
reader = ["user"]

[[grant]]
to = "reader"
allow = ["select", "sql"]
catalogs = "lake"
"""
SIMPLE, OTHER = "bucket < 5", "substr(name, 1, 1) < '5'"


def filtered(condition: str) -> str:
    return GRANTS + f'[[filter]]\nfor = "reader"\ntables = "lake.s.large"\nrows = "{condition}"\n'


def make_catalog(rows: int) -> MemoryCatalog:
    catalog, call = MemoryCatalog(), Call()
    schema = catalog.create_schema(call, "s", CreateSchemaOptions())
    for name, count in (("large", rows), ("small", 10)):
        data = pa.table(
            {
                "id": pa.array(range(count), pa.int64()),
                "bucket": pa.array([i % 10 for i in range(count)], pa.int64()),
                "name": pa.array([f"{i % 10} customer" for i in range(count)]),
            }
        )
        table = schema.create_table(call, name, data.schema, CreateTableOptions())
        table.insert(call, data.to_reader())
    return catalog


def serve(rows: int, rules: str, folder: Path, *, encrypted: bool) -> None:
    from sparkport import CatalogBuilder, Server
    from sparkport.app.certificates import write_certificate
    from sparkport.app.process.logs import LogFormat, LogLevel, configure_logs

    configure_logs(LogFormat.JSON, LogLevel.WARNING)
    pair = write_certificate(folder, ["127.0.0.1"], days=1) if encrypted else None
    catalog, call = make_catalog(rows), Call()
    file = folder / "large.parquet"
    large = find_table(call, find_schema(call, catalog, "s"), "large")
    parquet.write_table(large.scan(call, ScanOptions(columns=("id", "bucket", "name"))).read_all(), file)

    def from_file() -> pa.RecordBatchReader:
        source = parquet.ParquetFile(file)
        return pa.RecordBatchReader.from_batches(source.schema_arrow, source.iter_batches())

    columns = parquet.read_schema(file)
    files = CatalogBuilder().schema("s").table("large", arrow_schema=columns, reader=from_file).build()
    server = Server(
        {"lake": catalog, "files": files},
        port=0,
        token=TOKEN,
        access=rules or None,
        tls_cert=None if pair is None else pair.certificate,
        tls_key=None if pair is None else pair.key,
    )
    server.start()
    print(f"ready {server.location}", flush=True)
    server.wait()


class Process:
    """A server process and its client."""

    def __init__(self, folder: Path, rows: int, rules: str = "", *, encrypted: bool = False) -> None:
        folder.mkdir()
        command = [sys.executable, __file__, "--serve", str(rows), "--folder", str(folder)]
        if rules:
            (folder / "access.toml").write_text(rules, encoding="utf-8")
            command += ["--rules", str(folder / "access.toml")]
        if encrypted:
            command += ["--tls"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        location = self.process.stdout.readline().split()[1]
        roots = {"tls_root_certs": (folder / "cert.pem").read_bytes()} if encrypted else {}
        self.client = flight.connect(location, **roots)
        self.options = flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {TOKEN}".encode())])

    def actions(self, count: int) -> None:
        action = flight.Action("catalog_version", b"\x81\xaccatalog_name\xa4lake")
        for _ in range(count):
            list(self.client.do_action(action, self.options))

    def scans(self, table: str, count: int, database: str = "lake") -> None:
        descriptor = flight.FlightDescriptor.for_path(database, "s", table)
        for _ in range(count):
            for endpoint in self.client.get_flight_info(descriptor, self.options).endpoints:
                for _ in self.client.do_get(endpoint.ticket, self.options):
                    pass

    def stop(self) -> None:
        self.client.close()
        self.process.kill()
        self.process.wait()


def compare(name: str, ours: Callable[[], None], other: Callable[[], None], rounds: int) -> None:
    """Print the time of `ours` over that of `other`; the first round only warms up."""
    pairs = []
    for index in range(rounds + 1):
        pair = (seconds(ours), seconds(other)) if index % 2 else (seconds(other), seconds(ours))[::-1]
        if index:
            pairs.append(pair)
    low, ratio, high = statistics.quantiles((a / b for a, b in pairs), n=4)
    mine, theirs = (statistics.median(pair[side] for pair in pairs) * 1000 for side in (0, 1))
    print(
        f"| {name} | {mine:,.1f} ms | {theirs:,.1f} ms | {ratio:.3f} ({low:.3f} - {high:.3f}) |", flush=True
    )


def seconds(work: Callable[[], None]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def compare_filters(rows: int, rounds: int) -> None:
    catalog, call = make_catalog(rows), Call("user")

    def seen(condition: str) -> Catalog:
        rules = parse_rules(filtered(condition))
        rights = Rights(rules, "user", rules.roles_of("user", frozenset()))
        return Guard(rights, 0).catalog("lake", catalog)

    def scanned(source: Catalog, options: ScanOptions) -> Callable[[], None]:
        table = find_table(call, find_schema(call, source, "s"), "large")
        return lambda: table.scan(call, options).read_all() and None

    def queried(source: Catalog, text: str) -> Callable[[], None]:
        statement = SqlStatement(text, "lake", "s")
        return lambda: CatalogSql(source).query_sql(call, statement, None).read_all() and None

    where = ScanOptions(filter=Comparison(ComparisonOperator.LESS, Column("bucket"), Constant(pa.scalar(5))))
    everything, query = ScanOptions(), "SELECT * FROM large"
    simple = scanned(seen(SIMPLE), everything), scanned(catalog, where)
    compare(f"scan, row filter `{SIMPLE}` | pushed down by the client", *simple, rounds)
    for condition in (SIMPLE, OTHER):
        pair = queried(seen(condition), query), queried(catalog, f"{query} WHERE {condition}")
        compare(f"SQL, row filter `{condition}` | WHERE", *pair, rounds)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--quick", action="store_true", help="a tenth of the data and calls")
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--rules", default="", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, default=Path(), help=argparse.SUPPRESS)
    parser.add_argument("--tls", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve, arguments.rules, arguments.folder, encrypted=arguments.tls)
        return
    share = 10 if arguments.quick else 1
    rows, calls = ROWS // share, 2000 // share
    folder = Path(tempfile.mkdtemp())
    servers = {
        "none": Process(folder / "none", rows),
        "again": Process(folder / "again", rows),
        "file": Process(folder / "file", rows, GRANTS),
        "tls": Process(folder / "tls", rows, encrypted=True),
    }
    try:
        run(servers, rows, calls, arguments.rounds)
    finally:
        for server in servers.values():
            server.stop()
        shutil.rmtree(folder)


def run(servers: dict[str, Process], rows: int, calls: int, rounds: int) -> None:
    none, again, file, tls = servers.values()
    print("| what | against | ours | other | ratio (quartiles) |\n|---|---|---|---|---|")
    for name, ours in (("no access file (noise)", again), ("access file", file)):
        compare(
            f"{calls} DoAction, {name} | no access file",
            lambda ours=ours: ours.actions(calls),  # type: ignore[misc]
            lambda: none.actions(calls),
            rounds,
        )
        compare(
            f"{calls // 4} scans of 10 rows, {name} | no access file",
            lambda ours=ours: ours.scans("small", calls // 4),  # type: ignore[misc]
            lambda: none.scans("small", calls // 4),
            rounds,
        )
    compare(
        f"scan of {rows:,} rows, access file | no access file",
        lambda: file.scans("large", 1),
        lambda: none.scans("large", 1),
        rounds,
    )
    for database, origin in (("lake", "memory"), ("files", "Parquet")):
        compare(
            f"scan of {rows:,} rows from {origin}, TLS | without TLS",
            lambda database=database: tls.scans("large", 1, database),  # type: ignore[misc]
            lambda database=database: none.scans("large", 1, database),  # type: ignore[misc]
            rounds,
        )
    compare_filters(rows, rounds)


if __name__ == "__main__":
    main()
