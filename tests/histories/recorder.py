"""Clients that append to lists in concurrent transactions of a real server, and record what they saw."""

from __future__ import annotations

import itertools
import random
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

import grpc
import pyarrow as pa

from sparkport.client import Client, connect
from sparkport.errors import ConflictError, SparkportError, UnavailableError
from sparkport.protocol import flight_sql_pb2 as sql
from tests.flight_client import Flight
from tests.sql_client import action, query, update

from .checker import Transaction

SCHEMA = "histories"
TABLES = ("first", "second")
LISTS = 3  # of each table


def prepare(client: Client) -> None:
    """Make the tables: each row is a list, as text."""
    client.create_schema(SCHEMA, if_not_exists=True)
    columns = pa.schema([("list", pa.string()), ("items", pa.string())])
    for table in TABLES:
        client.create_table(SCHEMA, table, columns)
        client.insert(
            SCHEMA, table, pa.table({"list": [f"{table}{i}" for i in range(LISTS)], "items": [""] * LISTS})
        )


def lists(client: Client, table: str) -> dict[str, tuple[int, str]]:
    """Return the row id and the text of each list of a table."""
    rows = client.scan(SCHEMA, table).read_all()
    ids = rows.column(rows.num_columns - 1).to_pylist()
    names, items = rows.column("list").to_pylist(), rows.column("items").to_pylist()
    return {name: (row, text) for name, row, text in zip(names, ids, items, strict=True)}


def values(text: str) -> tuple[int, ...]:
    """Return the values of a list."""
    return tuple(int(item) for item in text.split())


def final(client: Client) -> dict[str, tuple[int, ...]]:
    """Return all lists as they are."""
    return {name: values(text) for table in TABLES for name, (_, text) in lists(client, table).items()}


class Session(Protocol):
    """A transaction as a client drives it."""

    @abstractmethod
    def read(self, table: str) -> dict[str, str]:
        """Return the text of each list of a table."""

    @abstractmethod
    def write(self, table: str, name: str, text: str) -> None:
        """Set the text of a list that was read."""


class JsonSession(Session):
    """A transaction of the JSON dialect."""

    def __init__(self, own: Client) -> None:
        self._own = own
        self._rows: dict[str, int] = {}

    def read(self, table: str) -> dict[str, str]:
        """Return the text of each list of a table."""
        found = lists(self._own, table)
        self._rows |= {name: row for name, (row, _) in found.items()}
        return {name: text for name, (_, text) in found.items()}

    def write(self, table: str, name: str, text: str) -> None:
        """Set the text of a list by its row id."""
        self._own.update(SCHEMA, table, [self._rows[name]], pa.table({"list": [name], "items": [text]}))


class SqlSession(Session):
    """A transaction of Flight SQL."""

    def __init__(self, flight: Flight, transaction: bytes) -> None:
        self._flight, self._transaction = flight, transaction

    def read(self, table: str) -> dict[str, str]:
        """Return the text of each list of a table."""
        text = f"SELECT list, items FROM {SCHEMA}.{table}"
        rows = query(self._flight, text, transaction_id=self._transaction)
        return {str(row["list"]): str(row["items"]) for row in rows}

    def write(self, table: str, name: str, text: str) -> None:
        """Set the text of a list by its name."""
        statement = f"UPDATE {SCHEMA}.{table} SET items = '{text}' WHERE list = '{name}'"
        assert update(self._flight, statement, transaction_id=self._transaction) == 1


@contextmanager
def json_transaction(client: Client) -> Iterator[JsonSession]:
    """Run a transaction of the JSON dialect."""
    with client.transaction() as own:
        yield JsonSession(own)


@contextmanager
def sql_transaction(flight: Flight) -> Iterator[SqlSession]:
    """Run a transaction of Flight SQL. Raises as the JSON dialect does."""
    end = sql.ActionEndTransactionRequest
    try:
        (begun,) = action(flight, "BeginTransaction", sql.ActionBeginTransactionRequest())
        transaction = sql.ActionBeginTransactionResult.FromString(begun).transaction_id
        try:
            yield SqlSession(flight, transaction)
        except _UndoneError:
            action(
                flight, "EndTransaction", end(transaction_id=transaction, action=end.END_TRANSACTION_ROLLBACK)
            )
            raise
        action(flight, "EndTransaction", end(transaction_id=transaction, action=end.END_TRANSACTION_COMMIT))
    except grpc.RpcError as error:
        match error.code():
            case grpc.StatusCode.ABORTED:
                raise ConflictError("lists", str(error)) from error
            case grpc.StatusCode.UNAVAILABLE:
                raise UnavailableError(str(error)) from error
            case _:
                raise


class Recorder:
    """Runs transactions of several clients at once, as chance will have it."""

    def __init__(self, location: str, token: str | None, seed: int) -> None:
        self.history: list[Transaction] = []
        self._location, self._token = location, token
        self._chance = random.Random(seed)
        self._numbers = itertools.count(1)
        self._values = itertools.count(1)
        self._lock = threading.Lock()

    def run(self, count: int, clients: int, *, sql_count: int = 0, sql_clients: int = 0) -> None:
        """Run so many transactions, so many at a time, in the JSON dialect and at once in Flight SQL."""
        with ThreadPoolExecutor(clients + sql_clients) as pool:
            running = [pool.submit(self._json_client, count // clients) for _ in range(clients)]
            running += [pool.submit(self._sql_client, sql_count // sql_clients) for _ in range(sql_clients)]
            for done in running:
                done.result()

    def _json_client(self, count: int) -> None:
        with connect(self._location, token=self._token, timeout=60) as client:
            for _ in range(count):
                self._transaction(lambda: json_transaction(client))

    def _sql_client(self, count: int) -> None:
        flight = Flight(self._location, self._token, airport=False, alone=True)
        for _ in range(count):
            self._transaction(lambda: sql_transaction(flight))

    def _transaction(self, begin: Callable[[], AbstractContextManager[Session]]) -> None:
        with self._lock:
            number = next(self._numbers)
            steps = [
                (self._chance.choice(TABLES), self._chance.randrange(LISTS), self._chance.random() < 0.5)
                for _ in range(self._chance.randrange(1, 5))
            ]
            rolls_back = self._chance.random() < 0.1
        reads: list[tuple[str, tuple[int, ...]]] = []
        appends: list[tuple[str, int]] = []
        outcome = "unknown"
        try:
            with begin() as own:
                for table, place, writes in steps:
                    name = f"{table}{place}"
                    text = own.read(table)[name]
                    reads.append((name, values(text)))
                    if writes:
                        with self._lock:
                            value = next(self._values)
                        appends.append((name, value))
                        own.write(table, name, f"{text} {value}")
                if rolls_back:
                    _undo()
            outcome = "committed"
        except (_UndoneError, ConflictError):
            outcome = "aborted"
        except UnavailableError:
            pass
        with self._lock:
            self.history.append(Transaction(number, tuple(reads), tuple(appends), outcome))


def _undo() -> None:
    raise _UndoneError


class _UndoneError(SparkportError):
    """The client does not want to commit."""
