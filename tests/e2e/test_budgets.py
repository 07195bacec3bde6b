"""What callers with a token can make a server spend, and what is left for the others."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pyarrow as pa
import pytest

from tests.conftest import TOKEN
from tests.flight_client import (
    SERVICE,
    Flight,
    cmd_descriptor,
    frame,
    path_descriptor,
    refusal,
    schema_header,
)
from tests.json_client import INT, JsonClient, put_frames

from .serving import Process
from .usage import MB, eventually, usage

COLUMNS = pa.schema([("id", pa.int64())])
INSERT = {"operation": "insert", "schema_name": "s", "table_name": "t"}

pytestmark = pytest.mark.slow


REPOSITORY = Path(__file__).parents[2]

DELETE = """
import json, sys
from tests.json_client import JsonClient
from tests.flight_client import Flight, refusal

body = {"schema_name": "s", "table_name": "t", "row_ids": list(range(int(sys.argv[3])))}
with Flight(sys.argv[1], sys.argv[2], airport=False) as client:
    call = lambda: print(JsonClient(client).raw("delete", json.dumps(body).encode()))
    try:
        print(refusal(call))
    except AssertionError:
        pass
"""


class Put:
    """A DoPut that sends what it is given and then stays open."""

    def __init__(self, client: Flight, frames: list[bytes]) -> None:
        self._end = threading.Event()
        call: Any = client.channel.stream_stream(SERVICE + "DoPut")
        self.call = call(self._messages(frames), metadata=tuple(client.headers))

    def _messages(self, frames: list[bytes]) -> Iterator[bytes]:
        yield from frames
        self._end.wait(60)

    def close(self) -> None:
        """Leave."""
        self.call.cancel()
        self._end.set()


def served(*arguments: str) -> Process:
    """Start a server with a table `s.t`."""
    process = Process("serve", "--port", "0", "--token", TOKEN, "--log-level", "warning", *arguments)
    with Flight(process.location, TOKEN, airport=False) as client:
        json_client = JsonClient(client)
        json_client.json("CreateSchema", schema_name="s")
        json_client.create_table("s", "t", INT)
    return process


def compressed(rows: pa.Table) -> list[bytes]:
    """Return the messages of an insert whose one batch is compressed."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, rows.schema, options=options) as writer:
        writer.write_table(rows)
    messages = list(pa.ipc.MessageReader.open_stream(sink.getvalue()))
    return [
        frame(descriptor=cmd_descriptor(json.dumps(INSERT)), header=schema_header(rows.schema)),
        *(frame(header=one.metadata.to_pybytes(), body=one.body.to_pybytes()) for one in messages[1:]),
    ]


def test_idle_uploads_leave_room_for_others() -> None:
    """Two hundred uploads of one client that send nothing take his share, and no more."""
    opening = frame(descriptor=cmd_descriptor(json.dumps(INSERT)), header=schema_header(COLUMNS))
    with (
        served() as process,
        Flight(process.location, TOKEN, airport=False, alone=True) as greedy,
        Flight(process.location, TOKEN, airport=False, alone=True) as other,
    ):
        before = usage(process.process.pid)
        puts = [Put(greedy, [opening]) for _ in range(200)]
        assert eventually(lambda: sum(put.call.done() for put in puts) >= 40)
        answers = [JsonClient(other).insert("s", "t", pa.table({"id": [n]})) for n in range(5)]
        during = usage(process.process.pid)
        codes = {put.call.code().name for put in puts if put.call.done()}
        for put in puts:
            put.close()

        assert [answer["affected_rows"] for answer in answers] == [1] * 5
        assert codes == {"RESOURCE_EXHAUSTED"}
        assert during.threads <= before.threads + 140
        assert eventually(lambda: usage(process.process.pid).threads <= before.threads + 8)
        assert JsonClient(greedy).insert("s", "t", pa.table({"id": [9]}))["affected_rows"] == 1


def test_small_messages_that_hold_much_are_counted() -> None:
    """Kilobytes that unpack to 200 MB each are taken while there is memory, which returns when they end."""
    bomb = compressed(pa.table({"id": np.zeros(25 * MB, np.int64)}))
    with served("--memory", "600") as process, Flight(process.location, TOKEN, airport=False) as client:
        before = usage(process.process.pid).memory
        puts = [Put(client, bomb) for _ in range(8)]
        assert eventually(lambda: sum(put.call.done() for put in puts) >= 7, 60)
        during = usage(process.process.pid).memory
        details = {(put.call.code().name, put.call.details()) for put in puts if put.call.done()}
        for put in puts:
            put.close()

        assert sum(map(len, bomb)) < 30_000
        assert {code for code, _ in details} == {"RESOURCE_EXHAUSTED"}
        assert all(text.startswith("no memory is left for the rows of all calls") for _, text in details)
        assert during < before + 1200 * MB
        assert eventually(lambda: takes_rows(client))


def takes_rows(client: Flight) -> bool:
    """Say whether the server has memory for 160 MB of rows and their ids."""
    try:
        JsonClient(client).insert("s", "t", pa.table({"id": np.arange(10 * MB)}))
    except grpc.RpcError:
        return False
    return True


@pytest.mark.parametrize("kind", ["null", "runs"])
def test_rows_without_bytes_take_no_memory(kind: str) -> None:
    """A hundred bytes that stand for 60 million rows are refused before they are rows."""
    count = 60_000_000
    columns = {
        "null": pa.nulls(count),
        "runs": pa.RunEndEncodedArray.from_arrays(pa.array([count], pa.int32()), pa.array([7], pa.int64())),
    }
    table = path_descriptor("lakehouse", "s", "t")
    with served() as process, Flight(process.location, TOKEN) as client:
        before = usage(process.process.pid).memory
        rows = pa.Table.from_batches([pa.record_batch({"id": columns[kind]})])
        refused = [refusal(lambda: client.insert(table, rows)) for _ in range(3)]

        assert {code for code, _ in refused} == {"RESOURCE_EXHAUSTED"}
        assert usage(process.process.pid).memory < before + 50 * MB
        few = pa.Table.from_batches([pa.record_batch({"id": columns[kind].slice(0, 100_000)})])
        assert client.insert(table, few) == 100_000


def test_many_row_ids_stall_nobody() -> None:
    """A delete with 15 million ids is refused, and the calls of others take no longer for it."""
    with served() as process, Flight(process.location, TOKEN) as other:
        over = threading.Event()
        slowest = 0.0

        def watch() -> None:
            nonlocal slowest
            while not over.is_set():
                started = time.monotonic()
                other.action("catalog_version", {"catalog_name": "lakehouse"})
                slowest = max(slowest, time.monotonic() - started)

        watcher = threading.Thread(target=watch)
        watcher.start()
        answers = [
            subprocess.run(
                [sys.executable, "-c", DELETE, process.location, TOKEN, str(count)],
                cwd=REPOSITORY,
                capture_output=True,
                text=True,
                check=False,
            )
            for count in (15_000_000, 1_500_000, 500_000)
        ]
        over.set()
        watcher.join()

        texts = [answer.stdout for answer in answers]
        assert "the data of action 'delete' has 138888942 bytes, the limit is 33554432 bytes" in texts[0]
        assert "row_ids has more than 1000000 ids, which is the limit" in texts[1]
        assert "'affected_rows': 0" in texts[2]
        assert slowest < 2


def test_staged_bytes_and_transactions_are_limited() -> None:
    """What the open transactions of a caller hold is limited together; rolled back, it is free again."""
    rows = pa.table({"id": np.arange(MB)})  # 8 MB, and as much for the ids
    with served("--memory", "256") as process, Flight(process.location, TOKEN, airport=False) as client:
        json_client = JsonClient(client)
        begun = [json_client.begin(auto_commit=False) for _ in range(20)]
        staged: list[str] = []
        refused: list[tuple[str, str]] = []
        for transaction in begun:
            try:
                json_client.within(transaction).insert("s", "t", rows)
                staged.append(transaction)
            except grpc.RpcError as error:
                refused.append((error.code().name, str(error.details())))
        for transaction in staged:
            json_client.json("rollback_transaction", transaction_id=transaction)
        again = json_client.within(begun[-1]).insert("s", "t", rows)

        assert len(staged) == 4  # 64 MB, a quarter of the memory
        assert {code for code, _ in refused} == {"RESOURCE_EXHAUSTED"}
        assert all("the transactions of this caller stage" in details for _, details in refused)
        assert again["affected_rows"] == MB
        assert json_client.rows("s", "t") == []


def test_silent_upload_is_ended_and_leaves_nothing() -> None:
    """An upload that stops sending ends in time, and none of its rows are kept."""
    frames = list(put_frames(INSERT, pa.table({"id": range(1000)})))
    with (
        served("--stream-idle", "1") as process,
        Flight(process.location, TOKEN, airport=False) as client,
    ):
        put = Put(client, frames)

        assert put.call.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert put.call.details() == "the client sent nothing within 1 second"
        assert JsonClient(client).rows("s", "t") == []
        put.close()


def test_log_names_the_caller_and_not_the_token() -> None:
    """The line of a request says whose it was; a stranger has no name."""
    with (
        Process("serve", "--port", "0", "--token", TOKEN, "--log-format", "json") as process,
        Flight(process.location, TOKEN) as client,
        Flight(process.location, "wrong") as stranger,
    ):
        client.list_flights()
        refusal(stranger.list_flights)
        lines: list[dict[str, object]] = []

        def logged() -> bool:
            lines[:] = [json.loads(line) for line in process.stderr if '"request"' in line]
            return len(lines) == 2

        assert eventually(logged)

    by_status = {line["status"]: line.get("principal") for line in lines}
    assert by_status == {"OK": "user", "UNAUTHENTICATED": None}
    assert TOKEN not in "".join(process.stderr)
