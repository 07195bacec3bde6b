"""INSERT, UPDATE and DELETE of the JSON dialect over raw gRPC."""

from __future__ import annotations

import base64
import json
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import grpc
import pyarrow as pa
import pytest

import sparkport
from sparkport.catalog import Call, DMLResult, ScanOptions, rowid_field
from sparkport.toolkit import CatalogBuilder
from tests.flight_client import (
    SERVICE,
    Flight,
    batch_frames,
    cmd_descriptor,
    frame,
    path_descriptor,
    refusal,
    schema_header,
)
from tests.json_client import INT, TEXT, JsonClient, put_frames, returned, table

from .usage import wait_idle

ROWS = [{"id": 1, "name": "one"}, {"id": 2, "name": "two"}, {"id": 3, "name": None}]
INSERT = {"operation": "insert", "schema_name": "sales", "table_name": "orders"}


@pytest.fixture
def sales(plain: Flight) -> JsonClient:
    """Return a client of a server with a table `sales.orders` of three rows."""
    json_client = JsonClient(plain)
    json_client.json("CreateSchema", schema_name="sales")
    json_client.create_table("sales", "orders", {**INT, "nullable": False}, TEXT)
    json_client.insert("sales", "orders", table([1, 2, 3], ["one", "two", None]))
    return json_client


def test_insert_answers_with_the_count(sales: JsonClient) -> None:
    """An INSERT answers with exactly status, affected_rows and returning_data."""
    answer = sales.insert("sales", "orders", table([4, 5], ["four", None]))

    assert answer == {"status": "success", "affected_rows": 2, "returning_data": None}
    assert sales.rows("sales", "orders") == [*ROWS, {"id": 4, "name": "four"}, {"id": 5, "name": None}]


def test_insert_returns_the_rows_as_stored(sales: JsonClient) -> None:
    """RETURNING gives the rows in the table's columns and order, without the row id."""
    swapped = table([4], ["four"]).select(["name", "id"])
    answer = sales.insert("sales", "orders", swapped, returning=True)

    assert answer["affected_rows"] == 1
    assert returned(answer) == [{"id": 4, "name": "four"}]
    assert pa.ipc.open_stream(answer["returning_data"]).schema.names == ["id", "name"]


def test_several_batches_are_one_change(sales: JsonClient) -> None:
    """All batches of a call make one version of the table."""
    many = pa.concat_tables([table([n], [str(n)]) for n in range(4, 54)])
    before = newest_version(sales)
    answer = sales.insert("sales", "orders", many, returning=True)

    assert answer["affected_rows"] == 50
    assert len(returned(answer)) == 50
    assert newest_version(sales) == before + 1


def test_bad_batch_takes_the_good_ones_with_it(sales: JsonClient) -> None:
    """A call whose last batch breaks a rule changes nothing at all."""
    rows = pa.concat_tables([table([4], ["four"]), table([None], ["five"])])

    assert refusal(lambda: sales.insert("sales", "orders", rows)) == (
        "INVALID_ARGUMENT",
        "NOT NULL constraint of table 'orders' failed in column 'id'",
    )
    assert sales.rows("sales", "orders") == ROWS


def test_no_rows_are_fine(sales: JsonClient) -> None:
    """A call without rows succeeds, with or without a batch."""
    nothing = table([], [])

    assert sales.insert("sales", "orders", nothing)["affected_rows"] == 0
    answer = sales.insert("sales", "orders", nothing, returning=True)
    assert (answer["affected_rows"], returned(answer)) == (0, [])
    assert pa.ipc.open_stream(answer["returning_data"]).schema.names == ["id", "name"]


def test_descriptor_may_come_alone(sales: JsonClient) -> None:
    """The descriptor may come with the schema or in a message before it."""
    (answer,) = sales.put_frames(put_frames(INSERT, table([4], ["four"]), descriptor_alone=True))

    assert answer["affected_rows"] == 1


def test_columns_are_matched_by_name(sales: JsonClient) -> None:
    """Columns in another order land where their names say."""
    sales.insert("sales", "orders", table([4], ["four"]).select(["name", "id"]))

    assert sales.rows("sales", "orders")[-1] == {"id": 4, "name": "four"}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (pa.table({"id": [4]}), "column mismatch: table has 2 columns, input has 1"),
        (
            pa.table({"id": [4], "name": ["x"], "more": [1]}),
            "column mismatch: table has 2 columns, input has 3",
        ),
        (pa.table({"id": [4], "nam": ["x"]}), "column 'name' is missing in the input"),
        (pa.table({"id": ["4"], "name": ["x"]}), "column 'id' has type int64, input has string"),
        (
            pa.table({"id": pa.array([4], pa.int32()), "name": ["x"]}),
            "column 'id' has type int64, input has int32",
        ),
    ],
)
def test_other_columns_are_refused(sales: JsonClient, rows: pa.Table, message: str) -> None:
    """Input with other columns than the table's is INVALID_ARGUMENT and says how it differs."""
    expected = ("INVALID_ARGUMENT", f"schema mismatch: {message}")
    row_id = sales.ids("sales", "orders")[0]

    assert refusal(lambda: sales.insert("sales", "orders", rows)) == expected
    assert refusal(lambda: sales.update("sales", "orders", [row_id], rows)) == expected
    assert sales.rows("sales", "orders") == ROWS


def test_row_id_is_not_an_input_column(sales: JsonClient) -> None:
    """The row id of a scan does not belong into the input."""
    rows = pa.table({"id": [4], "name": ["x"], "rowid": [9]})

    assert refusal(lambda: sales.insert("sales", "orders", rows)) == (
        "INVALID_ARGUMENT",
        "schema mismatch: column mismatch: table has 2 columns, input has 3",
    )


@pytest.mark.parametrize(
    ("schema", "name", "message"),
    [
        ("nowhere", "orders", "schema 'nowhere' not found"),
        ("sales", "nothing", "table 'sales.nothing' not found"),
        ("sales", "order", "table 'sales.order' not found. Did you mean 'orders'?"),
    ],
)
def test_missing_table_is_not_found(sales: JsonClient, schema: str, name: str, message: str) -> None:
    """A statement on what is not there is NOT_FOUND by name."""
    rows = table([4], ["four"])
    expected = ("NOT_FOUND", message)

    assert refusal(lambda: sales.insert(schema, name, rows)) == expected
    assert refusal(lambda: sales.update(schema, name, [1], rows)) == expected
    assert refusal(lambda: sales.delete(schema, name, [1])) == expected


def test_update_replaces_rows_by_position(sales: JsonClient) -> None:
    """The first id gets the first row, whatever the order of the ids."""
    first, _, third = sales.ids("sales", "orders")
    answer = sales.update(
        "sales", "orders", [third, first], table([30, 10], ["thirty", None]), returning=True
    )

    assert answer["affected_rows"] == 2
    assert returned(answer) == [{"id": 30, "name": "thirty"}, {"id": 10, "name": None}]
    assert sales.rows("sales", "orders") == [
        {"id": 10, "name": None},
        {"id": 2, "name": "two"},
        {"id": 30, "name": "thirty"},
    ]


def test_update_spans_batches(sales: JsonClient) -> None:
    """Ids go on over the batches of a call."""
    rows = pa.concat_tables([table([7], ["a"]), table([8, 9], ["b", "c"])])

    assert sales.update("sales", "orders", sales.ids("sales", "orders"), rows)["affected_rows"] == 3
    assert [row["id"] for row in sales.rows("sales", "orders")] == [7, 8, 9]


def test_row_ids_survive(sales: JsonClient) -> None:
    """A row keeps its id through updates and through changes to other rows; none is used twice."""
    first, second, third = sales.ids("sales", "orders")
    sales.delete("sales", "orders", [first])
    sales.update("sales", "orders", [second], table([20], ["x"]))
    sales.insert("sales", "orders", table([4], ["four"]))
    *kept, fourth = sales.ids("sales", "orders")

    assert kept == [second, third]
    assert fourth not in {first, second, third}


@pytest.mark.parametrize(
    ("row_ids", "rows", "code", "message"),
    [
        ([], table([1], ["a"]), "INVALID_ARGUMENT", "row_ids cannot be empty for UPDATE"),
        (
            [0, 1, 2],
            table([1, 2], ["a", "b"]),
            "INVALID_ARGUMENT",
            "row_ids count (3) does not match input rows (2)",
        ),
        (
            [0],
            table([1, 2], ["a", "b"]),
            "INVALID_ARGUMENT",
            "row_ids count (1) does not match input rows (2)",
        ),
        ([0], table([], []), "INVALID_ARGUMENT", "row_ids count (1) does not match input rows (0)"),
        ([0, 99], table([1, 2], ["a", "b"]), "NOT_FOUND", "row_id 99 not found in table"),
        ([-1], table([1], ["a"]), "NOT_FOUND", "row_id -1 not found in table"),
        ([0, 0], table([1, 2], ["a", "b"]), "INVALID_ARGUMENT", "row_ids has a duplicate id"),
        (
            [0],
            table([None], ["a"]),
            "INVALID_ARGUMENT",
            "NOT NULL constraint of table 'orders' failed in column 'id'",
        ),
    ],
)
def test_bad_update_changes_nothing(
    sales: JsonClient, row_ids: list[int], rows: pa.Table, code: str, message: str
) -> None:
    """Each reason to refuse an UPDATE has its code and message, and no row is changed."""
    assert sales.ids("sales", "orders") == [0, 1, 2]
    assert refusal(lambda: sales.update("sales", "orders", row_ids, rows)) == (code, message)
    assert sales.rows("sales", "orders") == ROWS


def test_delete_reports_the_true_count(sales: JsonClient) -> None:
    """DELETE ignores ids that are not there and counts those that were."""
    first, second, _ = sales.ids("sales", "orders")

    assert sales.delete("sales", "orders", [first, 99, -5]) == {"status": "success", "affected_rows": 1}
    assert sales.delete("sales", "orders", [first]) == {"status": "success", "affected_rows": 0}
    assert sales.delete("sales", "orders", [second], returning=False)["affected_rows"] == 1
    assert sales.rows("sales", "orders") == ROWS[2:]


def test_delete_returns_what_it_removed(sales: JsonClient) -> None:
    """RETURNING of a DELETE is base64 of an Arrow stream with the rows as they were."""
    first, _, third = sales.ids("sales", "orders")
    answer = sales.delete("sales", "orders", [third, 99, first], returning=True)
    rows = pa.ipc.open_stream(base64.b64decode(answer.pop("returning_data"))).read_all()

    assert answer == {"status": "success", "affected_rows": 2}
    assert rows.to_pylist() == [ROWS[2], ROWS[0]]


def test_delete_of_nothing_returns_nothing(sales: JsonClient) -> None:
    """RETURNING without any row is a stream without rows, with the table's columns."""
    answer = sales.delete("sales", "orders", [99], returning=True)
    rows = pa.ipc.open_stream(base64.b64decode(answer["returning_data"])).read_all()

    assert (answer["affected_rows"], rows.num_rows, rows.column_names) == (0, 0, ["id", "name"])


@pytest.mark.parametrize(
    ("row_ids", "message"),
    [
        ([], "row_ids cannot be empty for DELETE"),
        ([1, 1], "row_ids has a duplicate id"),
        ([1 << 63], "a row id must be a 64-bit integer"),
    ],
)
def test_bad_delete_changes_nothing(sales: JsonClient, row_ids: list[int], message: str) -> None:
    """Each reason to refuse a DELETE is INVALID_ARGUMENT, and no row goes."""
    assert refusal(lambda: sales.delete("sales", "orders", row_ids)) == ("INVALID_ARGUMENT", message)
    assert sales.rows("sales", "orders") == ROWS


def test_constraints_of_the_other_dialect_hold(client: Flight, sales: JsonClient) -> None:
    """Unique and check constraints from msgpack's create_table hold for JSON's INSERT and UPDATE."""
    schema = pa.schema([("id", pa.int64()), ("name", pa.string())])
    client.create_table(
        "db1", "sales", "strict", schema, unique_constraints=[0], check_constraints=["id > 0"]
    )
    sales.insert("sales", "strict", table([1, 2], ["a", "b"]))
    first, _ = sales.ids("sales", "strict")

    for attempt in (
        lambda: sales.insert("sales", "strict", table([2], ["c"])),
        lambda: sales.update("sales", "strict", [first], table([2], ["c"])),
    ):
        code, message = refusal(attempt)
        assert code == "INVALID_ARGUMENT"
        assert message.startswith("UNIQUE constraint of table 'strict' failed in column 'id'")
    code, message = refusal(lambda: sales.update("sales", "strict", [first], table([-1], ["c"])))
    assert code == "INVALID_ARGUMENT"
    assert message.startswith("CHECK (")
    assert sales.rows("sales", "strict") == [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]


@pytest.mark.parametrize(
    "frames",
    [
        [],
        [frame(header=schema_header(table([], []).schema))],
        [frame(descriptor=path_descriptor("sales", "orders"))],
        [frame(descriptor=cmd_descriptor("sales.orders"))],
        [frame(descriptor=cmd_descriptor(""))],
        [frame(descriptor=cmd_descriptor("{}"))],
        [frame(descriptor=cmd_descriptor(json.dumps({**INSERT, "operation": "merge"})))],
        [frame(descriptor=cmd_descriptor(json.dumps({**INSERT, "returning": 1})))],
        [frame(descriptor=cmd_descriptor(json.dumps(INSERT) + "x"))],
        [frame(descriptor=cmd_descriptor(json.dumps(INSERT)))],
        [frame(descriptor=cmd_descriptor(json.dumps(INSERT)), header=b"garbage")],
        [frame(descriptor=cmd_descriptor(json.dumps(INSERT))), *batch_frames(table([4], ["x"]))],
    ],
)
def test_malformed_put_is_invalid(sales: JsonClient, frames: list[bytes]) -> None:
    """A DoPut without a descriptor, a command or a schema is INVALID_ARGUMENT."""
    code, message = refusal(lambda: sales.put_frames(frames))

    assert code == "INVALID_ARGUMENT"
    assert message
    assert sales.rows("sales", "orders") == ROWS


def test_large_batches_are_taken(sales: JsonClient) -> None:
    """A batch of 16 MiB and a stream of several go in and come back."""
    sales.create_table("sales", "large", {"name": "data", "type": "binary"})
    batch = pa.table({"data": pa.array([bytes([n]) * (1 << 20) for n in range(16)], pa.binary())})
    rows = pa.concat_tables([batch] * 3)

    assert sales.insert("sales", "large", rows)["affected_rows"] == 48
    assert (
        sales.scan("sales", "large").column("data").combine_chunks() == rows.column("data").combine_chunks()
    )


class Paused:
    """A DoPut that has sent its rows and waits."""

    def __init__(self, json_client: JsonClient, rows: pa.Table) -> None:
        self._frames: queue.Queue[bytes | None] = queue.Queue()
        flight = json_client.flight
        call: Callable[..., Any] = flight.channel.stream_stream(SERVICE + "DoPut")
        headers = (*flight.headers, *json_client.headers)
        self.call = call(iter(self._frames.get, None), metadata=headers, timeout=20)
        for data in put_frames(INSERT, rows):
            self._frames.put(data)

    def finish(self) -> None:
        """Say that nothing more comes."""
        self._frames.put(None)


def test_cancel_leaves_nothing(server: sparkport.Server, sales: JsonClient) -> None:
    """A call that is cancelled in the middle of its rows changes nothing."""
    put = Paused(sales, table([4], ["four"]))
    time.sleep(0.1)
    put.call.cancel()
    put.finish()
    wait_idle(server, sales.flight)

    assert sales.rows("sales", "orders") == ROWS


def test_hang_up_leaves_nothing(server: sparkport.Server, sales: JsonClient) -> None:
    """A connection that breaks in the middle of the rows changes nothing."""
    with Flight(server.location, "secret-token", airport=False) as other:
        put = Paused(JsonClient(other), table([4], ["four"]))
        time.sleep(0.1)
        other.channel.close()
        put.finish()
    wait_idle(server, sales.flight)

    assert sales.rows("sales", "orders") == ROWS


def test_cancel_that_looks_like_an_end_leaves_all_or_nothing(
    server: sparkport.Server, sales: JsonClient
) -> None:
    """A cancel right after the last row either comes too late or leaves nothing, never a part."""
    rows = pa.concat_tables([table([4], ["four"]), table([5], ["five"])])
    for _ in range(30):
        put = Paused(sales, rows)
        put.finish()
        put.call.cancel()
    wait_idle(server, sales.flight)
    found = sales.rows("sales", "orders")

    assert found[:3] == ROWS
    assert (len(found) - 3) % 2 == 0


def test_deadline_in_the_middle_leaves_nothing(sales: JsonClient) -> None:
    """A call whose time is up before its last row changes nothing."""
    frames: queue.Queue[bytes | None] = queue.Queue()
    call: Callable[..., Iterable[bytes]] = sales.flight.channel.stream_stream(SERVICE + "DoPut")
    answers = call(iter(frames.get, None), metadata=tuple(sales.flight.headers), timeout=0.3)
    for data in put_frames(INSERT, table([4], ["four"])):
        frames.put(data)

    assert refusal(lambda: list(answers))[0] == "DEADLINE_EXCEEDED"
    frames.put(None)
    assert sales.rows("sales", "orders") == ROWS


def test_concurrent_inserts_all_arrive(sales: JsonClient) -> None:
    """Statements from many threads are all kept, each whole."""

    def insert(worker: int) -> None:
        for n in range(5):
            number = 100 + worker * 10 + n
            sales.insert("sales", "orders", table([number, -number], ["x", "x"]))

    threads = [threading.Thread(target=insert, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = [row["id"] for row in sales.rows("sales", "orders")][3:]

    assert len(found) == 40
    assert found[::2] == [-n for n in found[1::2]]


def newest_version(json_client: JsonClient) -> int:
    """Return the newest version of `sales.orders`."""
    number = 0
    while True:
        point = {"unit": "version", "value": str(number + 1)}
        body = {"schema": "sales", "table": "orders", "time_point": point}
        try:
            json_client.flight.action("endpoints", body)
        except grpc.RpcError:
            return number
        number += 1


def test_deepest_types_make_the_whole_way(sales: JsonClient) -> None:
    """A column of 64 levels is made, filled and read; one level more is refused in both dialects."""
    kind = pa.int8()
    for _ in range(63):
        kind = pa.list_(kind)
    deep = {"name": "v", "type": str(kind)}
    deeper = {"name": "v", "type": f"list<item: {kind}>"}
    refused = ("RESOURCE_EXHAUSTED", "types nest at most 64 levels deep")
    value: Any = 7
    for _ in range(63):
        value = [value]
    sales.create_table("sales", "deep", deep)
    sales.insert("sales", "deep", pa.table([pa.array([value], kind)], names=["v"]))

    assert sales.rows("sales", "deep") == [{"v": value}]
    assert refusal(lambda: sales.create_table("sales", "deeper", deeper)) == refused
    columns = pa.schema([("v", pa.list_(kind))])
    assert refusal(lambda: sales.flight.create_table("db1", "sales", "deeper", columns)) == refused


class Ledger:
    """A table of a user: takes rows, but names none of them."""

    name = "ledger"
    comment = ""
    arrow_schema = pa.schema([("n", pa.int64())])

    def __init__(self) -> None:
        self.rows: list[int] = []

    def scan(self, call: Call, options: ScanOptions) -> pa.RecordBatchReader:
        """Return the rows."""
        del call, options
        return pa.table([self.rows], schema=self.arrow_schema).to_reader()

    def insert(self, call: Call, rows: pa.RecordBatchReader, *, returning: bool = False) -> DMLResult:
        """Take rows."""
        del call
        added = rows.read_all()
        self.rows += added.column("n").to_pylist()
        return DMLResult(added.num_rows, added.to_reader() if returning else None)


class Numbered(Ledger):
    """A table with row ids that can do nothing with them."""

    name = "numbered"
    arrow_schema = pa.schema([pa.field("n", pa.int64()), rowid_field()])


@pytest.fixture
def simple() -> Iterator[JsonClient]:
    """Return a client of a server with simple tables of a user."""
    builder = CatalogBuilder().schema("s").table("static", pa.table({"n": [1]}))
    catalog = builder.table("ledger", Ledger()).table("numbered", Numbered()).build()
    with (
        sparkport.Server(catalog, port=0, authenticate=False, grace_seconds=0.2) as server,
        Flight(server.location, None, airport=False) as flight,
    ):
        yield JsonClient(flight)


def test_read_only_table_refuses_every_statement(simple: JsonClient) -> None:
    """What a table cannot do is FAILED_PRECONDITION with the table and the statement."""
    rows = pa.table({"n": [1]})

    assert refusal(lambda: simple.insert("s", "static", rows)) == (
        "FAILED_PRECONDITION",
        "table 'static' does not support INSERT operations",
    )
    assert refusal(lambda: simple.update("s", "static", [1], rows)) == (
        "FAILED_PRECONDITION",
        "table 'static' does not support UPDATE (no rowid)",
    )
    assert refusal(lambda: simple.delete("s", "static", [1])) == (
        "FAILED_PRECONDITION",
        "table 'static' does not support DELETE (no rowid)",
    )
    assert refusal(lambda: simple.update("s", "numbered", [1], rows)) == (
        "FAILED_PRECONDITION",
        "table 'numbered' does not support UPDATE (no rowid)",
    )
    assert refusal(lambda: simple.delete("s", "numbered", [1])) == (
        "FAILED_PRECONDITION",
        "table 'numbered' does not support DELETE (no rowid)",
    )


def test_simple_table_takes_rows(simple: JsonClient) -> None:
    """A table with nothing but `insert` works with several batches and with RETURNING."""
    batches: Sequence[pa.Table] = [pa.table({"n": [1]}), pa.table({"n": [2, 3]})]
    rows = pa.concat_tables(batches)

    assert simple.insert("s", "ledger", rows)["affected_rows"] == 3
    assert returned(simple.insert("s", "ledger", rows, returning=True)) == [{"n": 1}, {"n": 2}, {"n": 3}]
    assert simple.scan("s", "ledger").column("n").to_pylist() == [1, 2, 3, 1, 2, 3]
