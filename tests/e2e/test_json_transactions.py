"""Transactions of the JSON dialect over raw gRPC."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import msgspec
import pyarrow as pa
import pytest

import sparkport
from sparkport.app.overlay import overlay
from sparkport.catalog import Call, DMLResult, ScanOptions
from sparkport.flight.context import ServerContext
from sparkport.flight.transport.auth import BearerTokens
from sparkport.flight.transport.limits import ServerLimits
from sparkport.flight.transport.server import GrpcServer
from sparkport.memory import MemoryCatalog
from sparkport.toolkit.registry import Catalogs
from sparkport.toolkit.static import StaticCatalog, StaticSchema
from tests.flight_client import SERVICE, Flight, path_descriptor, refusal, table_of
from tests.json_client import INT, TEXT, JsonClient, put_frames, table

from .usage import eventually

HEADERS = ["x-transaction-id", "airport-transaction-id"]
ENDINGS = {"commit_transaction": "committed", "rollback_transaction": "aborted"}


@pytest.fixture
def sales(plain: Flight) -> JsonClient:
    """Return a client of a server with tables `orders` and `stock` of one row each."""
    json_client = JsonClient(plain)
    json_client.json("CreateSchema", schema_name="sales")
    for name in ("orders", "stock"):
        json_client.create_table("sales", name, INT, TEXT)
        json_client.insert("sales", name, table([1], ["one"]))
    return json_client


def numbers(json_client: JsonClient, name: str = "orders") -> list[int]:
    """Return the ids in a table."""
    return [row["id"] for row in json_client.rows("sales", name)]


def not_active(transaction_id: str, state: str) -> tuple[str, str]:
    """Return how a finished transaction is refused."""
    return "FAILED_PRECONDITION", f"transaction {transaction_id} is not active (state: {state})"


def uses(json_client: JsonClient) -> dict[str, Callable[[], object]]:
    """Return every kind of call that a transaction id may go with."""
    return {
        "insert": lambda: json_client.insert("sales", "orders", table([9], ["x"])),
        "update": lambda: json_client.update("sales", "orders", [0], table([9], ["x"])),
        "delete": lambda: json_client.delete("sales", "orders", [0]),
        "scan": lambda: json_client.scan("sales", "orders"),
        "endpoints": lambda: json_client.flight.action(
            "endpoints", {"schema": "sales", "table": "orders"}, json_client.headers
        ),
        "CreateSchema": lambda: json_client.json("CreateSchema", schema_name="x"),
        "DropSchema": lambda: json_client.json("DropSchema", schema_name="sales", cascade=True),
        "CreateTable": lambda: json_client.create_table("sales", "x", INT),
        "DropTable": lambda: json_client.json("DropTable", schema_name="sales", table_name="orders"),
        "AlterTableAddColumn": lambda: json_client.json(
            "AlterTableAddColumn",
            schema_name="sales",
            table_name="orders",
            column={"name": "x", "type": "int8"},
        ),
        "AlterTableDropColumn": lambda: json_client.json(
            "AlterTableDropColumn", schema_name="sales", table_name="orders", column_name="name"
        ),
    }


USES = list(uses(JsonClient.__new__(JsonClient)))


@pytest.mark.parametrize("body", [b"", b"{}", b'{"auto_commit": true}', b'{"auto_commit": false}'])
def test_transaction_begins_active(sales: JsonClient, body: bytes) -> None:
    """create_transaction answers with a new id each time, whose state is active."""
    first, second = (sales.raw("create_transaction", body) for _ in range(2))

    assert set(first) == {"status", "transaction_id"}
    assert first["status"] == "success"
    assert first["transaction_id"] != second["transaction_id"]
    assert sales.json("get_transaction_status", transaction_id=first["transaction_id"]) == {
        "status": "success",
        "transaction_id": first["transaction_id"],
        "state": "active",
    }


@pytest.mark.parametrize("action", ENDINGS)
@pytest.mark.parametrize("auto_commit", [True, False])
def test_transaction_ends_once_and_for_all(sales: JsonClient, action: str, auto_commit: bool) -> None:
    """Ending it again the same way is fine, ending it the other way is refused with its id."""
    transaction = sales.begin(auto_commit=auto_commit)
    ended = {"status": "success", "transaction_id": transaction, "state": ENDINGS[action]}
    (other,) = set(ENDINGS) - {action}

    for _ in range(3):
        assert sales.json(action, transaction_id=transaction) == ended
    assert sales.json("get_transaction_status", transaction_id=transaction) == ended
    assert refusal(lambda: sales.json(other, transaction_id=transaction)) == not_active(
        transaction, ENDINGS[action]
    )


@pytest.mark.parametrize("action", ["get_transaction_status", *ENDINGS])
def test_unknown_transaction_is_not_found(sales: JsonClient, action: str) -> None:
    """An id that was never handed out is NOT_FOUND."""
    assert refusal(lambda: sales.json(action, transaction_id="no such")) == (
        "NOT_FOUND",
        "transaction 'no such' not found",
    )
    for body in (b"", b"{}", b'{"transaction_id": null}', b'{"transaction_id": 1}', b"[]"):
        assert refusal(lambda body=body: sales.raw(action, body))[0] == "INVALID_ARGUMENT"  # type: ignore[misc]


@pytest.mark.parametrize("header", HEADERS)
def test_success_commits_by_itself(sales: JsonClient, header: str) -> None:
    """By default a statement that succeeds commits its transaction."""
    transaction = sales.begin(auto_commit=True)
    own = sales.within(transaction, header)
    assert own.insert("sales", "orders", table([2], ["two"]))["affected_rows"] == 1

    assert sales.state(transaction) == "committed"
    assert numbers(sales) == [1, 2]
    assert refusal(lambda: own.insert("sales", "orders", table([3], ["x"]))) == not_active(
        transaction, "committed"
    )
    assert sales.json("commit_transaction", transaction_id=transaction)["state"] == "committed"


def test_one_of_many_statements_gets_the_transaction(sales: JsonClient) -> None:
    """Of statements that run at once with one id exactly one is kept; the others find it committed."""
    transaction = sales.begin(auto_commit=True)
    own = sales.within(transaction)
    command = {"operation": "insert", "schema_name": "sales", "table_name": "orders"}
    ready = threading.Barrier(6)
    codes: list[str] = []

    def frames(number: int) -> Iterator[bytes]:
        yield from put_frames(command, table([number], ["x"]))
        time.sleep(0.1)
        ready.wait(10)

    def insert(number: int) -> None:
        try:
            own.put_frames(frames(number))
        except grpc.RpcError as error:
            codes.append(error.code().name)

    threads = [threading.Thread(target=insert, args=(10 + number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert codes == ["FAILED_PRECONDITION"] * 5
    assert len(numbers(sales)) == 2
    assert sales.state(transaction) == "committed"


def test_exchange_takes_part(client: Flight, sales: JsonClient) -> None:
    """A statement of the Airport dialect obeys the transaction of this one."""
    staged, single = sales.begin(auto_commit=False), sales.begin(auto_commit=True)
    descriptor = path_descriptor("db1", "sales", "orders")
    client.insert(descriptor, table([2], ["x"]), headers=[("airport-transaction-id", staged)])
    client.insert(descriptor, table([3], ["x"]), headers=[("airport-transaction-id", single)])

    assert numbers(sales) == [1, 3]
    assert (sales.state(staged), sales.state(single)) == ("active", "committed")
    sales.json("commit_transaction", transaction_id=staged)
    assert numbers(sales) == [1, 3, 2]


def test_reading_does_not_end_a_transaction(sales: JsonClient) -> None:
    """Reads leave a transaction active, and see the moment of its beginning."""
    transaction = sales.begin(auto_commit=True)
    own = sales.within(transaction)
    sales.insert("sales", "orders", table([2], ["two"]))

    assert numbers(own) == [1]
    assert sales.state(transaction) == "active"


@pytest.mark.parametrize(
    "attempt",
    [
        lambda own: own.insert("sales", "nothing", table([1], ["x"])),
        lambda own: own.insert("nowhere", "orders", table([1], ["x"])),
        lambda own: own.insert("sales", "orders", pa.table({"id": [1]})),
        lambda own: own.update("sales", "orders", [99], table([1], ["x"])),
        lambda own: own.update("sales", "orders", [], table([1], ["x"])),
        lambda own: own.put_frames([]),
        lambda own: own.delete("sales", "nothing", [1]),
        lambda own: own.delete("sales", "orders", []),
        lambda own: own.raw("delete", b"{"),
    ],
)
def test_failure_aborts_by_itself(sales: JsonClient, attempt: Callable[[JsonClient], object]) -> None:
    """By default a statement that fails, for whatever reason, aborts its transaction."""
    transaction = sales.begin(auto_commit=True)
    own = sales.within(transaction)
    code, _ = refusal(lambda: attempt(own))

    assert code in {"NOT_FOUND", "INVALID_ARGUMENT"}
    assert sales.state(transaction) == "aborted"
    assert refusal(lambda: attempt(own)) == not_active(transaction, "aborted")


@pytest.mark.parametrize("header", HEADERS)
def test_calls_of_a_staged_transaction_belong_together(sales: JsonClient, header: str) -> None:
    """With auto_commit false the writes are seen with the same id only, until the commit."""
    transaction = sales.begin(auto_commit=False)
    own = sales.within(transaction, header)
    own.insert("sales", "orders", table([2, 3], ["two", "three"]))
    ids = own.ids("sales", "orders")
    own.update("sales", "orders", [ids[1]], table([20], ["twenty"]))
    assert own.delete("sales", "orders", [ids[0], ids[2]])["affected_rows"] == 2
    own.insert("sales", "stock", table([7], ["seven"]))

    assert (numbers(own), numbers(own, "stock")) == ([20], [1, 7])
    assert (numbers(sales), numbers(sales, "stock")) == ([1], [1])
    assert sales.state(transaction) == "active"
    sales.json("commit_transaction", transaction_id=transaction)
    assert (numbers(sales), numbers(sales, "stock")) == ([20], [1, 7])
    assert sales.ids("sales", "orders") == [ids[1]]


def test_rollback_drops_what_was_staged(sales: JsonClient) -> None:
    """After a rollback nothing is left of a transaction."""
    transaction = sales.begin(auto_commit=False)
    own = sales.within(transaction)
    own.insert("sales", "orders", table([2], ["two"]))
    sales.json("rollback_transaction", transaction_id=transaction)

    assert numbers(sales) == [1]
    assert refusal(lambda: numbers(own)) == not_active(transaction, "aborted")


def test_failed_statement_does_not_end_a_staged_transaction(sales: JsonClient) -> None:
    """With auto_commit false the caller decides what a failure means."""
    transaction = sales.begin(auto_commit=False)
    own = sales.within(transaction)
    own.insert("sales", "orders", table([2], ["two"]))
    assert refusal(lambda: own.update("sales", "orders", [99], table([3], ["x"])))[0] == "NOT_FOUND"
    assert sales.state(transaction) == "active"
    sales.json("commit_transaction", transaction_id=transaction)

    assert numbers(sales) == [1, 2]


def test_loser_is_aborted_with_the_table_named(sales: JsonClient) -> None:
    """Of two transactions that changed the same row the second to commit is ABORTED."""
    (row,) = sales.ids("sales", "orders")
    first, second = sales.begin(auto_commit=False), sales.begin(auto_commit=False)
    sales.within(first).update("sales", "orders", [row], table([10], ["first"]))
    sales.within(second).update("sales", "orders", [row], table([20], ["second"]))
    sales.json("commit_transaction", transaction_id=second)

    assert refusal(lambda: sales.json("commit_transaction", transaction_id=first)) == (
        "ABORTED",
        "conflict on table 'orders': another transaction changed the same rows; run the statement again",
    )
    assert sales.state(first) == "aborted"
    assert numbers(sales) == [20]


@pytest.mark.parametrize("state", ["committed", "aborted"])
@pytest.mark.parametrize("use", USES)
def test_finished_transaction_is_refused_everywhere(sales: JsonClient, state: str, use: str) -> None:
    """Any call with the id of a finished transaction is FAILED_PRECONDITION and changes nothing."""
    transaction = sales.begin(auto_commit=False)
    ending = next(action for action, ended in ENDINGS.items() if ended == state)
    sales.json(ending, transaction_id=transaction)

    assert refusal(uses(sales.within(transaction))[use]) == not_active(transaction, state)
    assert numbers(sales) == [1]


@pytest.mark.parametrize("use", USES)
def test_unknown_transaction_is_refused_everywhere(sales: JsonClient, use: str) -> None:
    """Any call with an unknown id is NOT_FOUND and changes nothing."""
    assert refusal(uses(sales.within("nobody"))[use]) == ("NOT_FOUND", "transaction 'nobody' not found")
    assert numbers(sales) == [1]


@pytest.mark.parametrize("action", ["get_transaction_status", *ENDINGS])
def test_ending_may_carry_the_id_itself(sales: JsonClient, action: str) -> None:
    """A client that sends its id with every call can end the transaction and ask for it afterwards."""
    transaction = sales.begin(auto_commit=False)
    own = sales.within(transaction)
    own.json(action, transaction_id=transaction)

    assert own.json("get_transaction_status", transaction_id=transaction)["status"] == "success"


def test_ddl_takes_effect_at_once(sales: JsonClient) -> None:
    """DDL is no part of a transaction: everybody sees it at once, and a rollback keeps it."""
    transaction = sales.begin(auto_commit=False)
    own = sales.within(transaction)
    own.create_table("sales", "fresh", INT, TEXT)
    own.insert("sales", "fresh", table([1], ["one"]))
    assert numbers(sales, "fresh") == []
    sales.json("rollback_transaction", transaction_id=transaction)

    assert numbers(sales, "fresh") == []
    assert sales.columns("sales", "fresh").names == ["id", "name", "rowid"]


def test_column_added_meanwhile_is_a_conflict(sales: JsonClient) -> None:
    """Rows that were staged for other columns are ABORTED at the commit."""
    transaction = sales.begin(auto_commit=False)
    sales.within(transaction).insert("sales", "orders", table([2], ["two"]))
    column = {"name": "x", "type": "int8"}
    sales.json("AlterTableAddColumn", schema_name="sales", table_name="orders", column=column)

    assert refusal(lambda: sales.json("commit_transaction", transaction_id=transaction)) == (
        "ABORTED",
        "conflict on table 'orders': its columns were altered meanwhile; run the statement again",
    )


def test_table_dropped_meanwhile_is_not_found(sales: JsonClient) -> None:
    """A commit to a table that is gone is NOT_FOUND, and nothing else of it is kept."""
    transaction = sales.begin(auto_commit=False)
    own = sales.within(transaction)
    own.insert("sales", "orders", table([2], ["two"]))
    own.insert("sales", "stock", table([2], ["two"]))
    sales.json("DropTable", schema_name="sales", table_name="orders")

    assert refusal(lambda: sales.json("commit_transaction", transaction_id=transaction)) == (
        "NOT_FOUND",
        "table 'sales.orders' not found",
    )
    assert numbers(sales, "stock") == [1]
    assert sales.state(transaction) == "aborted"


def test_ticket_of_a_staged_state_ends_with_its_transaction(sales: JsonClient) -> None:
    """A ticket got within a transaction reads the rows of that moment, until the transaction ends."""
    transaction = sales.begin(auto_commit=False)
    own = sales.within(transaction)
    own.insert("sales", "orders", table([2], ["two"]))
    info = own.info("sales", "orders")
    (ticket,) = [endpoint.ticket.ticket for endpoint in info.endpoint]
    own.insert("sales", "orders", table([3], ["three"]))

    assert info.total_records == 2
    assert table_of(own.flight.get(ticket, own.headers)).column("id").to_pylist() == [1, 2]
    assert table_of(sales.flight.get(ticket)).column("id").to_pylist() == [1, 2]
    sales.json("rollback_transaction", transaction_id=transaction)
    assert refusal(lambda: sales.flight.get(ticket)) == not_active(transaction, "aborted")


def test_concurrent_statements_of_one_transaction_all_count(sales: JsonClient) -> None:
    """Calls of one transaction may run at the same time; none is lost."""
    transaction = sales.begin(auto_commit=False)
    own = sales.within(transaction)
    threads = [
        threading.Thread(target=own.insert, args=("sales", "orders", table([10 + n], ["x"])))
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sales.json("commit_transaction", transaction_id=transaction)

    assert sorted(numbers(sales)) == [1, *range(10, 18)]


def test_refused_statement_stages_nothing(sales: JsonClient) -> None:
    """A failed statement of a staged transaction leaves no row behind for the commit."""
    transaction = sales.begin(auto_commit=False)
    own = sales.within(transaction)
    rows = pa.concat_tables([table([2], ["two"]), table([3], ["three"])])
    assert refusal(lambda: own.update("sales", "orders", own.ids("sales", "orders"), rows))[0] == (
        "INVALID_ARGUMENT"
    )
    sales.json("commit_transaction", transaction_id=transaction)

    assert numbers(sales) == [1]


def test_airport_keeps_its_own_kind(client: Flight, sales: JsonClient) -> None:
    """The msgpack form still begins DuckDB's transaction, which many statements may use."""
    (answer,) = client.action("create_transaction", {"catalog_name": "db1"})
    transaction = msgspec.msgpack.decode(answer)["identifier"]
    headers = [("airport-transaction-id", transaction)]
    descriptor = path_descriptor("db1", "sales", "orders")
    for number in (2, 3):
        client.insert(descriptor, table([number], ["x"]), headers=headers)

    assert numbers(sales) == [1, 2, 3]
    assert sales.state(transaction) == "active"


def test_foreign_transaction_is_not_found() -> None:
    """The transaction of one principal does not exist for another."""
    context = ServerContext(Catalogs({"db1": MemoryCatalog()}, default="db1"))
    tokens = BearerTokens({"a": "ann", "b": "bob"})
    server = GrpcServer(context, tokens, "127.0.0.1", 0, ServerLimits())
    server.start()
    try:
        with (
            Flight(server.location, "a", airport=False) as first,
            Flight(server.location, "b", airport=False) as second,
        ):
            ann, bob = JsonClient(first), JsonClient(second)
            transaction = ann.begin(auto_commit=False)
            expected = ("NOT_FOUND", f"transaction '{transaction}' not found")
            attempts: list[Callable[[], object]] = [
                lambda: bob.state(transaction),
                lambda: bob.json("commit_transaction", transaction_id=transaction),
                lambda: bob.json("rollback_transaction", transaction_id=transaction),
                lambda: bob.within(transaction).json("CreateSchema", schema_name="x"),
            ]

            assert [refusal(attempt) for attempt in attempts] == [expected] * 4
            assert ann.state(transaction) == "active"
    finally:
        server.stop(0).wait()


def test_idle_transaction_expires() -> None:
    """A transaction that nobody uses for the configured time is aborted, with what it staged."""
    catalog = MemoryCatalog(transaction_idle_seconds=0.3)
    with (
        sparkport.Server(catalog, port=0, authenticate=False, grace_seconds=0.2) as server,
        Flight(server.location, None, airport=False) as flight,
    ):
        json_client = JsonClient(flight)
        json_client.json("CreateSchema", schema_name="sales")
        json_client.create_table("sales", "orders", INT, TEXT)
        transaction = json_client.begin(auto_commit=False)
        json_client.within(transaction).insert("sales", "orders", table([1], ["x"]))
        time.sleep(0.5)

        assert json_client.state(transaction) == "aborted"
        answer = refusal(lambda: json_client.json("commit_transaction", transaction_id=transaction))
        assert answer == not_active(transaction, "aborted")
        assert numbers(json_client) == []


@pytest.fixture
def bare() -> Iterator[JsonClient]:
    """Return a client of a server without a transaction manager."""
    catalog = sparkport.CatalogBuilder().schema("sales").table("orders", pa.table({"id": [1]})).build()
    with (
        sparkport.Server(catalog, port=0, authenticate=False, grace_seconds=0.2) as server,
        Flight(server.location, None, airport=False) as flight,
    ):
        yield JsonClient(flight)


def test_server_without_manager_says_so(bare: JsonClient) -> None:
    """Without a manager every transaction action is UNIMPLEMENTED with the reason."""
    expected = ("UNIMPLEMENTED", "transaction manager not configured")
    body = json.dumps({"transaction_id": "x"}).encode()

    assert refusal(lambda: bare.raw("create_transaction", b"")) == expected
    for action in ("get_transaction_status", *ENDINGS):
        assert refusal(lambda action=action: bare.raw(action, body)) == expected  # type: ignore[misc]
    own = bare.within("x")
    assert refusal(lambda: own.insert("sales", "orders", pa.table({"id": [2]}))) == expected
    assert refusal(lambda: own.delete("sales", "orders", [1])) == expected
    assert refusal(lambda: own.json("CreateSchema", schema_name="x")) == expected
    assert bare.scan("sales", "orders").to_pylist() == [{"id": 1}]


class SlowTable:
    """Takes rows at once, and answers when whoever sent them is gone."""

    name = "slow"
    comment = ""
    arrow_schema = pa.schema([("id", pa.int64())])

    def __init__(self) -> None:
        self.taken: list[int] = []
        self.has_taken = threading.Event()

    def scan(self, call: Call, options: ScanOptions) -> pa.RecordBatchReader:
        """Return what was taken."""
        del call, options
        return pa.table({"id": pa.array(self.taken, pa.int64())}).to_reader()

    def insert(self, call: Call, rows: pa.RecordBatchReader, *, returning: bool = False) -> DMLResult:
        """Take rows, then wait for the end of the call."""
        del returning
        self.taken += rows.read_all().column("id").to_pylist()
        self.has_taken.set()
        while not call.wait_cancelled(0.01) and (call.remaining() or 1) > 0:
            pass
        return DMLResult(len(self.taken))


@pytest.mark.parametrize("ending", ["cancelled", "late"])
def test_statement_that_was_done_is_committed_whatever_becomes_of_its_client(ending: str) -> None:
    """The state tells what happened: a client who left during the commit finds it committed."""
    slow = SlowTable()
    own = StaticCatalog({"own": StaticSchema("own", {"slow": slow})})
    with (
        sparkport.Server(overlay(MemoryCatalog(), own), port=0, authenticate=False) as server,
        Flight(server.location, None, airport=False) as flight,
    ):
        json_client = JsonClient(flight)
        transaction = json_client.begin(auto_commit=True)
        command = {"operation": "insert", "schema_name": "own", "table_name": "slow"}
        method: Callable[..., Any] = flight.channel.stream_stream(SERVICE + "DoPut")
        put = method(
            put_frames(command, pa.table({"id": [1]})),
            metadata=(("x-transaction-id", transaction),),
            timeout=0.5 if ending == "late" else 30,
        )
        assert slow.has_taken.wait(10)
        if ending == "cancelled":
            put.cancel()
        assert put.code().name == ("DEADLINE_EXCEEDED" if ending == "late" else "CANCELLED")

        assert eventually(lambda: json_client.state(transaction) != "active")
        assert json_client.state(transaction) == "committed"
        assert json_client.scan("own", "slow").to_pylist() == [{"id": 1}]


def test_auto_rollback_aborts_with_the_first_failure(sales: JsonClient) -> None:
    """With `auto_rollback` a statement that fails takes the others of its transaction with it."""
    begun = sales.json("create_transaction", auto_commit=False, auto_rollback=True)["transaction_id"]
    own = sales.within(str(begun))
    own.insert("sales", "orders", table([2], ["two"]))
    with pytest.raises(grpc.RpcError):
        own.update("sales", "orders", [12345], table([9], ["x"]))

    assert sales.state(str(begun)) == "aborted"
    assert numbers(sales) == [1]
