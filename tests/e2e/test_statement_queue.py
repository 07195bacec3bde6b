"""What waits where only so many statements may run at once."""

from __future__ import annotations

import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import msgspec
import pyarrow as pa
import pytest

import sparkport
from sparkport import ServerLimits, errors
from sparkport.catalog import Call
from sparkport.client import Client
from sparkport.flight import statement_queue
from sparkport.flight.statement_queue import StatementQueue
from sparkport.memory import MemoryCatalog
from sparkport.protocol import flight_pb2 as pb
from tests.flight_client import Flight, batch_frames, path_descriptor, table_of, total_changed

from .slow_table import Slow
from .usage import eventually

TOKEN = "queue-token"
ROWS = pa.table({"id": pa.array(range(1000), pa.int64())})
ONE = ServerLimits(concurrent_statements=1, queue_seconds=30)


@contextmanager
def serving(slow: Slow, limits: ServerLimits) -> Iterator[sparkport.Server]:
    """Serve a table, and one whose scan does not end."""
    builder = sparkport.CatalogBuilder().schema("s").table("t", ROWS)
    builder.add_table(slow)
    with sparkport.Server(
        builder, port=0, token=TOKEN, limits=limits, grace_seconds=0.2, http_port=0
    ) as server:
        yield server


@contextmanager
def busy(limits: ServerLimits) -> Iterator[tuple[sparkport.Server, Client, str]]:
    """Serve with one place, which a scan has; give its id."""
    with serving(Slow(), limits) as server, sparkport.connect(server.location, token=TOKEN) as client:
        reader = client.scan("s", "slow")
        reader.read_next_batch()
        thread = threading.Thread(target=_read_to_the_end, args=(reader,))
        thread.start()
        (statement,) = client.statements()
        yield server, client, str(statement["id"])
        client.cancel(str(statement["id"]))
        thread.join(20)


def _read_to_the_end(reader: pa.RecordBatchReader) -> None:
    with pytest.raises(errors.CancelledError):
        reader.read_all()


def waiting(client: Client) -> list[str]:
    """Return the ids of the statements that wait."""
    return [str(one["id"]) for one in client.statements() if one["state"] == "queued"]


def test_a_statement_waits_until_another_has_ended() -> None:
    """It is listed as queued, and is answered in full once there is a place."""
    with busy(ONE) as (_, client, first), ThreadPoolExecutor() as pool:
        scan = pool.submit(lambda: client.scan("s", "t").read_all().num_rows)
        query = pool.submit(lambda: _count(client))
        assert eventually(lambda: len(waiting(client)) == 2)
        assert not scan.done()
        client.cancel(first)

        assert (scan.result(20), query.result(20)) == (1000, 1000)
        assert waiting(client) == []


def _count(client: Client) -> int:
    rows = client.sql("SELECT count(*) AS n FROM s.t")
    assert isinstance(rows, pa.RecordBatchReader)
    return int(rows.read_all().column("n")[0].as_py())


def test_a_full_queue_refuses() -> None:
    """Beyond the bound the answer is RESOURCE_EXHAUSTED at once, and names the settings."""
    with (
        busy(replace(ONE, waiting_statements=1)) as (server, client, first),
        ThreadPoolExecutor() as pool,
    ):
        waits = pool.submit(lambda: client.scan("s", "t").read_all().num_rows)
        assert eventually(lambda: len(waiting(client)) == 1)
        assert b"\nsparkport_statements_queued 1.0\n" in _metrics(server)
        with pytest.raises(errors.LimitExceededError, match=r"--statements, --statement-queue"):
            client.scan("s", "t").read_all()
        assert server.statements.running() == 2
        client.cancel(first)

        assert waits.result(20) == 1000


def _metrics(server: sparkport.Server) -> bytes:
    request = urllib.request.Request(
        f"{server.console}/metrics", headers={"authorization": f"Bearer {TOKEN}"}
    )
    with urllib.request.urlopen(request, timeout=20) as answer:
        found: bytes = answer.read()
    return found


def test_nobody_waits_for_ever() -> None:
    """After the time of the queue the answer is DEADLINE_EXCEEDED, and names the setting."""
    with (
        busy(replace(ONE, queue_seconds=0.3)) as (_, client, _first),
        pytest.raises(errors.DeadlineExceededError, match="--queue-timeout"),
    ):
        client.scan("s", "t").read_all()


def test_a_statement_that_waits_is_cancelled() -> None:
    """It leaves the queue without having run."""
    with busy(ONE) as (_, client, _first), ThreadPoolExecutor() as pool:
        scan: Future[pa.Table] = pool.submit(lambda: client.scan("s", "t").read_all())
        assert eventually(lambda: len(waiting(client)) == 1)
        client.cancel(waiting(client)[0])

        with pytest.raises(errors.CancelledError):
            scan.result(20)
        assert waiting(client) == []


def test_one_transaction_never_waits_for_itself(slow_catalog: sparkport.Server) -> None:
    """DuckDB opens an INSERT before the scan of its source, and may read two tables at once."""
    table = path_descriptor("lakehouse", "s", "copy")
    transaction = [("airport-transaction-id", _transaction(slow_catalog))]
    with Flight(slow_catalog.location, TOKEN) as duckdb:
        exchange = duckdb.exchange("insert", headers=transaction)
        exchange.open(table, ROWS.schema)
        (ticket,) = duckdb.scan(path_descriptor("lakehouse", "s", "t"), [0], headers=transaction)
        streams = [_opened(duckdb, ticket, transaction) for _ in range(2)]
        rows = [table_of([first, *stream]) for first, stream in streams]
        for frame in batch_frames(rows[0]):
            exchange.send(frame)
        exchange.half_close()

        assert rows[1].num_rows == 1000
        assert total_changed(exchange.rest()[-1]) == 1000


def _opened(duckdb: Flight, ticket: bytes, headers: list[tuple[str, str]]) -> tuple[bytes, Iterator[bytes]]:
    stream = duckdb.stream("DoGet", pb.Ticket(ticket=ticket).SerializeToString(), headers)
    return next(stream), stream


@pytest.fixture
def slow_catalog() -> Iterator[sparkport.Server]:
    """Serve two tables in memory, with one place."""
    with sparkport.Server(MemoryCatalog(), port=0, token=TOKEN, limits=ONE, grace_seconds=0.2) as server:
        with sparkport.connect(server.location, token=TOKEN) as client:
            client.create_schema("s")
            for name in ("t", "copy"):
                client.create_table("s", name, ROWS.schema)
            client.insert("s", "t", ROWS)
        yield server


def _transaction(server: sparkport.Server) -> str:
    with Flight(server.location, TOKEN) as duckdb:
        (answer,) = duckdb.action("create_transaction", {"catalog_name": "lakehouse"})
    found: dict[str, str] = msgspec.msgpack.decode(answer)
    return found["identifier"]


def test_whoever_does_not_read_loses_the_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that stops taking rows keeps its stream, but nobody waits for it."""
    monkeypatch.setattr(statement_queue, "_STALLED_SECONDS", 0.5)
    slow = Slow()
    slow.size = 200_000
    with serving(slow, ONE) as server, sparkport.connect(server.location, token=TOKEN) as client:
        reader = client.scan("s", "slow")
        reader.read_next_batch()

        assert client.scan("s", "t").read_all().num_rows == 1000
        assert reader.read_next_batch().num_rows > 0
        reader.close()
        del reader


def test_the_next_one_is_of_whoever_runs_least() -> None:
    """One principal with a hundred statements in the queue does not keep another waiting behind them."""
    queue = StatementQueue(2)
    order: list[str] = []
    release = threading.Event()

    def run(name: str, hold: Callable[[], object]) -> None:
        with queue.place(Call(name)):
            order.append(name)
            hold()

    threads = [threading.Thread(target=run, args=("ada", release.wait)) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert eventually(lambda: len(order) == 2)
    for name in ("ada", "ada", "ada", "grace"):
        threads.append(threading.Thread(target=run, args=(name, lambda: time.sleep(0.1))))
        threads[-1].start()
        assert eventually(lambda: queue.waiting() == len(threads) - 2)
    release.set()
    for thread in threads:
        thread.join(20)

    assert "grace" in order[2:4]
    assert len(order) == 6


def test_without_a_limit_nobody_waits() -> None:
    """The queue is off by default."""
    queue = StatementQueue()
    with queue.place(Call("ada")), queue.place(Call("ada")):
        assert queue.waiting() == 0
