"""Looking around and back in time: endpoints, table functions and listings, and both dialects together."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import grpc
import msgspec
import pyarrow as pa
import pytest

import sparkport
from sparkport.catalog import (
    Call,
    FunctionSignature,
    ScalarFunction,
    ScanOptions,
    Schema,
    SchemaRequest,
    TableFunction,
    TableKind,
)
from sparkport.errors import (
    DeadlineExceededError,
    InvalidRequestError,
    NotFoundError,
    PreconditionError,
    SparkportError,
)
from sparkport.memory import MemoryCatalog
from sparkport.protocol import flight_pb2 as pb
from sparkport.toolkit import CatalogBuilder
from sparkport.toolkit.static import StaticCatalog, StaticSchema, StaticTable
from tests.flight_client import Flight, path_descriptor, refusal, schema_in, table_of
from tests.json_client import INT, TEXT, JsonClient, table

STREAM_SCHEMA = pa.schema([("n", pa.int64())])


@pytest.fixture
def sales(plain: Flight) -> JsonClient:
    """Return a client of a server with a table `sales.orders` of one row."""
    json_client = JsonClient(plain)
    json_client.json("CreateSchema", schema_name="sales", comment="What was sold")
    json_client.create_table("sales", "orders", INT, TEXT)
    json_client.insert("sales", "orders", table([1], ["one"]))
    return json_client


def endpoints(json_client: JsonClient, unit: str = "", value: str = "", name: str = "orders") -> Any:
    """Ask for the endpoints of a table of `sales`, perhaps at a time point."""
    body: dict[str, object] = {"schema": "sales", "table": name}
    if unit:
        body["time_point"] = {"unit": unit, "value": value}
    (answer,) = json_client.flight.action("endpoints", body, json_client.headers)
    return [pb.FlightEndpoint.FromString(data) for data in msgspec.msgpack.decode(answer)]


def rows_at(json_client: JsonClient, unit: str = "", value: str = "") -> list[dict[str, object]]:
    """Read `sales.orders` at a time point, without the row id."""
    found = pa.concat_tables(
        [table_of(json_client.flight.get(one.ticket.ticket)) for one in endpoints(json_client, unit, value)]
    )
    rows: list[dict[str, object]] = found.drop_columns([found.column_names[-1]]).to_pylist()
    return rows


def test_endpoint_has_ticket_location_and_schema(sales: JsonClient) -> None:
    """An endpoint by name delivers all columns, and tells their schema beside its ticket."""
    (endpoint,) = endpoints(sales)

    assert pa.ipc.read_schema(pa.py_buffer(endpoint.app_metadata)).names == ["id", "name", "rowid"]
    assert [location.uri for location in endpoint.location] == ["arrow-flight-reuse-connection://?"]
    assert table_of(sales.flight.get(endpoint.ticket.ticket)).to_pylist() == [
        {"id": 1, "name": "one", "rowid": 0}
    ]


def test_versions_count_from_the_empty_table(sales: JsonClient) -> None:
    """Version 0 is the new table, and every change adds one."""
    sales.update("sales", "orders", [0], table([10], ["ten"]))
    sales.json(
        "AlterTableAddColumn", schema_name="sales", table_name="orders", column={"name": "x", "type": "int8"}
    )
    sales.delete("sales", "orders", [0])

    assert [rows_at(sales, "version", str(number)) for number in range(5)] == [
        [],
        [{"id": 1, "name": "one"}],
        [{"id": 10, "name": "ten"}],
        [{"id": 10, "name": "ten", "x": None}],
        [],
    ]


def test_old_instant_has_the_old_schema(sales: JsonClient) -> None:
    """A timestamp in RFC 3339 reads the columns and rows of that moment."""
    time.sleep(0.01)
    moment = dt.datetime.now(dt.UTC)
    time.sleep(0.01)
    sales.json("AlterTableDropColumn", schema_name="sales", table_name="orders", column_name="name")
    shifted = moment.astimezone(dt.timezone(dt.timedelta(hours=5, minutes=30)))

    for text in (moment.isoformat(), shifted.isoformat(), moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")):
        (endpoint,) = endpoints(sales, "timestamp", text)
        assert pa.ipc.read_schema(pa.py_buffer(endpoint.app_metadata)).names == ["id", "name", "rowid"]
        assert rows_at(sales, "timestamp", text) == [{"id": 1, "name": "one"}]
    assert rows_at(sales) == [{"id": 1}]


def test_planned_scan_stays_what_it_was(sales: JsonClient) -> None:
    """A ticket reads the state in which it was handed out."""
    (endpoint,) = endpoints(sales)
    sales.insert("sales", "orders", table([2], ["two"]))

    assert table_of(sales.flight.get(endpoint.ticket.ticket)).num_rows == 1


@pytest.mark.parametrize(
    ("unit", "value", "code", "message"),
    [
        (
            "week",
            "1",
            "INVALID_ARGUMENT",
            "unknown time unit 'week'; use timestamp, version or snapshot",
        ),
        ("version", "first", "INVALID_ARGUMENT", "'first' is not a version number"),
        ("version", "", "INVALID_ARGUMENT", "'' is not a version number"),
        ("version", "99", "NOT_FOUND", "version '99' not found"),
        (
            "timestamp",
            "yesterday",
            "INVALID_ARGUMENT",
            "'yesterday' is not a timestamp such as 2024-01-15T10:30:00Z",
        ),
        (
            "timestamp",
            "1999-01-01T00:00:00Z",
            "NOT_FOUND",
            "version at timestamp '1999-01-01T00:00:00Z' not found",
        ),
        ("snapshot", "abc123def", "NOT_FOUND", "snapshot 'abc123def' not found"),
        ("snapshot", "", "NOT_FOUND", "snapshot '' not found"),
    ],
)
def test_bad_time_point_is_refused(sales: JsonClient, unit: str, value: str, code: str, message: str) -> None:
    """What is no time point is INVALID_ARGUMENT, a time without a state NOT_FOUND."""
    assert refusal(lambda: endpoints(sales, unit, value)) == (code, message)


def test_endpoints_of_a_missing_table_are_not_found(sales: JsonClient) -> None:
    """The table that is not there is named."""
    assert refusal(lambda: endpoints(sales, name="order")) == (
        "NOT_FOUND",
        "table 'sales.order' not found. Did you mean 'orders'?",
    )


def test_many_parts_are_the_whole(sales: JsonClient) -> None:
    """A large table has several endpoints, which together deliver every row once."""
    rows = pa.table({"id": pa.array(range(2_500_000), pa.int64()), "name": pa.nulls(2_500_000, pa.string())})
    sales.create_table("sales", "large", INT, TEXT)
    sales.insert("sales", "large", rows)
    parts = endpoints(sales, name="large")
    found = pa.concat_tables([table_of(sales.flight.get(part.ticket.ticket)) for part in parts])

    assert len(parts) == 2
    assert found.column("id").to_pylist() == list(range(2_500_000))


class Growing:
    """A table that has one more column with every year."""

    name = "growing"
    comment = ""
    arrow_schema = None
    scans = 0

    def schema_for_request(self, call: Call, request: SchemaRequest) -> pa.Schema:
        """Return a column for each year since 2000."""
        del call
        year = int(request.time_point.value[:4]) if request.time_point else 2003
        if year < 2000:
            raise InvalidRequestError(f"there was nothing in {year}")
        return pa.schema([(f"y{number}", pa.int64()) for number in range(2000, year + 1)])

    def scan(self, call: Call, options: ScanOptions) -> pa.RecordBatchReader:
        """Return one row of years."""
        type(self).scans += 1
        schema = self.schema_for_request(call, SchemaRequest(time_point=options.time_point))
        return pa.table([[int(name[1:])] for name in schema.names], schema=schema).to_reader()


class Series:
    """A table function: numbers up to a limit, in a column of a given name."""

    name = "SERIES"
    comment = "Numbers"
    signature = FunctionSignature((pa.int64(), pa.string()))

    def schema_for_parameters(self, call: Call, parameters: Sequence[Any]) -> pa.Schema:
        """Return one column of the given name."""
        del call
        limit, name = parameters
        if not isinstance(limit, int) or limit < 0:
            raise InvalidRequestError("SERIES needs a limit of at least 0")
        return pa.schema([(str(name), pa.int64())])

    def execute(self, call: Call, parameters: Sequence[Any], options: ScanOptions) -> pa.RecordBatchReader:
        """Return the numbers."""
        del options
        schema = self.schema_for_parameters(call, parameters)
        return pa.table([list(range(parameters[0]))], schema=schema).to_reader()


class Joined(Series):
    """A table function that takes any number of parameters."""

    name = "JOINED"
    signature = FunctionSignature((pa.string(),), variadic=True)

    def schema_for_parameters(self, call: Call, parameters: Sequence[Any]) -> pa.Schema:
        """Return one column of text."""
        del call, parameters
        return pa.schema([("text", pa.string())])

    def execute(self, call: Call, parameters: Sequence[Any], options: ScanOptions) -> pa.RecordBatchReader:
        """Return the parameters as one text."""
        del options
        schema = self.schema_for_parameters(call, parameters)
        return pa.table([["-".join(parameters)]], schema=schema).to_reader()


class Functions(StaticSchema):
    """A schema with table functions beside its tables."""

    def scalar_functions(self, call: Call) -> Sequence[ScalarFunction]:
        """Return none."""
        del call
        return []

    def table_functions(self, call: Call) -> Sequence[TableFunction]:
        """Return the two."""
        del call
        return [Series(), Joined()]


@pytest.fixture
def own() -> Iterator[JsonClient]:
    """Return a client of a server with the tables and functions of a user."""
    schema = Functions("sales", {"growing": Growing(), "plain": _plain_table()})
    catalog = StaticCatalog({"sales": schema})
    with (
        sparkport.Server(catalog, port=0, authenticate=False, grace_seconds=0.2) as server,
        Flight(server.location, None, airport=False) as flight,
    ):
        yield JsonClient(flight)


def _plain_table() -> Any:
    built = sparkport.CatalogBuilder().schema("s").table("plain", pa.table({"n": [1]})).build()
    schema = built.schema(Call(), "s")
    assert schema is not None
    return schema.table(Call(), "plain")


def test_dynamic_schema_is_told_without_a_scan(own: JsonClient) -> None:
    """The columns at a time point come from the table's own word, and nothing is read for that."""
    before = Growing.scans
    (old,) = endpoints(own, "timestamp", "2001-01-01T00:00:00Z", "growing")
    (now,) = endpoints(own, name="growing")

    assert pa.ipc.read_schema(pa.py_buffer(old.app_metadata)).names == ["y2000", "y2001"]
    assert pa.ipc.read_schema(pa.py_buffer(now.app_metadata)).names == ["y2000", "y2001", "y2002", "y2003"]
    assert Growing.scans == before
    assert table_of(own.flight.get(old.ticket.ticket)).to_pylist() == [{"y2000": 2000, "y2001": 2001}]
    assert refusal(lambda: endpoints(own, "timestamp", "1999-01-01T00:00:00Z", "growing")) == (
        "INVALID_ARGUMENT",
        "there was nothing in 1999",
    )


def call_function(json_client: JsonClient, name: str, *parameters: object) -> pb.FlightInfo:
    """Ask for the schema of a table function."""
    body = {"name": name, "parameters": list(parameters)}
    (answer,) = json_client.flight.action("table_function_flight_info", body)
    return pb.FlightInfo.FromString(answer)


@pytest.mark.parametrize("name", ["SERIES", "series", "sales.SERIES"])
def test_table_function_is_described_and_run(own: JsonClient, name: str) -> None:
    """A function by name, or schema and name, gives the schema for its parameters and a ticket."""
    info = call_function(own, name, 3, "number")
    (endpoint,) = info.endpoint

    assert schema_in(info) == pa.schema([("number", pa.int64())])
    assert table_of(own.flight.get(endpoint.ticket.ticket)).to_pylist() == [
        {"number": 0},
        {"number": 1},
        {"number": 2},
    ]


def test_function_of_another_catalog_runs_by_its_ticket() -> None:
    """A ticket finds its function without the header that chose the catalog."""
    catalogs = {"db1": MemoryCatalog(), "db2": StaticCatalog({"a.b": Functions("a.b", {})})}
    with (
        sparkport.Server(
            catalogs, port=0, authenticate=False, default_catalog="db1", grace_seconds=0.2
        ) as server,
        Flight(server.location, None, airport=False) as flight,
    ):
        body = {"name": "a.b.SERIES", "parameters": [2, "n"]}
        (answer,) = flight.action("table_function_flight_info", body, [("airport-catalog", "db2")])
        (endpoint,) = pb.FlightInfo.FromString(answer).endpoint

        assert table_of(flight.get(endpoint.ticket.ticket)).to_pylist() == [{"n": 0}, {"n": 1}]


def test_variadic_function_takes_more(own: JsonClient) -> None:
    """A variadic function takes its parameters and any number more."""
    (endpoint,) = call_function(own, "JOINED", "a", "b", "c").endpoint

    assert table_of(own.flight.get(endpoint.ticket.ticket)).to_pylist() == [{"text": "a-b-c"}]


@pytest.mark.parametrize(
    ("name", "parameters", "code", "message"),
    [
        ("SERIE", [1, "n"], "NOT_FOUND", "table function 'SERIE' not found. Did you mean 'SERIES'?"),
        ("SERIES", [1], "INVALID_ARGUMENT", "function 'SERIES' takes 2 parameters, not 1"),
        ("JOINED", [], "INVALID_ARGUMENT", "function 'JOINED' takes 1 or more parameters, not 0"),
        ("SERIES", [-1, "n"], "INVALID_ARGUMENT", "SERIES needs a limit of at least 0"),
        ("SERIES", ["x", "n"], "INVALID_ARGUMENT", "SERIES needs a limit of at least 0"),
    ],
)
def test_bad_function_call_is_refused(
    own: JsonClient, name: str, parameters: list[object], code: str, message: str
) -> None:
    """An unknown function is NOT_FOUND, parameters that mean nothing INVALID_ARGUMENT."""
    assert refusal(lambda: call_function(own, name, *parameters)) == (code, message)


@pytest.mark.parametrize("body", [b"", b"{}", b"\x80", b"\xc1", b"\x81\xa4name\x01"])
@pytest.mark.parametrize("action", ["endpoints", "table_function_flight_info"])
def test_malformed_request_is_invalid(own: JsonClient, action: str, body: bytes) -> None:
    """These two actions take msgpack maps with their keys."""
    assert refusal(lambda: own.flight.action(action, body))[0] == "INVALID_ARGUMENT"


def listing(json_client: JsonClient, action: str, **filters: object) -> pa.Table:
    """Run a catalog action and unpack its answer."""
    (answer,) = json_client.flight.action(action, msgspec.json.encode(filters) if filters else b"")
    assert answer[:4] == b"\x28\xb5\x2f\xfd"
    with pa.CompressedInputStream(pa.BufferReader(answer), "zstd") as stream:
        return pa.ipc.open_stream(stream).read_all()


@pytest.fixture
def two() -> Iterator[JsonClient]:
    """Return a client of a server with two catalogs."""
    catalogs = {"db1": MemoryCatalog(), "db2": MemoryCatalog()}
    with (
        sparkport.Server(
            catalogs, port=0, authenticate=False, default_catalog="db1", grace_seconds=0.2
        ) as server,
        Flight(server.location, None, airport=False) as flight,
    ):
        first, second = JsonClient(flight), JsonClient(flight, [("airport-catalog", "db2")])
        for json_client, schema in ((first, "sales"), (first, "stock"), (second, "sales")):
            json_client.json("CreateSchema", schema_name=schema)
            json_client.create_table(schema, "t_1", INT)
        first.create_table("sales", "tx1", INT)
        yield first


def test_catalogs_are_listed(two: JsonClient) -> None:
    """GetCatalogs lists every catalog."""
    assert listing(two, "GetCatalogs").to_pydict() == {"catalog_name": ["db1", "db2"]}


def test_schemas_are_listed(two: JsonClient) -> None:
    """GetDbSchemas lists schemas, filtered by catalog and by pattern."""
    found = listing(two, "GetDbSchemas")

    assert found.to_pydict() == {
        "catalog_name": ["db1", "db1", "db1", "db2"],
        "db_schema_name": ["sales", "stock", "sparkport", "sales"],
    }
    filtered = listing(two, "GetDbSchemas", catalog="db1", db_schema_filter_pattern="sa%")
    assert filtered.to_pydict() == {"catalog_name": ["db1"], "db_schema_name": ["sales"]}
    assert listing(two, "GetDbSchemas", db_schema_filter_pattern="%x%").num_rows == 0


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        (None, ["t_1", "tx1"]),
        ("%", ["t_1", "tx1"]),
        ("t_1", ["t_1", "tx1"]),
        ("tx_", ["tx1"]),
        ("%x%", ["tx1"]),
        ("t%1%", ["t_1", "tx1"]),
        ("t", []),
        ("", []),
        ("t.1", []),
        ("%a" * 2000, []),
    ],
)
def test_tables_are_listed_by_pattern(two: JsonClient, pattern: str | None, names: list[str]) -> None:
    """GetTables matches names as SQL's LIKE does."""
    filters = {} if pattern is None else {"table_name_filter_pattern": pattern}
    found = listing(two, "GetTables", catalog="db1", db_schema_filter_pattern="sales", **filters)

    assert found.column("table_name").to_pylist() == names
    assert found.column_names == ["catalog_name", "db_schema_name", "table_name", "table_type"]


def test_many_wildcards_take_no_time(two: JsonClient) -> None:
    """A hostile pattern on a long name is answered at once."""
    name = "a" * 5000
    two.create_table("sales", name, INT)
    started = time.perf_counter()

    assert listing(two, "GetTables", table_name_filter_pattern="%a" * 30 + "b").num_rows == 0
    assert time.perf_counter() - started < 5


def test_tables_are_listed_with_their_schema(two: JsonClient) -> None:
    """With include_schema each row carries the table's Arrow schema; other kinds of tables are none."""
    found = listing(two, "GetTables", catalog="db2", include_schema=True)
    schema = pa.ipc.read_schema(pa.py_buffer(found.column("table_schema")[0].as_py()))

    assert found.column("table_type").to_pylist() == ["TABLE"]
    assert schema == two.columns("sales", "t_1")
    assert listing(two, "GetTables", table_types=["VIEW"]).num_rows == 0
    assert listing(two, "GetTables", table_types=["VIEW", "TABLE"]).num_rows == 4
    assert listing(two, "GetTableTypes").to_pydict() == {"table_type": ["TABLE", "VIEW"]}


class View(Growing):
    """A table that says that it is a view."""

    name = "view"
    table_kind = TableKind.VIEW


def test_views_are_listed_as_such() -> None:
    """A table may tell its kind, by which listings are filtered; others are tables."""
    catalog = CatalogBuilder().schema("s").table("t", pa.table({"n": [1]})).table("view", View()).build()
    with (
        sparkport.Server(catalog, port=0, authenticate=False, grace_seconds=0) as server,
        Flight(server.location, None, airport=False) as flight,
    ):
        json_client = JsonClient(flight)
        kinds = listing(json_client, "GetTables").select(["table_name", "table_type"]).to_pylist()
        views = listing(json_client, "GetTables", table_types=["VIEW"]).column("table_name").to_pylist()
        others = listing(json_client, "GetTables", table_types=["TABLE"]).column("table_name").to_pylist()

    assert kinds == [
        {"table_name": "t", "table_type": "TABLE"},
        {"table_name": "view", "table_type": "VIEW"},
    ]
    assert (views, others) == (["view"], ["t"])


@pytest.mark.parametrize("action", ["GetCatalogs", "GetDbSchemas", "GetTables", "GetTableTypes"])
@pytest.mark.parametrize(
    "body", [b"{", b"[]", b'{"include_schema": 1}', b'{"table_types": "TABLE"}', b"\xc1"]
)
def test_bad_filter_is_invalid(sales: JsonClient, action: str, body: bytes) -> None:
    """Filters that are not what they should be are INVALID_ARGUMENT."""
    assert refusal(lambda: sales.flight.action(action, body))[0] == "INVALID_ARGUMENT"


def test_both_dialects_share_the_tables(client: Flight, plain: Flight) -> None:
    """Create by JSON, fill as DuckDB does, read by Flight, alter by JSON, see it in list_schemas."""
    json_client = JsonClient(plain)
    json_client.json("CreateSchema", schema_name="sales", comment="What was sold")
    json_client.create_table("sales", "orders", INT, TEXT, comment="Orders")
    client.insert(path_descriptor("db1", "sales", "orders"), table([1], ["one"]))
    assert json_client.rows("sales", "orders") == [{"id": 1, "name": "one"}]
    column = {"name": "total", "type": "float64"}
    json_client.json("AlterTableAddColumn", schema_name="sales", table_name="orders", column=column)
    rows = table([2], ["two"]).append_column("total", pa.array([2.5]))
    json_client.insert("sales", "orders", rows)

    found = client.read(path_descriptor("db1", "sales", "orders"), 3)
    assert found.column("total").to_pylist() == [None, 2.5]
    (info,) = client.list_flights()
    assert schema_in(info).names == ["id", "name", "total", "rowid"]
    assert msgspec.msgpack.decode(info.app_metadata)["comment"] == "Orders"
    (listed,) = client.action("list_schemas", {"catalog_name": "db1"})
    assert b"sales" in unpacked(listed)
    client.action(
        "remove_column", {"catalog": "db1", "schema": "sales", "name": "orders", "removed_column": "name"}
    )
    assert json_client.columns("sales", "orders").names == ["id", "total", "rowid"]
    client.action(
        "drop_table", {"type": "table", "catalog_name": "db1", "schema_name": "sales", "name": "orders"}
    )
    assert refusal(lambda: json_client.scan("sales", "orders"))[0] == "NOT_FOUND"


def test_staged_rows_are_hidden_from_the_other_dialect(client: Flight, sales: JsonClient) -> None:
    """What a staged transaction wrote is not seen by DuckDB until it is committed."""
    transaction = sales.begin(auto_commit=False)
    sales.within(transaction).insert("sales", "orders", table([2], ["two"]))
    descriptor = path_descriptor("db1", "sales", "orders")

    assert client.read(descriptor, 2).column("id").to_pylist() == [1]
    headers = [("airport-transaction-id", transaction)]
    assert client.read(descriptor, 2, headers).column("id").to_pylist() == [1, 2]
    sales.json("commit_transaction", transaction_id=transaction)
    assert client.read(descriptor, 2).column("id").to_pylist() == [1, 2]


def test_geometry_reaches_every_client(client: Flight, sales: JsonClient) -> None:
    """A geometry column is WKB to every client, with its reference system where one was given."""
    fields = [INT, {"name": "loc", "type": "extension<airport.geometry>"}]
    metadata = {"loc.srid": "4326", "loc.geometry_type": "POINT"}
    sales.json(
        "CreateTable",
        schema_name="sales",
        table_name="places",
        schema={"fields": fields, "metadata": metadata},
    )
    point = bytes.fromhex("0101000000000000000000f03f0000000000000040")
    rows = pa.table({"id": pa.array([1], pa.int64()), "loc": pa.array([point], pa.binary())})
    sales.insert("sales", "places", rows)
    marked = {
        b"ARROW:extension:name": b"geoarrow.wkb",
        b"ARROW:extension:metadata": b'{"crs": "EPSG:4326", "crs_type": "authority_code"}',
        b"srid": b"4326",
        b"geometry_type": b"POINT",
    }
    info = client.flight_info(path_descriptor("db1", "sales", "places"))

    assert sales.columns("sales", "places").field("loc").metadata == marked
    assert schema_in(info).field("loc").metadata == marked
    assert sales.rows("sales", "places") == [{"id": 1, "loc": point}]
    column = {"name": "border", "type": "extension<airport.geometry>"}
    sales.json("AlterTableAddColumn", schema_name="sales", table_name="places", column=column)
    added = sales.columns("sales", "places").field("border")
    assert added.metadata[b"ARROW:extension:name"] == b"geoarrow.wkb"


def test_column_that_duckdb_cannot_have_is_told(client: Flight, sales: JsonClient) -> None:
    """A table with a type that DuckDB lacks serves everybody else, and tells DuckDB the reason."""
    column = {"name": "v", "type": "dense_union<a: int64, b: utf8>"}
    own = JsonClient(client)
    assert own.create_table("sales", "rare", INT, column)["columns"] == 2
    descriptor = path_descriptor("db1", "sales", "rare")
    expected = ("FAILED_PRECONDITION", "DuckDB has no type for dense_union<a: int64=0, b: string=1>")

    assert sales.columns("sales", "rare").names == ["id", "v", "rowid"]
    assert refusal(lambda: client.flight_info(descriptor)) == expected
    assert refusal(lambda: client.scan(descriptor, [0])) == expected


def unpacked(listed: bytes) -> bytes:
    """Return the contents of a compressed listing."""
    size, data = msgspec.msgpack.decode(listed)
    whole: bytes = pa.Codec("zstd").decompress(data, size, asbytes=True)
    return whole


class Broken(StaticCatalog):
    """A catalog that is there but cannot be listed."""

    failure: SparkportError = PreconditionError("its class is not there")

    def schemas(self, call: Call) -> Sequence[Schema]:
        """Raise."""
        del call
        raise self.failure


class Ended(Broken):
    """A catalog that finds that nobody waits any more."""

    failure = DeadlineExceededError()


class Dropped:
    """A table that somebody drops after it was listed."""

    name = "gone"
    comment = ""

    @property
    def arrow_schema(self) -> pa.Schema:
        raise NotFoundError("table", "gone")

    def scan(self, call: Call, options: ScanOptions) -> pa.RecordBatchReader:
        del call, options
        raise NotFoundError("table", "gone")


def test_a_table_that_is_dropped_meanwhile_is_left_out() -> None:
    """Listings tell of the others, in both dialects."""
    there = StaticTable("t", pa.schema([("n", pa.int64())]), lambda *_: pa.table({"n": [1]}).to_reader())
    catalog = StaticCatalog({"s": StaticSchema("s", {"gone": Dropped(), "t": there})})
    with (
        sparkport.Server({"db1": catalog}, port=0, authenticate=False, grace_seconds=0) as server,
        Flight(server.location, None, airport=False) as flight,
        Flight(server.location, None) as airport,
    ):
        tables = listing(JsonClient(flight), "GetTables", include_schema=True)
        flights = [list(info.flight_descriptor.path) for info in flight.list_flights()]
        body = airport.action("list_schemas", {"catalog_name": "db1"})

        assert tables["table_name"].to_pylist() == ["t"]
        assert flights == [["db1", "s", "t"]]
        assert len(airport.list_flights()) == 1
        assert len(body) == 1


def listings(broken: Broken, *, beside: bool = True) -> dict[str, Any]:
    """Return how a server with a broken catalog, beside a good one or alone, answers listings."""
    good = CatalogBuilder().schema("s").table("t", pa.table({"n": [1]})).build()
    catalogs = {"hollow": broken, **({"db1": good} if beside else {})}
    named = [("airport-list-flights-filter-catalog", "hollow")]
    answers: dict[str, Any] = {}
    with (
        sparkport.Server(catalogs, port=0, authenticate=False, grace_seconds=0) as server,
        Flight(server.location, None, airport=False) as flight,
    ):
        json_client = JsonClient(flight)
        questions: dict[str, Callable[[], Any]] = {
            "schemas": lambda: listing(json_client, "GetDbSchemas").to_pydict(),
            "tables": lambda: listing(json_client, "GetTables").column("table_name").to_pylist(),
            "flights": lambda: [list(info.flight_descriptor.path) for info in flight.list_flights()],
            "its schemas": lambda: listing(json_client, "GetDbSchemas", catalog="hollow"),
            "its tables": lambda: listing(json_client, "GetTables", catalog="HOLLOW"),
            "its flights": lambda: flight.list_flights(headers=named),
        }
        for name, ask in questions.items():
            try:
                answers[name] = ask()
            except grpc.RpcError as error:
                answers[name] = (error.code().name, error.details())
    return answers


def test_catalog_that_cannot_be_listed_hides_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    """Where all catalogs are listed it is left out, with one warning each time; by its name it tells why."""
    why = ("FAILED_PRECONDITION", "its class is not there")

    assert listings(Broken({})) == {
        "schemas": {"catalog_name": ["db1"], "db_schema_name": ["s"]},
        "tables": ["t"],
        "flights": [["db1", "s", "t"]],
        "its schemas": why,
        "its tables": why,
        "its flights": why,
    }
    warnings = [line for line in capsys.readouterr().err.splitlines() if "catalog not listed" in line]
    assert len(warnings) == 3
    assert "name=hollow" in warnings[0]
    assert "reason='its class is not there'" in warnings[0]


def test_listing_of_nothing_but_broken_catalogs_tells_why() -> None:
    """An empty listing would say that there is nothing."""
    answers = listings(Broken({}), beside=False)

    assert set(answers.values()) == {("FAILED_PRECONDITION", "its class is not there")}


def test_end_of_the_call_ends_a_listing() -> None:
    """A deadline is no fault of a catalog, so nothing is left out for it."""
    answers = listings(Ended({}))

    assert set(answers.values()) == {("DEADLINE_EXCEEDED", "the deadline of the call has passed")}
