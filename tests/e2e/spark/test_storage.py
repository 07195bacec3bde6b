"""A warehouse that is full or cannot be written to: clear refusals, and nothing half written."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from sparkport.client import Client
from sparkport.errors import LimitExceededError, PreconditionError, SparkportError, UnavailableError
from tests.flight_client import Flight, refusal

from .lake import local_table, wait_until
from .small_disk import SmallDisk, need_own_mounts

MB = 1 << 20
CODES = {LimitExceededError: "RESOURCE_EXHAUSTED", PreconditionError: "FAILED_PRECONDITION"}
FULL = ("RESOURCE_EXHAUSTED", "the server's storage is full")
READ_ONLY = (
    "FAILED_PRECONDITION",
    "the server cannot write to its storage: it is read-only, or access is denied",
)
STOCK = pa.table({"item": ["pencil", "ruler"], "pieces": pa.array([10, 3], pa.int64())})
ROWS = STOCK.to_pylist()
NEED_NO_ROOM = {"DROP TABLE", "DROP SCHEMA", "RENAME"}

pytestmark = pytest.mark.timeout(400)


def told(run: Callable[[], object]) -> tuple[str, str]:
    """Return the code and text of the refusal, by whichever client."""
    try:
        return refusal(run)
    except SparkportError as error:
        return CODES[type(error)], str(error)


def noise(size: int) -> pa.Table:
    """Return a row of that many bytes that cannot be packed."""
    return pa.table({"item": [os.urandom(size // 2).hex()], "pieces": pa.array([1], pa.int64())})


def statements(client: Client, flight: Flight, ids: list[int]) -> dict[str, Callable[[], object]]:
    """Return statements of all kinds on the table `own.stock`."""
    rename = {
        "catalog": "lakehouse",
        "schema": "own",
        "name": "stock",
        "ignore_not_found": False,
        "new_table_name": "other",
    }
    retype = {
        "catalog": "lakehouse",
        "schema": "own",
        "name": "stock",
        "ignore_not_found": False,
        "column_schema": bytes(pa.schema([("pieces", pa.string())]).serialize()),
        "expression": "CAST(pieces AS VARCHAR)",
    }
    return {
        "INSERT": lambda: client.insert("own", "stock", STOCK),
        "UPDATE": lambda: client.update("own", "stock", ids, STOCK),
        "DELETE": lambda: client.delete("own", "stock", ids),
        "ADD COLUMN": lambda: client.add_column("own", "stock", pa.field("more", pa.string())),
        "DROP COLUMN": lambda: client.drop_column("own", "stock", "pieces"),
        "CREATE SCHEMA": lambda: client.create_schema("another"),
        "CREATE TABLE": lambda: client.create_table("own", "another", STOCK.schema),
        "DROP TABLE": lambda: client.drop_table("own", "stock"),
        "DROP SCHEMA": lambda: client.drop_schema("own", cascade=True),
        "RENAME": lambda: flight.action("rename_table", rename),
        "ALTER TYPE": lambda: flight.action("change_column_type", retype),
    }


def staged(server: SmallDisk) -> list[str]:
    """Return the rows that statements have staged."""
    return [path for path in server.files() if re.match("_sparkport/staging/.*/", path)]


def trash(server: SmallDisk) -> list[str]:
    """Return the files of dropped tables."""
    return [path for path in server.files() if path.startswith("_sparkport/trash")]


def test_read_only_and_full_storage(tmp_path: Path) -> None:
    """What needs to write is refused with the reason and changes nothing; the rest goes on.

    The server starts and reads where it cannot write. On a full disk tables can still be dropped,
    and once there is room everything works as before.
    """
    need_own_mounts()
    local_table(tmp_path / "seed" / "shop.db" / "stock", STOCK)
    with (
        SmallDisk(tmp_path, tmp_path / "seed", size=24 * MB, mode="ro") as server,
        server.client() as client,
        server.flight() as flight,
    ):
        assert server.rows("shop", "stock") == ROWS
        assert told(lambda: client.insert("shop", "stock", STOCK)) == READ_ONLY
        assert told(lambda: client.create_schema("own")) == READ_ONLY
        assert server.tables() == ["shop.stock"]

        server.remount("rw")
        for schema, table in (("own", "stock"), ("spare", "stock")):
            client.create_schema(schema)
            client.create_table(schema, table, STOCK.schema)
            client.insert(schema, table, STOCK)
        ids = client.scan("own", "stock").read_all()["rowid"].to_pylist()
        works = statements(client, flight, ids)

        server.remount("ro")
        files = server.files()
        assert {name: told(work) for name, work in works.items()} == dict.fromkeys(works, READ_ONLY)
        assert server.files() == files
        assert server.rows("own", "stock") == ROWS
        assert server.tables() == ["own.stock", "shop.stock", "spare.stock"]

        server.remount("rw")
        server.fill(0)
        writing = {name: works[name] for name in works if name not in NEED_NO_ROOM}
        assert {name: told(work) for name, work in writing.items()} == dict.fromkeys(writing, FULL)
        # Enough for a commit, but not for these rows: the first are kept in memory until they are
        # written, the others in files as they come.
        server.fill(3 * MB)
        assert told(lambda: client.insert("own", "stock", noise(6 * MB))) == FULL
        assert told(lambda: client.insert("own", "stock", noise(20 * MB))) == FULL
        assert staged(server) == []
        assert server.rows("own", "stock") == ROWS
        assert server.tables() == ["own.stock", "shop.stock", "spare.stock"]
        server.fill(0)
        client.drop_table("spare", "stock")
        assert server.tables() == ["own.stock", "shop.stock"]
        # A dropped table stays in the trash while there is room, and there is none.
        wait_until(lambda: not trash(server), "the trash is full, and so is the disk", 20)

        server.make_room()
        works["CREATE TABLE"]()
        client.create_table("spare", "stock", STOCK.schema)
        client.drop_table("spare", "stock")
        assert trash(server) != []
        assert client.insert("own", "stock", STOCK).affected_rows == 2
        assert server.rows("own", "stock") == sorted(ROWS * 2, key=repr)
        assert server.tables() == ["own.another", "own.stock", "shop.stock"]
        assert "Traceback" not in server.text


def test_transaction_on_a_full_disk(tmp_path: Path) -> None:
    """However much room is left, a commit over three tables is whole or not at all; the server goes on."""
    need_own_mounts()
    (tmp_path / "seed").mkdir()
    tables, outcomes = ("a", "b", "c"), []
    with SmallDisk(tmp_path, tmp_path / "seed", size=8 * MB, mode="rw") as server, server.client() as client:
        client.create_schema("own")
        for table in tables:
            client.create_table("own", table, STOCK.schema)
        expected = 0
        for free in (*range(0, 49_152, 4096), 65_536, 131_072, MB):
            try:
                with client.transaction() as own:
                    for table in tables:
                        own.insert("own", table, STOCK)
                    server.fill(free)
                outcomes.append("committed")
            except LimitExceededError:
                outcomes.append("refused")
            except UnavailableError as error:
                outcomes.append(str(error))
            server.make_room()
            with client.transaction() as own:
                counts = [own.scan("own", table).read_all().num_rows for table in tables]
            expected += 0 if outcomes[-1] == "refused" else STOCK.num_rows
            assert counts == [expected] * len(tables), (free, outcomes)
            assert staged(server) == []
            assert not [path for path in server.files() if path.startswith("_sparkport/transactions/")]

    assert outcomes[0] == "refused"
    assert outcomes[-1] == "committed"
    others = [one for one in outcomes if one not in {"refused", "committed"}]
    assert all(one.startswith("the transaction is committed") for one in others), others
    assert "Traceback" not in server.text
