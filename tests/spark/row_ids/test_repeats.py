"""A statement with a key is done once, however often it is sent."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

from sparkport.catalog import Call, CreateTableOptions
from sparkport.errors import CancelledError, InvalidRequestError, PreconditionError, UnavailableError
from sparkport.spark.catalog.schema import SparkSchema
from sparkport.spark.delta_jvm import file_commit
from sparkport.spark.delta_jvm.transaction import CommitResult
from sparkport.spark.engine import Engine
from sparkport.spark.table import DeltaTable
from tests.spark.read.lake import Lake
from tests.spark.row_ids.tables import actions, delete, ids_of, newest

_COLUMNS = pa.schema({"id": pa.int64(), "s": pa.string()})


def _made(lake: Lake, name: str) -> DeltaTable:
    return SparkSchema(lake.schema, lake.catalog.tables).create_table(
        Call(), name, _COLUMNS, CreateTableOptions()
    )


def _insert(table: DeltaTable, call: Call, *keys: int, returning: bool = False) -> int:
    rows = pa.table({"id": list(keys), "s": ["x"] * len(keys)}, schema=_COLUMNS)
    return table.insert(call, rows.to_reader(), returning=returning).affected_rows


def _update(table: DeltaTable, call: Call, row_id: int, text: str) -> int:
    rows = pa.table({"s": [text]})
    return table.update(call, pa.array([row_id], pa.int64()), rows.to_reader()).affected_rows


def _keyed(key: str) -> Call:
    return Call(idempotency_key=key)


@pytest.fixture
def later(lake: Lake) -> Iterator[Lake]:
    """Return the same folder after a restart: nothing is known but what the log says."""
    engine = Engine(lake.engine.host, adopts=True)
    yield lake.with_engine(engine)
    engine.jobs.close()


def test_repeated_statements_return_the_first_outcome(lake: Lake, later: Lake) -> None:
    """INSERT, UPDATE and DELETE under a key are one commit each, also for another server or a new one."""
    table = _made(lake, "once")
    first = [_insert(table, _keyed("insert"), 1, 2, 3), _insert(table, _keyed("insert"), 1, 2, 3)]
    ids = ids_of(lake, "once")
    first += [
        _update(table, _keyed("update"), ids[2], "new"),
        delete(table, [ids[1], 5 << 40], _keyed("delete")),
    ]
    at = newest(table)
    _update(table, Call(), ids[2], "newer")
    again = later.table("once")
    lake.run("once", "ALTER TABLE {t} SET TBLPROPERTIES (delta.checkpointInterval = 1)")
    _insert(table, _keyed("more"), 4)
    repeated = [
        _insert(again, _keyed("insert"), 1, 2, 3),
        _update(again, _keyed("update"), ids[2], "new"),
        delete(again, [ids[1], 5 << 40], _keyed("delete")),
        _insert(again, _keyed("more"), 4),
    ]
    noted = [
        (action["appId"], action["version"])
        for version in range(1, at + 1)
        for kind, action in actions(table, version)
        if kind == "txn"
    ]

    assert first == [3, 3, 1, 1]
    assert at == 3
    assert [(key, version & (1 << 33) - 1) for key, version in noted] == [
        ("sparkport:insert", 3),
        ("sparkport:update", 1),
        ("sparkport:delete", 1),
    ]
    assert repeated == [3, 1, 1, 1]
    assert newest(table) == at + 3
    assert {row["id"]: row["s"] for row in lake.spark_rows("once")} == {2: "newer", 3: "x", 4: "x"}
    with pytest.raises(
        PreconditionError, match="was already executed, with 3 rows; they cannot be returned again"
    ):
        _insert(again, _keyed("insert"), 1, 2, 3, returning=True)
    # Keys of others are not left behind in the session, and a statement without rows needs no commit.
    assert lake.spark.conf.get("spark.databricks.delta.write.txnAppId", None) is None
    assert _insert(table, _keyed("nothing")) == 0
    assert delete(table, [1 << 50], _keyed("nobody")) == 0
    assert newest(table) == at + 3


def test_keyed_inserts_share_a_commit(lake: Lake) -> None:
    """Small ones that wait for each other are one commit with all their keys; one sent twice counts once."""
    table = _made(lake, "joint")
    commits = lake.engine.commits(table.root, table.versions.header().metadata.table_id, str(table))
    commits._is_draining = True  # as if a commit was under way
    keys = ["a", "b", "b", "c"]
    with ThreadPoolExecutor(8) as threads:
        sent = [threads.submit(_insert, table, _keyed(key), keys.index(key)) for key in keys]
        plain = threads.submit(_insert, table, Call(), 9)
        while len(commits._waiting) < 4:
            threading.Event().wait(0.01)
        threading.Thread(target=commits._drain).start()
        counts = [one.result() for one in [*sent, plain]]
    kinds = [kind for kind, _ in actions(table, 1)]

    assert counts == [1, 1, 1, 1, 1]
    assert newest(table) == 1
    assert kinds.count("txn") == 3
    assert len(lake.spark_rows("joint")) == 4


@pytest.mark.parametrize("restarted", [False, True])
def test_key_belongs_to_one_statement(lake: Lake, later: Lake, *, restarted: bool) -> None:
    """Other rows, another operation or another caller with a used key is refused, and changes nothing."""
    name = f"bound_{restarted}"
    table = _made(lake, name)
    _insert(table, Call("ada", idempotency_key="k"), 1, 2)
    row_id = ids_of(lake, name)[1]
    _update(table, Call("ada", idempotency_key="u"), row_id, "new")
    again = later.table(name) if restarted else table
    at = newest(table)

    assert _insert(again, Call("ada", idempotency_key="k"), 1, 2) == 2
    for call, keys in (("ada", (1, 3)), ("ada", (1,)), ("grace", (1, 2))):
        with pytest.raises(InvalidRequestError, match="was used for another statement"):
            _insert(again, Call(call, idempotency_key="k"), *keys)
    with pytest.raises(InvalidRequestError, match="was used for another statement"):
        _update(again, Call("ada", idempotency_key="u"), row_id, "other")
    with pytest.raises(InvalidRequestError, match="was used for another statement"):
        delete(again, [row_id], Call("ada", idempotency_key="u"))
    assert newest(table) == at
    assert {row["id"]: row["s"] for row in lake.spark_rows(name)} == {1: "new", 2: "x"}


def test_rows_of_a_key_may_come_in_other_batches(lake: Lake) -> None:
    """A client that sends a statement again may cut its rows otherwise."""
    table = _made(lake, "batches")
    rows = pa.table({"id": range(70_000), "s": ["x"] * 70_000}, schema=_COLUMNS)
    counts = [
        table.insert(_keyed("k"), rows.to_reader(max_chunksize=size)).affected_rows
        for size in (65_536, 1_000, 70_000)
    ]

    assert counts == [70_000] * 3
    assert newest(table) == 1


def test_statement_whose_reply_was_lost_is_not_done_twice(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log tells what was done, though Spark was lost or the caller gone right after the commit."""
    table = _made(lake, "lost")
    _insert(table, Call(), 1)
    (row_id,) = ids_of(lake, "lost").values()
    lost, gone = _keyed("lost"), _keyed("gone")
    commit = file_commit.commit_files

    def lose(*arguments: Any) -> CommitResult:
        commit(*arguments)
        raise UnavailableError("Spark stopped while it worked on this call; try again")

    def cancel(*arguments: Any) -> None:
        commit(*arguments)
        gone.cancel()
        gone.check()

    monkeypatch.setattr(file_commit, "commit_files", lose)
    assert _insert(table, lost, 2, 3) == 2
    monkeypatch.setattr(file_commit, "commit_files", cancel)
    with pytest.raises(CancelledError):
        _update(table, gone, row_id, "once")
    monkeypatch.setattr(file_commit, "commit_files", commit)
    _update(table, Call(), row_id, "since")

    assert _insert(table, _keyed("lost"), 2, 3) == 2
    assert _update(table, _keyed("gone"), row_id, "once") == 1
    assert {row["id"]: row["s"] for row in lake.spark_rows("lost")} == {1: "since", 2: "x", 3: "x"}


def test_two_servers_with_one_key_do_it_once(
    lake: Lake, later: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever comes second to the log finds the key there, however late."""
    table, other = _made(lake, "race"), later.table("race")
    _insert(table, Call(), 1, 2)
    ids = ids_of(lake, "race")
    began = other.begin_insert(_keyed("same"), returning=False)
    began.write(pa.record_batch({"id": [3], "s": ["x"]}, schema=_COLUMNS))
    changing = other.begin_update(_keyed("set"), ("s",), returning=False)
    changing.write(pa.record_batch({"s": ["late"], "rowid": [ids[1]]}))
    _insert(table, _keyed("same"), 3)
    _update(table, _keyed("set"), ids[1], "first")
    # As if the first had come after the second looked into the log: Delta itself looks once more.
    for engine in (lake.engine, later.engine):
        queue = engine.commits(table.root, table.versions.header().metadata.table_id, "race")
        monkeypatch.setattr(queue, "outcome", lambda _: None)
    at = newest(table)

    assert began.commit() == 1
    assert changing.commit() == 1
    assert newest(table) == at
    assert {row["id"]: row["s"] for row in lake.spark_rows("race")} == {1: "first", 2: "x", 3: "x"}
