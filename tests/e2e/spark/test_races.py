"""Two servers on one warehouse: nothing is lost, nothing is doubled, whoever writes at the same time."""

from __future__ import annotations

import os
import random
import threading
import time
import uuid
from abc import ABC, abstractmethod
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from sparkport.client import Client, connect
from sparkport.errors import AlreadyExistsError, ConflictError, NotFoundError

from .lake import PATIENCE, TOKEN, LakeServer

SECONDS = float(os.environ.get("SPARKPORT_RACE_SECONDS", "60"))
SCHEMA = "race"
WAYS = ("transaction", "version")

pytestmark = pytest.mark.timeout(420 + 2 * SECONDS)


class Racer(ABC):
    """A client of one of the servers that writes until it is told to stop."""

    def __init__(self, location: str) -> None:
        self.location = location
        self.done = 0
        self.conflicts = 0
        self.surprise: BaseException | None = None

    def run(self, stop: threading.Event) -> None:
        """Write without pause; a conflict is tried again."""
        try:
            with connect(self.location, token=TOKEN, timeout=PATIENCE) as client:
                while not stop.is_set():
                    try:
                        self.step(client)
                    except ConflictError:
                        self.conflicts += 1
                    else:
                        self.done += 1
        except BaseException as error:  # noqa: BLE001  (the test shows it)
            self.surprise = error

    @abstractmethod
    def step(self, client: Client) -> None:
        """Run one statement."""


class Increment(Racer):
    """Reads a number and writes it one greater: by the version that was read, or in a transaction.

    There is a row for each of the two ways, in one file.
    """

    def __init__(self, location: str, way: str) -> None:
        super().__init__(location)
        self.way = way

    def step(self, client: Client) -> None:
        if self.way == "version":
            self._add(client)
            return
        with client.transaction(auto_commit=True) as own:
            self._add(own)

    def _add(self, client: Client) -> None:
        rows = client.scan(SCHEMA, "counter").read_all().to_pylist()
        row = next(row for row in rows if row["way"] == self.way)
        more = pa.table({"way": [self.way], "n": pa.array([row["n"] + 1], pa.int64())})
        client.update(SCHEMA, "counter", [row["rowid"]], more)


class Remove(Racer):
    """Deletes rows that others may delete too, and counts those that it was told it has."""

    def __init__(self, location: str, ids: list[int]) -> None:
        super().__init__(location)
        self._ids = ids
        self._chance = random.Random(location)
        self.removed = 0

    def step(self, client: Client) -> None:
        few = self._chance.sample(self._ids, 3)
        self.removed += client.delete(SCHEMA, "rows", few, overwrite=True).affected_rows


class InsertTwice(Racer):
    """Sends each statement to both servers at once, with one key."""

    def __init__(self, location: str, other: str, number: int) -> None:
        super().__init__(location)
        self._other = other
        self._number = number

    def step(self, client: Client) -> None:
        row = pa.table({"writer": pa.array([self._number], pa.int64()), "statement": [uuid.uuid4().hex]})
        key = uuid.uuid4().hex
        counts: list[int] = []

        def send() -> None:
            with connect(self._other, token=TOKEN, timeout=PATIENCE) as second:
                counts.append(second.insert(SCHEMA, "inserted", row, key=key).affected_rows)

        thread = threading.Thread(target=send)
        thread.start()
        counts.append(client.insert(SCHEMA, "inserted", row, key=key).affected_rows)
        thread.join()
        assert counts == [1, 1]


class Replace(Racer):
    """Drops a table that others write to, and makes it again."""

    def step(self, client: Client) -> None:
        client.drop_table(SCHEMA, "replaced")
        client.create_table(SCHEMA, "replaced", pa.schema([("n", pa.int64())]))
        client.insert(SCHEMA, "replaced", pa.table({"n": pa.array([0], pa.int64())}))
        found = client.scan(SCHEMA, "replaced").read_all()
        ids = found["rowid"].to_pylist()
        assert len(ids) == len(set(ids)), found.to_pylist()
        time.sleep(0.2)


class InsertIntoReplaced(Racer):
    """Writes to a table that another server drops and makes again."""

    def step(self, client: Client) -> None:
        try:
            client.insert(SCHEMA, "replaced", pa.table({"n": pa.array([1], pa.int64())}))
            ids = client.scan(SCHEMA, "replaced").read_all()["rowid"].to_pylist()
            assert len(ids) == len(set(ids))
            if ids:  # else it was replaced after the INSERT
                assert client.delete(SCHEMA, "replaced", ids[:1], overwrite=True).affected_rows <= 1
        except NotFoundError as error:
            if "vacuum" in str(error):
                raise


def prepare(client: Client) -> list[int]:
    """Make the tables, and return the ids of the rows to delete."""
    client.create_schema(SCHEMA)
    client.create_table(SCHEMA, "counter", pa.schema([("way", pa.string()), ("n", pa.int64())]))
    client.insert(SCHEMA, "counter", pa.table({"way": list(WAYS), "n": pa.array([0, 0], pa.int64())}))
    client.create_table(SCHEMA, "rows", pa.schema([("n", pa.int64())]))
    client.insert(SCHEMA, "rows", pa.table({"n": pa.array(range(2000), pa.int64())}))
    columns = pa.schema([("writer", pa.int64()), ("statement", pa.string())])
    client.create_table(SCHEMA, "inserted", columns)
    client.create_table(SCHEMA, "replaced", pa.schema([("n", pa.int64())]))
    ids: list[int] = client.scan(SCHEMA, "rows").read_all()["rowid"].to_pylist()
    return ids


def test_two_servers_race_on_one_warehouse(tmp_path: Path) -> None:
    """Increments, deletes, inserts with keys, DROP and CREATE: what was acknowledged is there, once."""
    with (
        LakeServer(tmp_path / "one") as one,
        LakeServer(tmp_path / "two", address=str(tmp_path / "one" / "warehouse")) as two,
    ):
        with one.client() as client:
            ids = prepare(client)
        here, there = one.location, two.location
        increments = [Increment(location, way) for location in (here, there) for way in WAYS]
        removals = [Remove(location, ids) for location in (here, there)]
        inserts = [InsertTwice(here, there, 1), InsertTwice(there, here, 2)]
        replaced: list[Racer] = [Replace(here), InsertIntoReplaced(there), InsertIntoReplaced(here)]
        racers = [*increments, *removals, *inserts, *replaced]
        stop = threading.Event()
        threads = [threading.Thread(target=racer.run, args=(stop,)) for racer in racers]
        for thread in threads:
            thread.start()
        time.sleep(SECONDS)
        stop.set()
        for thread in threads:
            thread.join(PATIENCE)
        surprises = [racer.surprise for racer in racers if racer.surprise is not None]

        assert not surprises, surprises
        added = {way: sum(racer.done for racer in increments if racer.way == way) for way in WAYS}
        assert min(*added.values(), *(racer.done for racer in [*removals, *inserts, *replaced])) > 0
        assert {row["way"]: row["n"] for row in one.rows(SCHEMA, "counter")} == added
        assert len(two.rows(SCHEMA, "rows")) == 2000 - sum(racer.removed for racer in removals)
        statements = [row["statement"] for row in one.rows(SCHEMA, "inserted")]
        assert len(statements) == len(set(statements)) == sum(racer.done for racer in inserts)
        with two.client() as client:
            client.drop_table(SCHEMA, "replaced")
            client.create_table(SCHEMA, "replaced", pa.schema([("n", pa.int64())]))
            with pytest.raises(AlreadyExistsError):
                client.create_table(SCHEMA, "replaced", pa.schema([("n", pa.int64())]))
        assert DeltaTable(one.warehouse / f"{SCHEMA}.db" / "replaced").version() == 0
        assert "Traceback" not in one.text + two.text
