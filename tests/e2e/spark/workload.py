"""Clients that write without pause and know what they were promised, for servers that are killed."""

from __future__ import annotations

import collections
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import grpc
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from sparkport.client import Client, connect
from sparkport.errors import UnavailableError
from tests.flight_client import Flight

from .lake import PATIENCE, TOKEN, LakeServer

SCHEMA = "work"
ROW_ID = "_sparkport_rowid"
LARGE_ROWS = 50_001  # more than statements that share a commit may have

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Seen:
    """What a reader sees: the names of the tables, and the rows of each."""

    tables: list[str]
    rows: Callable[[str], Rows]


class Writer(ABC):
    """One client. A statement is pending while it is under way, and its outcome is open if it breaks off."""

    def __init__(self) -> None:
        self.acknowledged = 0
        self.pending: Any = None
        self.surprise: BaseException | None = None

    def run(self, location: str, stop: threading.Event) -> None:
        """Write until told to stop, or until the server or its Spark is gone."""
        try:
            with connect(location, token=TOKEN, timeout=PATIENCE) as client:
                while not stop.is_set():
                    self.step(client)
                    self.pending = None
                    self.acknowledged += 1
        except UnavailableError:
            pass
        except BaseException as error:  # noqa: BLE001  (the test shows it)
            self.surprise = error

    @abstractmethod
    def prepare(self, client: Client) -> None:
        """Make the tables."""

    @abstractmethod
    def step(self, client: Client) -> None:
        """Set `pending`, run one statement, and note that it was acknowledged."""

    @abstractmethod
    def check(self, seen: Seen) -> None:
        """Assert that what is there was promised, or wholly what was pending; take it from there."""


class Inserts(Writer):
    """Each statement adds some rows with its number; several writers share a table."""

    def __init__(self, table: str, writer: int, rows: int) -> None:
        super().__init__()
        self._table, self._writer, self._size = table, writer, rows
        self._done: set[int] = set()
        self._next = 0

    def prepare(self, client: Client) -> None:
        columns = pa.schema([("writer", pa.int32()), ("statement", pa.int64()), ("part", pa.int64())])
        client.create_table(SCHEMA, self._table, columns, if_not_exists=True)

    def step(self, client: Client) -> None:
        self.pending, self._next = self._next, self._next + 1
        rows = pa.table(
            {
                "writer": pa.repeat(pa.scalar(self._writer, pa.int32()), self._size),
                "statement": pa.repeat(pa.scalar(self.pending, pa.int64()), self._size),
                "part": pa.array(range(self._size), pa.int64()),
            }
        )
        assert client.insert(SCHEMA, self._table, rows).affected_rows == self._size
        self._done.add(self.pending)

    def check(self, seen: Seen) -> None:
        found: dict[int, list[int]] = collections.defaultdict(list)
        for row in seen.rows(self._table):
            if row["writer"] == self._writer:
                found[row["statement"]].append(row["part"])
        for statement, parts in found.items():
            assert sorted(parts) == list(range(self._size)), f"statement {statement} is not whole"
        assert set(found) - {self.pending} == self._done - {self.pending}
        self._done = set(found)


class Updates(Writer):
    """Each statement gives all rows the same new number."""

    def prepare(self, client: Client) -> None:
        columns = pa.schema([("part", pa.int64()), ("number", pa.int64())])
        client.create_table(SCHEMA, "updated", columns)
        rows = pa.table({"part": pa.array(range(20)), "number": pa.repeat(pa.scalar(0, pa.int64()), 20)})
        client.insert(SCHEMA, "updated", rows)
        self._rows = client.scan(SCHEMA, "updated").read_all()
        self._number = 0

    def step(self, client: Client) -> None:
        self.pending = self._number + 1
        changed = pa.table(
            {"part": self._rows["part"], "number": pa.repeat(pa.scalar(self.pending, pa.int64()), 20)}
        )
        ids = self._rows["rowid"].to_pylist()
        assert client.update(SCHEMA, "updated", ids, changed).affected_rows == 20
        self._number = self.pending

    def check(self, seen: Seen) -> None:
        rows = seen.rows("updated")
        assert sorted(row["part"] for row in rows) == list(range(20))
        (number,) = {row["number"] for row in rows}
        assert number in {self._number, self.pending}
        self._number = number


class Deletes(Writer):
    """Each statement removes a group of rows."""

    _GROUPS, _SIZE = 300, 3

    def prepare(self, client: Client) -> None:
        columns = pa.schema([("number", pa.int64())])
        client.create_table(SCHEMA, "deleted", columns)
        numbers = [number for number in range(self._GROUPS) for _ in range(self._SIZE)]
        client.insert(SCHEMA, "deleted", pa.table({"number": pa.array(numbers)}))
        self._ids: dict[int, list[int]] = collections.defaultdict(list)
        for row in client.scan(SCHEMA, "deleted").read_all().to_pylist():
            self._ids[row["number"]].append(row["rowid"])
        self._left = set(range(self._GROUPS))

    def step(self, client: Client) -> None:
        self.pending = min(self._left)
        assert client.delete(SCHEMA, "deleted", self._ids[self.pending]).affected_rows == self._SIZE
        self._left.remove(self.pending)

    def check(self, seen: Seen) -> None:
        found = collections.Counter(row["number"] for row in seen.rows("deleted"))
        assert set(found.values()) == {self._SIZE}
        assert set(found) - {self.pending} == self._left - {self.pending}
        self._left = set(found)


class Creates(Writer):
    """Makes tables, fills them and drops every other one: three statements each."""

    def __init__(self) -> None:
        super().__init__()
        self._number = 0
        self._state = "none"
        self._kept: set[int] = set()

    def prepare(self, client: Client) -> None:
        """Nothing: to make tables is the work."""

    def step(self, client: Client) -> None:
        name = f"made_{self._number}"
        match self._state:
            case "none":
                self.pending = "empty"
                client.create_table(SCHEMA, name, pa.schema([("n", pa.int64())]))
            case "empty":
                self.pending = "filled"
                client.insert(SCHEMA, name, pa.table({"n": [1, 2, 3]}))
            case "filled" if self._number % 2:
                self.pending = "none"
                client.drop_table(SCHEMA, name)
                self._number += 2
            case _:
                self._kept.add(self._number)
                self._number += 1
                self._state = self.pending = "none"
                return
        self._state = self.pending

    def check(self, seen: Seen) -> None:
        there = {name for name in seen.tables if name.startswith("made_")}
        for number in self._kept:
            assert sorted(row["n"] for row in seen.rows(f"made_{number}")) == [1, 2, 3]
        others = there - {f"made_{number}" for number in self._kept}
        name = f"made_{self._number}"
        state = "none"
        if others:
            assert others == {name}
            state = "filled" if seen.rows(name) else "empty"
            assert sorted(row["n"] for row in seen.rows(name)) in ([], [1, 2, 3])
        assert state in {self._state, self.pending}
        self._state = state


class Columns(Writer):
    """Adds columns and drops them again, which changes the log alone."""

    def prepare(self, client: Client) -> None:
        client.create_table(SCHEMA, "columns", pa.schema([("n", pa.int64())]))
        client.insert(SCHEMA, "columns", pa.table({"n": list(range(100))}))
        self._more: tuple[str, ...] = ()
        self._number = 0

    def step(self, client: Client) -> None:
        if self._more:
            self.pending = ()
            client.drop_column(SCHEMA, "columns", self._more[0])
        else:
            self._number += 1
            self.pending = (f"more_{self._number}",)
            client.add_column(SCHEMA, "columns", pa.field(self.pending[0], pa.string()))
        self._more = self.pending

    def check(self, seen: Seen) -> None:
        rows = seen.rows("columns")
        assert sorted(row["n"] for row in rows) == list(range(100))
        more = tuple(name for name in rows[0] if name not in {"n", ROW_ID})
        assert more in {self._more, self.pending}
        self._more = more


class Types(Writer):
    """Changes the type of a column there and back, which writes all rows anew."""

    def prepare(self, client: Client) -> None:
        client.create_table(SCHEMA, "types", pa.schema([("n", pa.int64())]))
        client.insert(SCHEMA, "types", pa.table({"n": list(range(500))}))
        self._type: pa.DataType = pa.int64()

    def run(self, location: str, stop: threading.Event) -> None:
        with Flight(location, TOKEN) as self._flight:
            super().run(location, stop)

    def step(self, client: Client) -> None:
        del client
        self.pending = pa.string() if self._type == pa.int64() else pa.int64()
        word = "VARCHAR" if self.pending == pa.string() else "BIGINT"
        body = {
            "catalog": "lakehouse",
            "schema": SCHEMA,
            "name": "types",
            "ignore_not_found": False,
            "column_schema": bytes(pa.schema([("n", self.pending)]).serialize()),
            "expression": f"CAST(n AS {word})",
        }
        try:
            self._flight.action("change_column_type", body)
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.UNAVAILABLE:
                raise
            raise UnavailableError(str(error.details())) from error
        self._type = self.pending

    def check(self, seen: Seen) -> None:
        values = [row["n"] for row in seen.rows("types")]
        assert sorted(map(int, values)) == list(range(500))
        kind = pa.string() if isinstance(values[0], str) else pa.int64()
        assert kind in {self._type, self.pending}
        self._type = kind


class Workload:
    """Nine clients at once."""

    def __init__(self) -> None:
        self.writers: list[Writer] = [
            *(Inserts("small", number, 3) for number in range(3)),
            Inserts("large", 0, LARGE_ROWS),
            Updates(),
            Deletes(),
            Creates(),
            Columns(),
            Types(),
        ]

    def prepare(self, server: LakeServer) -> None:
        """Make all tables."""
        with server.client() as client:
            client.create_schema(SCHEMA)
            for writer in self.writers:
                writer.prepare(client)

    def start(self, server: LakeServer) -> Running:
        """Let all clients write."""
        return Running(self.writers, server.location)

    def check(self, seen: Seen) -> None:
        """Compare what is there with what was promised, and take what was open from there."""
        for writer in self.writers:
            assert writer.surprise is None, f"{type(writer).__name__}: {writer.surprise!r}"
            writer.check(seen)
            writer.pending = None


class Running:
    """The clients at work."""

    def __init__(self, writers: list[Writer], location: str) -> None:
        self._writers = writers
        self._before = self._count()
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=writer.run, args=(location, self._stop), daemon=True)
            for writer in writers
        ]
        for thread in self._threads:
            thread.start()

    @property
    def acknowledged(self) -> int:
        """How many statements were acknowledged since the start."""
        return self._count() - self._before

    @property
    def under_way(self) -> int:
        """How many statements are under way."""
        return sum(writer.pending is not None for writer in self._writers)

    @property
    def is_over(self) -> bool:
        """Whether a client has stopped by itself."""
        return not all(thread.is_alive() for thread in self._threads)

    def join(self) -> None:
        """Begin no more statements, and wait for those under way."""
        self._stop.set()
        for thread in self._threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()

    def _count(self) -> int:
        return sum(writer.acknowledged for writer in self._writers)


def by_deltalake(server: LakeServer) -> Seen:
    """Read the tables as another program does, without the server and without Spark."""

    def rows(table: str) -> Rows:
        found = DeltaTable(str(server.warehouse / f"{SCHEMA}.db" / table))
        result = pa.table(QueryBuilder().register("t", found).execute("SELECT * FROM t").read_all())
        ids = result[ROW_ID].to_pylist()
        assert len(set(ids)) == len(ids)
        listed: Rows = result.to_pylist()
        return listed

    return Seen(_listed(server), rows)


def by_spark(server: LakeServer) -> Seen:
    """Read the tables through the server and its Spark."""
    return Seen(_listed(server), lambda table: server.rows(SCHEMA, table))


def _listed(server: LakeServer) -> list[str]:
    return [name.partition(".")[2] for name in server.tables()]
