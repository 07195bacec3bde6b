"""Transactions of several statements over several tables, through real servers of the Spark engine."""

from __future__ import annotations

import contextlib
import os
import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from sparkport.client import Client, connect
from sparkport.errors import (
    ConflictError,
    ConstraintViolationError,
    InvalidRequestError,
    PreconditionError,
    UnavailableError,
)
from sparkport.protocol import flight_sql_pb2 as sql
from tests.flight_client import Flight
from tests.histories.checker import anomalies
from tests.histories.recorder import Recorder, final, prepare
from tests.sql_client import action, query, update

from .lake import PATIENCE, TOKEN, LakeServer, kill, wait_until

pytestmark = pytest.mark.timeout(600)

SCHEMA = "bank"
ACCOUNTS = 5
START = 100
NUMBER = pa.schema([("n", pa.int64())])
SEED = int(os.environ.get("SPARKPORT_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 31)
HISTORIES = int(os.environ.get("SPARKPORT_HISTORIES", "1"))
"""How many histories of 108 transactions are checked."""
NEVER = -1
"""A number that is never committed."""
KILLS = int(os.environ.get("SPARKPORT_KILLS", "2"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LakeServer]:
    """Return a server."""
    with LakeServer(tmp_path_factory.mktemp("transactions")) as running, running.client() as client:
        client.create_schema(SCHEMA)
        yield running


def numbers(client: Client, table: str) -> list[int]:
    """Return the numbers in a table."""
    return sorted(client.scan(SCHEMA, table).read_all().column("n").to_pylist())


def row_ids(client: Client, table: str) -> list[int]:
    """Return the row ids of a table."""
    rows = client.scan(SCHEMA, table).read_all()
    ids: list[int] = rows.column(rows.num_columns - 1).to_pylist()
    return ids


def by_deltalake(warehouse: Path, table: str) -> list[int]:
    """Return the numbers in a table as another program finds them."""
    found = DeltaTable(str(warehouse / f"{SCHEMA}.db" / table))
    rows = pa.table(QueryBuilder().register("t", found).execute("SELECT n FROM t").read_all())
    return sorted(rows["n"].to_pylist())


def make(client: Client, *tables: str, rows: int = 0) -> None:
    """Make tables with so many rows of one number."""
    for table in tables:
        client.create_table(SCHEMA, table, NUMBER)
        if rows:
            client.insert(SCHEMA, table, pa.table({"n": pa.array([START] * rows, pa.int64())}))


def test_readers_see_all_tables_of_a_commit_or_none(server: LakeServer) -> None:
    """A transaction of a reader, as DuckDB's are, never begins between two commits of another one."""
    names = ("left", "right", "third")
    with server.client() as client:
        make(client, *names)
    stop = threading.Event()

    def write() -> None:
        with server.client() as client:
            for number in range(40):
                with client.transaction() as own:
                    for name in names:
                        own.insert(SCHEMA, name, pa.table({"n": pa.array([number], pa.int64())}))
        stop.set()

    def read() -> list[list[int]]:
        seen = []
        with server.client() as client:
            while not stop.is_set():
                with client.transaction(auto_commit=True) as own:
                    seen.append([own.scan(SCHEMA, name).read_all().num_rows for name in names])
        return seen

    with ThreadPoolExecutor() as pool:
        writer, readers = pool.submit(write), [pool.submit(read) for _ in range(2)]
        try:
            writer.result()
        finally:
            stop.set()
        seen = [counts for reader in readers for counts in reader.result()]

    assert len(seen) > 10
    assert [counts for counts in seen if len(set(counts)) > 1] == []


def test_statements_are_seen_by_others_after_the_commit(server: LakeServer) -> None:
    """Two tables change for everybody at once, and for the transaction itself before."""
    with server.client() as client:
        make(client, "one", "two")
        with client.transaction() as own:
            own.insert(SCHEMA, "one", pa.table({"n": [1]}))
            own.insert(SCHEMA, "two", pa.table({"n": [2]}))
            (row,) = row_ids(own, "one")
            own.update(SCHEMA, "one", [row], pa.table({"n": [11]}))
            before = numbers(client, "one"), numbers(client, "two"), numbers(own, "one"), numbers(own, "two")
        after = numbers(client, "one"), numbers(client, "two")

        assert before == ([], [], [11], [2])
        assert after == ([11], [2])
        assert (by_deltalake(server.warehouse, "one"), by_deltalake(server.warehouse, "two")) == ([11], [2])


def test_rollback_leaves_no_file(server: LakeServer) -> None:
    """After a rollback neither the table's folder nor the staging folder has anything of the transaction."""
    with server.client() as client:
        make(client, "undone", rows=2)
        root = server.warehouse / f"{SCHEMA}.db" / "undone"
        files = sorted(path.name for path in root.iterdir())
        with contextlib.suppress(ZeroDivisionError), client.transaction() as own:
            own.insert(SCHEMA, "undone", pa.table({"n": [1]}))
            own.delete(SCHEMA, "undone", row_ids(own, "undone")[:1])
            staged = list((server.warehouse / "_sparkport" / "staging").glob("*/"))
            raise ZeroDivisionError

        assert staged
        assert list((server.warehouse / "_sparkport" / "staging").glob("*/")) == []
        assert sorted(path.name for path in root.iterdir()) == files


def test_definitions_are_refused_within_a_transaction(server: LakeServer) -> None:
    """DDL in a transaction is FAILED_PRECONDITION, and does nothing."""
    with server.client() as client:
        make(client, "fixed")
        with client.transaction() as own:
            with pytest.raises(PreconditionError, match="CREATE TABLE is not possible in a transaction"):
                own.create_table(SCHEMA, "unmade", NUMBER)
            with pytest.raises(PreconditionError, match="ALTER TABLE is not possible in a transaction"):
                own.add_column(SCHEMA, "fixed", pa.field("m", pa.int64()))
            with pytest.raises(PreconditionError, match="DROP TABLE is not possible in a transaction"):
                own.drop_table(SCHEMA, "fixed")
            with pytest.raises(PreconditionError, match="DROP SCHEMA is not possible in a transaction"):
                own.drop_schema(SCHEMA, cascade=True)
            own.insert(SCHEMA, "fixed", pa.table({"n": [1]}))

        assert numbers(client, "fixed") == [1]
        assert not any(path.table == "unmade" for path in client.tables())


def test_table_that_spark_has_to_write_is_refused(server: LakeServer) -> None:
    """A table with a change feed says so at the first INSERT, and the transaction goes on."""
    with server.client() as client:
        root = server.warehouse / f"{SCHEMA}.db" / "fed"
        feed = {"delta.enableChangeDataFeed": "true"}
        write_deltalake(str(root), pa.table({"n": [1]}), configuration=feed)
        make(client, "plain")
        with client.transaction() as own:
            with pytest.raises(
                PreconditionError, match="not possible on table 'fed': it has a feature or prop"
            ):
                own.insert(SCHEMA, "fed", pa.table({"n": [2]}))
            own.insert(SCHEMA, "plain", pa.table({"n": [1]}))

        assert numbers(client, "plain") == [1]


def test_money_is_neither_made_nor_lost(server: LakeServer) -> None:
    """200 transfers at 16 in parallel over five tables keep the sum, in every moment that a reader sees."""
    tables = [f"account{number}" for number in range(ACCOUNTS)]
    with server.client() as client:
        make(client, *tables, rows=2)
        ids = {table: row_ids(client, table) for table in tables}
    stop = threading.Event()
    sums: set[int] = set()

    def watch() -> None:
        with server.client() as client:
            while not stop.is_set():
                with client.transaction() as own:
                    sums.add(sum(sum(numbers(own, table)) for table in tables))

    def transfer(number: int) -> bool:
        chance = random.Random(SEED + number)
        (source, target), place = chance.sample(tables, 2), chance.randrange(2)
        with server.client() as client:
            try:
                with client.transaction() as own:
                    for table, amount in ((source, -1), (target, 1)):
                        rows = own.scan(SCHEMA, table).read_all()
                        known = dict(
                            zip(rows.column(1).to_pylist(), rows.column("n").to_pylist(), strict=True)
                        )
                        row = ids[table][place]
                        own.update(SCHEMA, table, [row], pa.table({"n": [known[row] + amount]}))
            except ConflictError:
                return False
        return True

    watcher = threading.Thread(target=watch)
    watcher.start()
    with ThreadPoolExecutor(16) as pool:
        done = list(pool.map(transfer, range(200)))
    stop.set()
    watcher.join()

    assert sums == {START * 2 * ACCOUNTS}
    assert sum(sum(by_deltalake(server.warehouse, table)) for table in tables) == START * 2 * ACCOUNTS
    assert done.count(True) >= 20


def test_history_is_snapshot_isolation(server: LakeServer) -> None:
    """Concurrent transactions in both dialects have no anomaly that snapshot isolation forbids."""
    with server.client() as client:
        prepare(client)
        committed = 0
        recorder = Recorder(server.location, TOKEN, SEED)
        for _ in range(HISTORIES):
            recorder.run(100, 4, sql_count=8, sql_clients=2)
        found = anomalies(recorder.history, final(client))
        committed = sum(one.outcome == "committed" for one in recorder.history)

    assert found == [], f"seed {SEED}"
    assert committed >= 10 * HISTORIES
    assert [one for one in recorder.history if one.outcome == "unknown"] == []


def leave_open(server: LakeServer) -> None:
    """Begin a transaction of Flight SQL that has staged rows and a log of its own."""
    flight = Flight(server.location, TOKEN, airport=False, alone=True)
    (begun,) = action(flight, "BeginTransaction", sql.ActionBeginTransactionRequest())
    transaction = sql.ActionBeginTransactionResult.FromString(begun).transaction_id
    update(flight, f"INSERT INTO {SCHEMA}.x VALUES ({NEVER})", transaction_id=transaction)
    inside = query(flight, f"SELECT count(*) AS n FROM {SCHEMA}.x", transaction_id=transaction)

    assert inside == [{"n": 1}]
    assert len(list((server.warehouse / "_sparkport" / "staging").glob("*/"))) == 2


def test_killed_during_commits(tmp_path: Path) -> None:
    """A transaction over three tables is in all of them or in none, whenever its server is killed.

    SPARKPORT_KILLS asks for more kills.
    """
    tables = ("x", "y", "z")
    chance = random.Random(SEED)
    acknowledged: list[int] = []
    last = 0
    with LakeServer(tmp_path) as first, first.client() as client:
        client.create_schema(SCHEMA)
        make(client, *tables)
        warehouse = first.warehouse
        first.terminate()
        first.finished()
    for _ in range(KILLS):
        with LakeServer(tmp_path) as server:
            killing = threading.Timer(3 + 3 * chance.random(), kill, (server.process.pid,))
            with server.client() as client:
                client.tables()
                if not acknowledged:
                    leave_open(server)
                killing.start()
                with contextlib.suppress(UnavailableError):
                    while True:
                        last += 1
                        with client.transaction() as own:
                            for table in tables:
                                own.insert(SCHEMA, table, pa.table({"n": [last]}))
                        acknowledged.append(last)
            killing.join()
            server.finished()
        with LakeServer(tmp_path) as server, server.client() as client:
            with client.transaction() as own:
                seen = [numbers(own, table) for table in tables]
            judged = [by_deltalake(warehouse, table) for table in tables]

            assert seen[0] == seen[1] == seen[2]
            assert judged == seen
            assert NEVER not in seen[0]
            assert len(set(seen[0])) == len(seen[0])
            assert set(acknowledged) <= set(seen[0])
            hidden = warehouse / "_sparkport"
            assert list((hidden / "transactions").glob("*.json")) == []
            wait_until(lambda: not list((hidden / "staging").glob("*/")), "staged rows are left", 30)  # noqa: B023
    assert len(acknowledged) >= KILLS


def test_two_servers_share_keys_and_numbers(tmp_path: Path) -> None:
    """Of two servers only one inserts a key, and no row id is used twice."""
    with LakeServer(tmp_path / "first") as first:
        with first.client() as client:
            client.create_schema(SCHEMA)
            make(client, "log")
        with first.flight() as flight:
            flight.create_table("lakehouse", SCHEMA, "keys", NUMBER, unique_constraints=[0])
        with LakeServer(tmp_path / "second", address=str(first.warehouse)) as second:
            locations = [first.location, second.location]

            def insert(number: int) -> int:
                with connect(locations[number % 2], token=TOKEN, timeout=PATIENCE) as client:
                    try:
                        with client.transaction() as own:
                            own.insert(SCHEMA, "keys", pa.table({"n": [number // 2]}))
                            own.insert(SCHEMA, "log", pa.table({"n": [number // 2]}))
                    except (ConstraintViolationError, InvalidRequestError, ConflictError):
                        return 0
                return 1

            def insert_alone(number: int) -> int:
                with connect(locations[number % 2], token=TOKEN, timeout=PATIENCE) as client:
                    try:
                        client.insert(SCHEMA, "keys", pa.table({"n": [100 + number // 2]}))
                    except (ConstraintViolationError, InvalidRequestError):
                        return 0
                return 1

            with ThreadPoolExecutor(8) as pool:
                done = list(pool.map(insert, range(40)))
                alone = list(pool.map(insert_alone, range(40)))
            with second.client() as client:
                keys, logged = row_ids(client, "keys"), row_ids(client, "log")

            assert by_deltalake(first.warehouse, "keys") == [*range(20), *range(100, 120)]
            assert by_deltalake(first.warehouse, "log") == list(range(20))
            assert (sum(done), sum(alone)) == (20, 20)
            assert (len(set(keys)), len(set(logged))) == (40, 20)
