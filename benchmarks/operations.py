"""Measure what watching costs: registry, metrics and HTTP port, and traces on top of that.

Three servers on loopback, each a process of its own, with the same tables; one client; rounds interleaved in
one run. The first server has its registry of statements taken out. What is printed is time relative to it:
1.03 is three percent more.

    python benchmarks/operations.py [--rounds 30] [--quick]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pyarrow as pa

import sparkport
from sparkport.client import Client

TOKEN = "benchmark"
KINDS = ("bare", "watched", "traced")
SMALL = pa.table({"n": pa.array(range(100), pa.int64())})


def serve(kind: str, rows: int) -> None:
    """Serve two tables until standard input ends."""
    large = pa.table({name: pa.array(range(rows), pa.int64()) for name in "abcd"})
    builder = sparkport.CatalogBuilder().schema("s").table("small", SMALL).table("large", large)
    with collector() as endpoint:
        server = sparkport.Server(
            builder,
            port=0,
            token=TOKEN,
            http_port=None if kind == "bare" else 0,
            otel_endpoint=endpoint if kind == "traced" else None,
        )
        if kind == "bare":
            server.statements.begin = lambda *_, **__: ""  # type: ignore[method-assign]
        with server:
            print(server.location, flush=True)
            sys.stdin.read()


class collector:  # noqa: N801
    """Takes traces and forgets them."""

    def __enter__(self) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["content-length"]))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{self._server.server_port}"

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def listings(client: Client, count: int) -> None:
    for _ in range(count):
        assert client.tables()


def small_scans(client: Client, count: int) -> None:
    for _ in range(count):
        assert client.scan("s", "small").read_all().num_rows == SMALL.num_rows


def large_scan(client: Client, count: int) -> None:
    for _ in range(count):
        for _batch in client.scan("s", "large"):
            pass


def measure(rounds: int, scale: int, rows: int) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, __file__, "--serve", kind, "--rows", str(rows)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for kind in KINDS
    ]
    try:
        clients = []
        for process in processes:
            assert process.stdout is not None
            clients.append(sparkport.connect(process.stdout.readline().strip(), token=TOKEN))
        works: dict[str, tuple[Callable[[Client, int], None], int]] = {
            "listing": (listings, 40 * scale),
            "small scans": (small_scans, 20 * scale),
            "large scan": (large_scan, 1),
        }
        for name, (work, count) in works.items():
            for client in clients:
                work(client, count)
            times: list[list[float]] = [[] for _ in KINDS]
            for number in range(rounds):
                for at in (KINDS.index(kind) for kind in (KINDS if number % 2 else KINDS[::-1])):
                    begun = time.perf_counter()
                    work(clients[at], count)
                    times[at].append(time.perf_counter() - begun)
            report(name, count, times)
    finally:
        for process in processes:
            process.communicate("")


def report(name: str, count: int, times: list[list[float]]) -> None:
    bare = statistics.median(times[0])
    print(f"{name:12} {bare / count * 1000:8.3f} ms each", end="")
    for kind, own in zip(KINDS[1:], times[1:], strict=True):
        ratios = [one / base for one, base in zip(own, times[0], strict=True)]
        print(f"   {kind} {statistics.median(ratios):.3f}", end="")
    print()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--quick", action="store_true", help="a tenth of the work")
    parser.add_argument("--serve", choices=KINDS, help=argparse.SUPPRESS)
    parser.add_argument("--rows", type=int, default=4_000_000)
    options = parser.parse_args()
    rows = options.rows // 10 if options.quick else options.rows
    if options.serve:
        serve(options.serve, options.rows)
    else:
        measure(options.rounds, 1 if options.quick else 10, rows)


if __name__ == "__main__":
    main()
