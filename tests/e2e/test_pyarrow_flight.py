"""Arrow's own Flight client against the server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.flight as fl
import pytest

import sparkport
from sparkport.catalog import Call, CreateSchemaOptions, CreateTableOptions
from sparkport.memory import MemoryCatalog
from sparkport.toolkit import CatalogBuilder
from tests.conftest import TOKEN

NAMES = pa.array(["a", "b", None, "a"])
SAMPLE = pa.table(
    {
        "flag": pa.array([True, None, False, True]),
        "i8": pa.array([-128, None, 0, 127], pa.int8()),
        "u64": pa.array([2**64 - 1, None, 0, 1], pa.uint64()),
        "f16": pa.array([1.5, None, -2.0, 0.0], pa.float16()),
        "f64": pa.array([float("inf"), None, -0.0, 1e300]),
        "dec": pa.array([Decimal("1.50"), None, Decimal("-0.01"), Decimal(0)], pa.decimal128(10, 2)),
        "dec256": pa.array([Decimal(10) ** 50, None, Decimal(-1), Decimal(0)], pa.decimal256(60, 0)),
        "text": NAMES,
        "large": NAMES.cast(pa.large_string()),
        "blob": pa.array([b"\0\xff", None, b"", b"x"]),
        "fixed": pa.array([b"ab", None, b"cd", b"ef"], pa.binary(2)),
        "day": pa.array([date(1970, 1, 1), None, date(2024, 2, 29), date(1, 1, 1)]),
        "clock": pa.array([time(1, 2, 3, 4), None, time(0), time(23, 59, 59)], pa.time64("us")),
        "ts": pa.array([datetime(2024, 1, 1, tzinfo=UTC)] * 4, pa.timestamp("ms", "UTC")),
        "ns": pa.array([1, None, -1, 2**62], pa.timestamp("ns")),
        "span": pa.array([1, None, -1, 0], pa.duration("s")),
        "list": pa.array([[1, None], None, [], [3]], pa.list_(pa.int32())),
        "pair": pa.array([[1, 2], None, [3, 4], [5, 6]], pa.list_(pa.int32(), 2)),
        "struct": pa.array([{"x": 1, "y": "a"}, None, {"x": None, "y": None}, {"x": 2, "y": "b"}]),
        "map": pa.array([[("k", 1)], None, [], [("a", None)]], pa.map_(pa.string(), pa.int32())),
        "dict": NAMES.dictionary_encode(),
        "nothing": pa.nulls(4),
    }
)


@pytest.fixture
def served(catalog: MemoryCatalog) -> Iterator[sparkport.Server]:
    """Serve a table `sales.orders` that can be written, and fixed ones of many types."""
    call = Call()
    schema = catalog.create_schema(call, "sales", CreateSchemaOptions())
    schema.create_table(
        call, "orders", pa.schema([("id", pa.int64()), ("what", pa.string())]), CreateTableOptions()
    )
    fixed = CatalogBuilder().schema("s").table("types", SAMPLE, comment="Many types").build()
    with sparkport.Server(
        {"db1": catalog, "fixed": fixed}, port=0, token=TOKEN, default_catalog="db1", grace_seconds=0.2
    ) as server:
        yield server


@pytest.fixture
def flight(served: sparkport.Server) -> Iterator[Any]:
    """Connect with Arrow's client."""
    with fl.connect(served.location) as client:
        yield client


@pytest.fixture
def options() -> Any:
    """Carry the token."""
    return fl.FlightCallOptions(headers=[(b"authorization", f"Bearer {TOKEN}".encode())], timeout=20)


def names(infos: Any) -> list[str]:
    """Return the tables of some flights."""
    return sorted(".".join(part.decode() for part in info.descriptor.path) for info in infos)


def test_flights_are_listed(flight: Any, options: Any) -> None:
    """ListFlights lists every table of every catalog, by its whole path."""
    assert names(flight.list_flights(options=options)) == ["db1.sales.orders", "fixed.s.types"]


@pytest.mark.parametrize(
    ("criteria", "expected"),
    [
        (b"", ["db1.sales.orders", "fixed.s.types"]),
        (b"sales", ["db1.sales.orders"]),
        (b"orders", ["db1.sales.orders"]),
        (b"SALES.ORDERS", ["db1.sales.orders"]),
        (b"db1.*", ["db1.sales.orders"]),
        (b"fixed", ["fixed.s.types"]),
        (b"*.types", ["fixed.s.types"]),
        (b"zzz", []),
        (b"\xff", []),
    ],
)
def test_criteria_select_flights(flight: Any, options: Any, criteria: bytes, expected: list[str]) -> None:
    """A criteria text names a catalog, a schema or a table, with * as a wildcard."""
    assert names(flight.list_flights(criteria, options)) == expected


@pytest.mark.parametrize(
    "descriptor",
    [
        fl.FlightDescriptor.for_path("fixed", "s", "types"),
        fl.FlightDescriptor.for_command("fixed.s.types"),
        fl.FlightDescriptor.for_command('"fixed"."s"."types"'),
        fl.FlightDescriptor.for_command(json.dumps({"catalog": "fixed", "schema": "s", "table": "types"})),
    ],
)
def test_table_is_described_and_read(flight: Any, options: Any, descriptor: Any) -> None:
    """Every spelling of a name leads to the same schema and the same rows, all types kept."""
    info = flight.get_flight_info(descriptor, options)
    rows = flight.do_get(info.endpoints[0].ticket, options).read_all()

    assert info.schema == SAMPLE.schema
    assert flight.get_schema(descriptor, options).schema == SAMPLE.schema
    assert rows.schema == SAMPLE.schema
    assert rows.equals(SAMPLE)
    assert msgspec.msgpack.decode(info.app_metadata)["comment"] == "Many types"


def test_dictionaries_stay_for_other_clients(flight: Any, options: Any) -> None:
    """Only DuckDB is shown a dictionary as its values; a Flight client gets the dictionary."""
    info = flight.get_flight_info(fl.FlightDescriptor.for_path("fixed", "s", "types"), options)
    rows = flight.do_get(info.endpoints[0].ticket, options).read_all()

    assert rows.schema.field("dict").type == pa.dictionary(pa.int32(), pa.string())
    assert rows["dict"].to_pylist() == ["a", "b", None, "a"]


def test_path_of_two_parts_is_in_the_default_catalog(flight: Any, options: Any) -> None:
    """[schema, table] means the default catalog, and the row count is told."""
    info = flight.get_flight_info(fl.FlightDescriptor.for_path("sales", "orders"), options)

    assert info.total_records == 0
    assert info.schema.names == ["id", "what", "rowid"]


def test_rows_are_inserted_by_exchange(flight: Any, options: Any) -> None:
    """A Flight client writes by DoExchange and reads the count at the end."""
    descriptor = fl.FlightDescriptor.for_path("sales", "orders")
    headers = [
        (b"authorization", f"Bearer {TOKEN}".encode()),
        (b"airport-operation", b"insert"),
        (b"return-chunks", b"0"),
    ]
    rows = pa.table({"id": [1, 2], "what": ["pen", None]})
    writer, reader = flight.do_exchange(descriptor, fl.FlightCallOptions(headers=headers, timeout=20))
    with writer:
        writer.begin(rows.schema)
        writer.write_table(rows)
        writer.done_writing()
        count = msgspec.msgpack.decode(reader.read_chunk().app_metadata.to_pybytes())
    info = flight.get_flight_info(descriptor, options)
    read = flight.do_get(info.endpoints[0].ticket, options).read_all()

    assert count == {"total_changed": 2}
    assert info.total_records == 2
    assert read.to_pydict() == {"id": [1, 2], "what": ["pen", None], "rowid": [0, 1]}


def test_large_table_is_read_whole(catalog: MemoryCatalog, flight: Any, options: Any) -> None:
    """Many small inserts come back as one table in few batches, in order."""
    schema = catalog.schema(Call(), "sales")
    assert schema is not None
    table = schema.table(Call(), "orders")
    assert table is not None
    assert hasattr(table, "insert")
    part = pa.table({"id": pa.array(range(100_000)), "what": ["x" * 20] * 100_000})
    for _ in range(3):
        table.insert(Call(), part.to_reader(max_chunksize=1000))
    info = flight.get_flight_info(fl.FlightDescriptor.for_path("sales", "orders"), options)
    reader = flight.do_get(info.endpoints[0].ticket, options)
    batches = [chunk.data for chunk in reader]

    assert sum(batch.num_rows for batch in batches) == 300_000
    assert len(batches) < 30
    assert pa.Table.from_batches(batches)["rowid"].to_pylist() == list(range(300_000))


def test_actions_are_listed_and_run(flight: Any, options: Any) -> None:
    """ListActions names the actions, and DoAction runs them."""
    listed = {action.type for action in flight.list_actions(options)}
    body = msgspec.msgpack.encode({"catalog_name": "db1"})
    results = list(flight.do_action(fl.Action("create_transaction", body), options))

    assert {"list_schemas", "endpoints", "create_table", "set_default"} <= listed
    assert isinstance(msgspec.msgpack.decode(results[0].body.to_pybytes())["identifier"], str)


def test_basic_credentials_become_a_token(flight: Any) -> None:
    """A user name with the token as its password gives the header for all later calls."""
    header = flight.authenticate_basic_token("anyone", TOKEN)
    flights = flight.list_flights(options=fl.FlightCallOptions(headers=[header]))

    assert header == (b"authorization", f"Bearer {TOKEN}".encode())
    assert len(names(flights)) == 2


@pytest.mark.parametrize("headers", [[], [(b"authorization", b"Bearer wrong")]])
def test_missing_token_is_its_own_error(flight: Any, headers: list[tuple[bytes, bytes]]) -> None:
    """Arrow's client raises FlightUnauthenticatedError on every kind of call."""
    wrong = fl.FlightCallOptions(headers=headers, timeout=20)

    with pytest.raises(fl.FlightUnauthenticatedError, match="A token is needed"):
        list(flight.list_flights(options=wrong))
    with pytest.raises(fl.FlightUnauthenticatedError):
        flight.get_flight_info(fl.FlightDescriptor.for_path("s", "t"), wrong)
    with pytest.raises(fl.FlightUnauthenticatedError):
        list(flight.do_action("list_schemas", wrong))
    with pytest.raises(fl.FlightUnauthenticatedError):
        flight.do_get(fl.Ticket(b"x"), wrong).read_all()
    with pytest.raises(fl.FlightUnauthenticatedError):
        flight.authenticate_basic_token("anyone", "wrong")


def test_errors_have_arrows_classes(flight: Any, options: Any) -> None:
    """NOT_FOUND, INVALID_ARGUMENT and UNIMPLEMENTED are Arrow's own exceptions, with our text."""
    with pytest.raises(pa.ArrowKeyError, match=r"table 'sales\.ordrs' not found\. Did you mean 'orders'\?"):
        flight.get_flight_info(fl.FlightDescriptor.for_path("sales", "ordrs"), options)
    with pytest.raises(pa.ArrowInvalid, match="the ticket is not valid"):
        flight.do_get(fl.Ticket(b"x"), options).read_all()
    with pytest.raises(pa.ArrowNotImplementedError, match="unknown action 'nope'"):
        list(flight.do_action("nope", options))


def test_put_is_not_implemented(flight: Any, options: Any) -> None:
    """DoPut without a command that is known ends with an error, not with a hang."""
    rows = pa.table({"id": [1], "what": ["x"]})

    def put() -> None:
        writer, _ = flight.do_put(fl.FlightDescriptor.for_path("sales", "orders"), rows.schema, options)
        with writer:
            writer.write_table(rows)

    with pytest.raises(pa.ArrowException):
        put()
