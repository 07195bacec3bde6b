"""Scans in the server: at once, without Spark, and many of them in little memory."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from sparkport.protocol import flight_pb2 as pb
from tests.flight_client import path_descriptor, table_of

from .lake import PATIENCE, LakeServer, in_order, local_table

STOCK = pa.table({"item": ["pencil", "ruler"], "pieces": pa.array([10, 3], pa.int32())})
MANY = pa.table({"n": np.random.default_rng(3).integers(0, 1 << 60, 100_000), "t": ["some text"] * 100_000})
SCANS = 200

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LakeServer]:
    """Return a server whose Spark is still starting."""
    folder = tmp_path_factory.mktemp("lake")
    local_table(folder / "warehouse" / "shop.db" / "stock", STOCK)
    local_table(folder / "warehouse" / "shop.db" / "many", MANY)
    with LakeServer(folder, "--calls", str(2 * SCANS)) as running:
        yield running


def test_small_tables_are_read_before_spark_is_up(server: LakeServer) -> None:
    """Whole, with a filter on rows, and within a transaction."""
    with server.client() as client:
        rows = in_order(client.scan("shop", "stock").read_all())

    assert "Spark is up" not in server.text
    assert rows == STOCK.to_pylist()


def test_many_scans_at_once_take_little_memory(server: LakeServer) -> None:
    """Each is stalled after its first rows, and reads the rest when its client goes on."""
    server.await_log("Spark is up")
    with server.flight() as flight:
        address = path_descriptor("lakehouse", "shop", "many")
        (ticket,) = flight.scan(address, [0, 1])
        request = pb.Ticket(ticket=ticket).SerializeToString()
        assert table_of(list(flight.stream("DoGet", request))).num_rows == len(MANY)
        before = _resident(server.process.pid)

        calls = [flight.stream("DoGet", request, timeout=PATIENCE) for _ in range(SCANS)]
        begun = [[next(call), next(call)] for call in calls]
        held = _resident(server.process.pid)
        with ThreadPoolExecutor(8) as threads:
            rest: Iterator[list[bytes]] = threads.map(list, calls)
            counts = {table_of([*first, *more]).num_rows for first, more in zip(begun, rest, strict=True)}

    assert counts == {len(MANY)}
    assert held - before < 300


def _resident(pid: int) -> int:
    """Return the memory of a process in MB, without files that it has mapped."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(status.partition("RssAnon:")[2].partition("kB")[0]) // 1024
