"""The Python client against a real server."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

import sparkport
from sparkport.catalog import Call, ScanOptions, TimePoint, TimeUnit, TransactionState
from sparkport.catalog.lookup import TablePath
from sparkport.client import Client, WriteResult, connect
from sparkport.errors import (
    AlreadyExistsError,
    ConflictError,
    DeadlineExceededError,
    InvalidRequestError,
    NotFoundError,
    NotImplementedByServerError,
    PreconditionError,
    RowNotFoundError,
    SchemaMismatchError,
    SchemaNotEmptyError,
    SparkportError,
    UnauthenticatedError,
    UnavailableError,
)
from sparkport.memory import MemoryCatalog
from sparkport.toolkit import CatalogBuilder
from tests.conftest import TOKEN

COLUMNS = pa.schema([pa.field("item", pa.string(), nullable=False), ("pieces", pa.int32())])
STOCK = pa.table({"item": ["pencil", "ruler"], "pieces": pa.array([10, 5], pa.int32())}, schema=COLUMNS)


@pytest.fixture
def shop(server: sparkport.Server) -> Iterator[Client]:
    """Return a client of a server with a table `sales.stock` of two rows."""
    with connect(server.location, token=TOKEN) as client:
        client.create_schema("sales", comment="A shop")
        client.create_table("sales", "stock", COLUMNS, comment="What is there")
        client.insert("sales", "stock", STOCK)
        yield client


def rows(client: Client, table: str = "stock") -> list[dict[str, object]]:
    """Return the rows of a table without their ids."""
    found: list[dict[str, object]] = (
        client.scan("sales", table).read_all().drop_columns(["rowid"]).to_pylist()
    )
    return found


def pieces(item: str, count: int | None) -> pa.Table:
    """Return one row of stock."""
    return pa.table({"item": [item], "pieces": pa.array([count], pa.int32())}, schema=COLUMNS)


@pytest.mark.parametrize(
    "convert",
    [
        pytest.param(lambda ids: ids, id="ChunkedArray"),
        pytest.param(lambda ids: ids.combine_chunks(), id="Array"),
        pytest.param(lambda ids: ids.to_numpy(), id="NumPy"),
        pytest.param(lambda ids: iter(ids.to_pylist()), id="iterator"),
    ],
)
def test_row_ids_are_taken_as_a_scan_gives_them(shop: Client, convert: Callable[[Any], Any]) -> None:
    """UPDATE and DELETE take row ids from Arrow, NumPy and any iterable of integers."""
    scanned = shop.scan("sales", "stock").read_all()

    shop.update("sales", "stock", convert(scanned.column("rowid").slice(0, 1)), pieces("pen", 1))
    shop.delete("sales", "stock", convert(scanned.column("rowid").slice(1, 1)))

    assert rows(shop) == [{"item": "pen", "pieces": 1}]
    with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
        shop.delete("sales", "stock", pa.array([None, 1]))


def test_tables_are_found_and_described(shop: Client) -> None:
    """The client lists tables by their addresses and tells their columns."""
    assert shop.tables() == [TablePath("db1", "sales", "stock")]
    described = shop.arrow_schema("sales", "stock")
    assert described.names == ["item", "pieces", "rowid"]
    assert not described.field("item").nullable
    assert described.metadata == {b"comment": b"What is there"}


def test_schemas_come_and_go(shop: Client) -> None:
    """DDL of schemas: twice is an error, unless it is told that it may be."""
    shop.create_schema("more")
    with pytest.raises(AlreadyExistsError, match=r"^schema 'more' already exists$"):
        shop.create_schema("more")
    shop.create_schema("more", if_not_exists=True)
    assert shop.drop_schema("more") == 0
    with pytest.raises(NotFoundError, match=r"^schema 'more' not found$"):
        shop.drop_schema("more")
    shop.drop_schema("more", if_exists=True)
    with pytest.raises(PreconditionError, match=r"^schema 'sales' contains tables"):
        shop.drop_schema("sales")
    assert shop.drop_schema("sales", cascade=True) == 1


def test_tables_come_and_go(shop: Client) -> None:
    """DDL of tables and columns."""
    with pytest.raises(AlreadyExistsError):
        shop.create_table("sales", "stock", COLUMNS)
    shop.create_table("sales", "stock", COLUMNS, if_not_exists=True)
    shop.add_column("sales", "stock", pa.field("price", pa.decimal128(10, 2)))
    assert rows(shop)[0] == {"item": "pencil", "pieces": 10, "price": None}
    shop.drop_column("sales", "stock", "price")
    shop.drop_column("sales", "stock", "price", if_exists=True)
    with pytest.raises(NotFoundError):
        shop.drop_column("sales", "stock", "price")
    shop.add_column("sales", "nothing", pa.field("x", pa.int8()), if_exists=True)
    shop.drop_table("sales", "stock")
    shop.drop_table("sales", "stock", if_exists=True)
    assert shop.tables() == []


def test_table_can_be_copied_by_its_columns(shop: Client) -> None:
    """The columns of a table make another one like it."""
    shop.create_table("sales", "copy", shop.arrow_schema("sales", "stock"))
    shop.insert("sales", "copy", shop.scan("sales", "stock").read_all().drop_columns(["rowid"]))

    assert rows(shop, "copy") == rows(shop)


def test_nested_types_with_odd_names_are_made(shop: Client) -> None:
    """Names that Arrow's own text form cannot tell apart arrive as they are."""
    kind = pa.struct([("a: int8, b", pa.list_(pa.int64())), pa.field(">", pa.string(), nullable=False)])
    shop.create_table("sales", "odd", pa.schema([("x<y>", kind)]))
    values = pa.table({"x<y>": pa.array([{"a: int8, b": [1, None], ">": "z"}], kind)})
    shop.insert("sales", "odd", values)

    assert shop.arrow_schema("sales", "odd").field(0).type == kind
    assert rows(shop, "odd") == values.to_pylist()


def test_rows_are_written_from_every_kind_of_rows(shop: Client) -> None:
    """A table, a batch and a reader are all inserted."""
    kinds: list[pa.Table | pa.RecordBatch | pa.RecordBatchReader] = [
        pieces("a", 1),
        pieces("b", 2).to_batches()[0],
        pieces("c", 3).to_reader(),
    ]

    assert [shop.insert("sales", "stock", kind) for kind in kinds] == [WriteResult(1)] * 3
    assert [row["item"] for row in rows(shop)] == ["pencil", "ruler", "a", "b", "c"]


def test_statements_return_rows_when_asked(shop: Client) -> None:
    """INSERT, UPDATE and DELETE answer with the count, and with the rows if they are wanted."""
    inserted = shop.insert("sales", "stock", pieces("compass", 3), returning=True)
    *_, row_id = shop.scan("sales", "stock").read_all().column("rowid").to_pylist()
    updated = shop.update("sales", "stock", [row_id], pieces("compass", 4), returning=True)
    deleted = shop.delete("sales", "stock", [row_id, 999], returning=True)

    for result, count in ((inserted, 3), (updated, 4), (deleted, 4)):
        assert result.affected_rows == 1
        assert result.returning is not None
        assert result.returning.to_pylist() == [{"item": "compass", "pieces": count}]
    assert shop.delete("sales", "stock", [row_id]) == WriteResult(0)


def test_errors_carry_their_data(shop: Client) -> None:
    """What a server's error is about can be read from its attributes, not only from its sentence."""
    with pytest.raises(NotFoundError) as missing:
        shop.scan("sales", "nothing")
    with pytest.raises(RowNotFoundError) as row:
        shop.update("sales", "stock", [999], pieces("x", 1))
    with pytest.raises(AlreadyExistsError) as existing:
        shop.create_schema("sales")
    with pytest.raises(SchemaNotEmptyError) as occupied:
        shop.drop_schema("sales")
    with pytest.raises(SchemaMismatchError) as mismatch:
        shop.insert("sales", "stock", STOCK.select(["item"]))

    assert (missing.value.kind, missing.value.name) == ("table", "sales.nothing")
    assert (row.value.kind, row.value.name) == ("row", "999")
    assert (existing.value.kind, existing.value.name) == ("schema", "sales")
    assert (occupied.value.schema, occupied.value.tables) == ("sales", ("stock",))
    assert mismatch.value.detail == "column mismatch: table has 2 columns, input has 1"


@pytest.mark.parametrize(
    ("attempt", "kind", "message"),
    [
        (
            lambda client: client.insert("sales", "nothing", STOCK),
            NotFoundError,
            "table 'sales.nothing' not found",
        ),
        (
            lambda client: client.insert("sales", "stock", STOCK.select(["item"])),
            InvalidRequestError,
            "schema mismatch: column mismatch: table has 2 columns, input has 1",
        ),
        (
            lambda client: client.update("sales", "stock", [999], pieces("x", 1)),
            NotFoundError,
            "row_id 999 not found in table",
        ),
        (
            lambda client: client.delete("sales", "stock", []),
            InvalidRequestError,
            "row_ids cannot be empty for DELETE",
        ),
        (lambda client: client.scan("sales", "nothing"), NotFoundError, "table 'sales.nothing' not found"),
        (
            lambda client: client.transaction_status("x"),
            NotFoundError,
            "transaction 'x' not found",
        ),
    ],
)
def test_refusals_are_errors_of_the_package(
    shop: Client, attempt: Callable[[Client], object], kind: type[SparkportError], message: str
) -> None:
    """What the server refuses is raised as the package's own class, with the server's text."""
    with pytest.raises(kind) as refused:
        attempt(shop)

    assert str(refused.value) == message
    assert rows(shop) == STOCK.to_pylist()


def test_error_of_the_own_reader_is_raised(shop: Client, caplog: pytest.LogCaptureFixture) -> None:
    """When the rows to insert cannot be read, that reason is raised and nothing is inserted."""

    def broken() -> Iterator[pa.RecordBatch]:
        yield pieces("a", 1).to_batches()[0]
        raise ZeroDivisionError("my own fault")

    with pytest.raises(ZeroDivisionError, match="my own fault"):
        shop.insert("sales", "stock", pa.RecordBatchReader.from_batches(COLUMNS, broken()))
    caplog.clear()  # gRPC logs it too
    assert rows(shop) == STOCK.to_pylist()


def test_earlier_states_are_read(shop: Client) -> None:
    """A scan at a version or time gives the rows of that time."""
    first = shop.scan("sales", "stock", TimePoint(TimeUnit.VERSION, "0")).read_all()

    assert first.num_rows == 0
    assert first.schema.names == ["item", "pieces", "rowid"]
    shop.add_column("sales", "stock", pa.field("price", pa.float64()))
    assert shop.scan("sales", "stock", TimePoint(TimeUnit.VERSION, "1")).schema.names == first.schema.names
    with pytest.raises(InvalidRequestError):
        shop.scan("sales", "stock", TimePoint(TimeUnit.TIMESTAMP, "yesterday"))


def test_transaction_commits_when_its_block_ends(shop: Client) -> None:
    """The calls of a block are seen by themselves first, and by all when the block ends."""
    shop.create_table("sales", "log", pa.schema([("text", pa.string())]))
    with shop.transaction() as own:
        own.insert("sales", "stock", pieces("compass", 3))
        own.insert("sales", "log", pa.table({"text": ["compass came"]}))
        assert len(rows(own)) == 3
        assert len(rows(shop)) == 2
        transaction_id = own.transaction_id

    assert len(rows(shop)) == 3
    assert rows(shop, "log") == [{"text": "compass came"}]
    assert transaction_id is not None
    assert shop.transaction_id is None
    assert shop.transaction_status(transaction_id) is TransactionState.COMMITTED


def _fail_within(client: Client, seen: list[str | None]) -> None:
    with client.transaction() as own:
        seen.append(own.transaction_id)
        own.insert("sales", "stock", pieces("compass", 3))
        raise ZeroDivisionError


def test_exception_rolls_a_transaction_back(shop: Client) -> None:
    """An exception in the block leaves nothing of it, and is raised on."""
    seen: list[str | None] = []
    with pytest.raises(ZeroDivisionError):
        _fail_within(shop, seen)

    assert rows(shop) == STOCK.to_pylist()
    assert shop.transaction_status(str(seen[0])) is TransactionState.ABORTED


def test_rollback_that_fails_does_not_hide_the_reason(catalog: MemoryCatalog) -> None:
    """The exception of the block is raised also when the server is gone by then."""
    server = sparkport.Server(catalog, port=0, authenticate=False, grace_seconds=0).start()

    def run(client: Client) -> None:
        with client.transaction():
            server.stop()
            raise ZeroDivisionError

    with connect(server.location, timeout=5) as client, pytest.raises(ZeroDivisionError):
        run(client)


def test_loser_of_a_conflict_is_told(shop: Client) -> None:
    """Two blocks that change the same row: the second to end raises ConflictError."""
    row_id = shop.scan("sales", "stock").read_all().column("rowid").to_pylist()[0]

    def run() -> None:
        with shop.transaction() as one:
            one.update("sales", "stock", [row_id], pieces("pencil", 1))
            with shop.transaction() as two:
                two.update("sales", "stock", [row_id], pieces("pencil", 2))

    with pytest.raises(ConflictError, match=r"^conflict on table 'stock'"):
        run()
    assert rows(shop)[0]["pieces"] == 2


def test_other_catalog_is_chosen() -> None:
    """A client may work on another catalog than the server's default one."""
    catalogs = {"db1": MemoryCatalog(), "db2": MemoryCatalog()}
    with (
        sparkport.Server(
            catalogs, port=0, authenticate=False, default_catalog="db1", grace_seconds=0.2
        ) as server,
        connect(server.location, catalog="db2") as client,
        connect(server.location) as default,
    ):
        client.create_schema("sales")
        client.create_table("sales", "stock", COLUMNS)
        with client.transaction() as own:
            own.insert("sales", "stock", STOCK)

        assert rows(client) == STOCK.to_pylist()
        assert TablePath("db2", "sales", "stock") in client.tables()
        with pytest.raises(NotFoundError):
            rows(default)


def everything(client: Client) -> list[Callable[[], object]]:
    """Return one call of every kind."""
    return [
        client.tables,
        lambda: client.arrow_schema("sales", "stock"),
        lambda: client.create_schema("x"),
        lambda: client.insert("sales", "stock", STOCK),
        lambda: client.delete("sales", "stock", [0]),
        lambda: client.scan("sales", "stock").read_all(),
        lambda: client.transaction().__enter__(),
    ]


@pytest.mark.parametrize("token", [None, "wrong"])
def test_wrong_token_is_told(server: sparkport.Server, token: str | None) -> None:
    """Every call with a wrong token, or none, raises UnauthenticatedError."""
    with connect(server.location, token=token) as client:
        for attempt in everything(client):
            with pytest.raises(UnauthenticatedError):
                attempt()


def test_unreachable_server_is_told() -> None:
    """Where nobody listens every call raises UnavailableError."""
    with connect("grpc://127.0.0.1:1", timeout=5) as client:
        for attempt in everything(client):
            with pytest.raises(UnavailableError):
                attempt()


def test_server_without_transactions_is_told() -> None:
    """A server without a manager has no transactions to begin."""
    catalog = CatalogBuilder().schema("s").table("t", pa.table({"n": [1]})).build()
    with (
        sparkport.Server(catalog, port=0, authenticate=False, grace_seconds=0.2) as server,
        connect(server.location) as client,
    ):
        with pytest.raises(NotImplementedByServerError, match=r"^transaction manager not configured$"):
            client.transaction().__enter__()
        assert client.scan("s", "t").read_all().to_pylist() == [{"n": 1}]


class Endless:
    """A table that never ends, and knows when its reader has gone."""

    name = "endless"
    comment = ""
    arrow_schema = pa.schema([("n", pa.int64())])

    def __init__(self, pause: float = 0.0) -> None:
        self.pause = pause
        self.over = threading.Event()

    def scan(self, call: Call, options: ScanOptions) -> pa.RecordBatchReader:
        """Return numbers for ever."""
        del options

        def batches() -> Iterator[pa.RecordBatch]:
            try:
                while True:
                    call.check()
                    time.sleep(self.pause)
                    yield pa.record_batch([pa.array(range(200_000), pa.int64())], schema=self.arrow_schema)
            finally:
                self.over.set()

        return pa.RecordBatchReader.from_batches(self.arrow_schema, batches())


def test_reader_that_is_let_go_ends_the_call() -> None:
    """A scan that nobody reads on stops at the server too."""
    table = Endless()
    catalog = CatalogBuilder().schema("s").table("endless", table).build()
    with (
        sparkport.Server(catalog, port=0, authenticate=False, grace_seconds=0.2) as server,
        connect(server.location) as client,
    ):
        reader = client.scan("s", "endless")
        assert reader.read_next_batch().num_rows > 0
        assert not table.over.is_set()
        del reader
        gc.collect()

        assert table.over.wait(10)


def test_time_limit_ends_a_scan() -> None:
    """A scan that takes longer than the client's time-out raises DeadlineExceededError."""
    table = Endless(pause=0.05)
    catalog = CatalogBuilder().schema("s").table("endless", table).build()
    with (
        sparkport.Server(catalog, port=0, authenticate=False, grace_seconds=0.2) as server,
        connect(server.location, timeout=0.5) as client,
    ):
        reader = client.scan("s", "endless")
        with pytest.raises(DeadlineExceededError):
            reader.read_all()

        assert table.over.wait(10)


def test_large_tables_go_both_ways(shop: Client) -> None:
    """A million rows and batches of many megabytes are inserted and read back."""
    numbers = pa.table({"n": pa.array(range(1_000_000), pa.int64())})
    shop.create_table("sales", "numbers", numbers.schema)
    wide = pa.table({"data": pa.array([bytes([n % 256]) * 100_000 for n in range(800)], pa.binary())})
    shop.create_table("sales", "wide", wide.schema)

    assert shop.insert("sales", "numbers", numbers).affected_rows == 1_000_000
    assert shop.insert("sales", "wide", wide).affected_rows == 800
    assert shop.scan("sales", "numbers").read_all().column("n").combine_chunks() == (
        numbers.column("n").combine_chunks()
    )
    found = shop.scan("sales", "wide").read_all().column("data")
    assert pa.concat_arrays(found.chunks) == wide.column("data").combine_chunks()


def test_refusal_in_the_middle_of_a_large_insert_is_told(shop: Client) -> None:
    """A server that refuses early is heard while rows are still being sent."""

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(2000):
            item = None if number == 3 else "x" * 1000
            arrays = [pa.array([item] * 100, pa.string()), pa.array([1] * 100, pa.int32())]
            yield pa.record_batch(arrays, names=["item", "pieces"])

    schema = pa.schema([("item", pa.string()), ("pieces", pa.int32())])
    with pytest.raises(InvalidRequestError, match=r"^NOT NULL constraint"):
        shop.insert("sales", "stock", pa.RecordBatchReader.from_batches(schema, batches()))
    assert rows(shop) == STOCK.to_pylist()


def test_rows_that_others_changed_since_the_scan_are_not_overwritten(
    shop: Client, server: sparkport.Server
) -> None:
    """Of two who read, compute and write, the second is told, and may read again or insist."""
    with connect(server.location, token=TOKEN) as other:
        first, second = shop.scan("sales", "stock").read_all()["rowid"].to_pylist()
        other.scan("sales", "stock").read_all()
        other.update("sales", "stock", [first], pieces("pencil", 9))

        with pytest.raises(ConflictError, match="changed the same rows"):
            shop.update("sales", "stock", [first], pieces("pencil", 8))
        with pytest.raises(ConflictError, match="changed the same rows"):
            shop.delete("sales", "stock", [first, second])
        assert rows(shop)[0]["pieces"] == 9
        shop.update("sales", "stock", [first], pieces("pencil", 7))
        shop.update("sales", "stock", [first], pieces("pencil", 6))
        with pytest.raises(ConflictError):
            other.delete("sales", "stock", [first])
        assert other.delete("sales", "stock", [first], overwrite=True).affected_rows == 1
    assert rows(shop) == [{"item": "ruler", "pieces": 5}]


def test_own_statements_are_no_conflict(shop: Client) -> None:
    """What a client has inserted, or changed before, it may change without reading it again."""
    ids = shop.scan("sales", "stock").read_all()["rowid"].to_pylist()
    shop.insert("sales", "stock", pieces("compass", 1))
    for count in range(3):
        shop.update("sales", "stock", [ids[0]], pieces("pencil", count))
    shop.delete("sales", "stock", ids)

    assert rows(shop) == [{"item": "compass", "pieces": 1}]


def test_transaction_of_one_statement(shop: Client) -> None:
    """With `auto_commit` the statement is checked against what the same block has read, and ends it."""
    with shop.transaction(auto_commit=True) as own:
        first, second = own.scan("sales", "stock").read_all()["rowid"].to_pylist()
        own.update("sales", "stock", [first], pieces("pencil", 1))
        transaction_id = str(own.transaction_id)
        assert shop.transaction_status(transaction_id) is TransactionState.COMMITTED

    def late() -> None:
        with shop.transaction(auto_commit=True) as own:
            own.scan("sales", "stock").read_all()
            shop.update("sales", "stock", [second], pieces("ruler", 2), overwrite=True)
            own.update("sales", "stock", [second], pieces("ruler", 3))

    with pytest.raises(ConflictError):
        late()
    assert [row["pieces"] for row in rows(shop)] == [1, 2]
