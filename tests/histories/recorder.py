"""Clients that append to lists in concurrent transactions of a real server, and record what they saw."""

from __future__ import annotations

import itertools
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

from sparkport.client import Client, connect
from sparkport.errors import ConflictError, SparkportError, UnavailableError

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


class Recorder:
    """Runs transactions of several clients at once, as chance will have it."""

    def __init__(self, location: str, token: str | None, seed: int) -> None:
        self.history: list[Transaction] = []
        self._location, self._token = location, token
        self._chance = random.Random(seed)
        self._numbers = itertools.count(1)
        self._values = itertools.count(1)
        self._lock = threading.Lock()

    def run(self, count: int, clients: int) -> None:
        """Run so many transactions, so many at a time."""
        with ThreadPoolExecutor(clients) as pool:
            for done in [pool.submit(self._client, count // clients) for _ in range(clients)]:
                done.result()

    def _client(self, count: int) -> None:
        with connect(self._location, token=self._token, timeout=60) as client:
            for _ in range(count):
                self._transaction(client)

    def _transaction(self, client: Client) -> None:
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
            with client.transaction() as own:
                for table, place, writes in steps:
                    name = f"{table}{place}"
                    row, text = lists(own, table)[name]
                    reads.append((name, values(text)))
                    if writes:
                        with self._lock:
                            value = next(self._values)
                        appends.append((name, value))
                        own.update(
                            SCHEMA, table, [row], pa.table({"list": [name], "items": [f"{text} {value}"]})
                        )
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
