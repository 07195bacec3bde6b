"""Bad requests over raw gRPC: the exact status, the exact message, and nothing changed."""

from __future__ import annotations

import pyarrow as pa
import pytest

import sparkport
from sparkport.flight.context import ServerContext
from sparkport.flight.transport.auth import NoAuth
from sparkport.flight.transport.limits import ServerLimits
from sparkport.flight.transport.server import GrpcServer
from sparkport.memory import MemoryCatalog
from sparkport.protocol.ticket import TicketSigner
from sparkport.toolkit.registry import Catalogs
from tests.flight_client import Flight, cmd_descriptor, path_descriptor, refusal

from .conftest import ROWS, TABLE

DATA_ACTIONS = ["flight_info", "endpoints", "column_statistics"]
DDL_ACTIONS = [
    "create_schema",
    "drop_schema",
    "create_table",
    "drop_table",
    "add_column",
    "remove_column",
    "rename_column",
    "rename_table",
    "change_column_type",
    "set_default",
    "set_not_null",
    "drop_not_null",
    "add_field",
    "rename_field",
    "remove_field",
    "add_constraint",
]
ACTIONS = ["list_schemas", "catalog_version", "create_transaction", *DATA_ACTIONS, *DDL_ACTIONS]
ALTER = {"catalog": "db1", "schema": "sales", "name": "orders"}


def test_unknown_action_is_unimplemented(orders: Flight) -> None:
    """An action nobody knows is UNIMPLEMENTED and named in the message."""
    assert refusal(lambda: orders.action("no_such_action", b"x")) == (
        "UNIMPLEMENTED",
        "unknown action 'no_such_action'",
    )


@pytest.mark.parametrize("method", ["PollFlightInfo", "NoSuchMethod"])
def test_unknown_method_is_unimplemented(orders: Flight, method: str) -> None:
    """A method that is not offered is UNIMPLEMENTED."""
    assert refusal(lambda: orders.unary(method, TABLE))[0] == "UNIMPLEMENTED"


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("body", [b"\xc1", b"\x93\x01\x02\x03", b"\x81", b"plain text"])
def test_malformed_body_is_invalid(orders: Flight, action: str, body: bytes) -> None:
    """A body that is not a msgpack map is INVALID_ARGUMENT for every action."""
    code, message = refusal(lambda: orders.action(action, body))

    assert code == "INVALID_ARGUMENT"
    assert message.startswith("malformed request body: ")


@pytest.mark.parametrize("action", [*DATA_ACTIONS, *DDL_ACTIONS, "list_schemas", "catalog_version"])
@pytest.mark.parametrize(
    "body",
    [
        {"catalog_name": 1, "catalog": 1, "descriptor": 1, "flight_descriptor": 1, "parameters": 1},
        {"unrelated": "key"},
        {},
    ],
)
def test_wrong_or_missing_keys_are_invalid(orders: Flight, action: str, body: dict[str, object]) -> None:
    """A map with a value of another type or without a needed key is INVALID_ARGUMENT."""
    assert refusal(lambda: orders.action(action, body))[0] == "INVALID_ARGUMENT"


@pytest.mark.parametrize("schema", [b"", b"not arrow", b"\xff\xff\xff\xff\x08\0\0\0garbage!"])
def test_bad_arrow_schema_is_invalid(orders: Flight, schema: bytes) -> None:
    """Bytes that are no Arrow schema are INVALID_ARGUMENT wherever a schema is expected."""
    create = {"catalog_name": "db1", "schema_name": "sales", "table_name": "t", "arrow_schema": schema}
    expected = ("INVALID_ARGUMENT", "malformed request body: not an Arrow schema")

    assert refusal(lambda: orders.action("create_table", create)) == expected
    for action in ("add_column", "change_column_type"):
        body = {**ALTER, "column_schema": schema}
        assert refusal(lambda action=action, body=body: orders.action(action, body)) == expected  # type: ignore[misc]


def test_unparsable_action_message_is_invalid(orders: Flight) -> None:
    """Bytes that are no protobuf message are INVALID_ARGUMENT on every unary-request method."""
    for method in ("DoAction", "DoGet", "ListFlights"):
        code, message = refusal(lambda method=method: list(orders.stream(method, b"\xff\xff\xff")))  # type: ignore[misc]
        assert code == "INVALID_ARGUMENT"
        assert message.startswith("malformed ")
    for method in ("GetFlightInfo", "GetSchema"):
        code, _ = refusal(lambda method=method: orders.unary(method, b"\xff\xff\xff"))  # type: ignore[misc]
        assert code == "INVALID_ARGUMENT"


@pytest.mark.parametrize("ticket", [b"", b"x", b"\0" * 32, b"\0" * 100, b"sales.orders"])
def test_made_up_ticket_is_invalid(orders: Flight, ticket: bytes) -> None:
    """Only tickets that the server made are taken."""
    assert refusal(lambda: orders.get(ticket)) == (
        "INVALID_ARGUMENT",
        "the ticket is not valid; request a new one with GetFlightInfo",
    )


def test_changed_ticket_is_invalid(orders: Flight) -> None:
    """A ticket with any byte changed is refused."""
    (ticket,) = orders.scan(TABLE, [0])
    for at in range(0, len(ticket), 7):
        changed = ticket[:at] + bytes([ticket[at] ^ 1]) + ticket[at + 1 :]
        assert refusal(lambda changed=changed: orders.get(changed))[0] == "INVALID_ARGUMENT"  # type: ignore[misc]


def test_ticket_of_another_server_is_invalid(orders: Flight) -> None:
    """A ticket is good only at servers with the token of the one that made it."""
    with (
        sparkport.Server({"db1": MemoryCatalog()}, port=0, token="another token", grace_seconds=0) as other,
        Flight(other.location, "another token") as client,
    ):
        (ticket,) = client.scan(path_descriptor("__databases"), [])

    assert refusal(lambda: orders.get(ticket))[0] == "INVALID_ARGUMENT"


def test_expired_ticket_is_invalid() -> None:
    """A ticket is refused when its time is over."""
    context = ServerContext(Catalogs({"db1": MemoryCatalog()}), signer=TicketSigner(lifetime_seconds=-10))
    server = GrpcServer(context, NoAuth(), "127.0.0.1", 0, ServerLimits())
    server.start()
    with Flight(server.location, None) as client:
        (ticket,) = client.scan(path_descriptor("__databases"), [])
        expected = ("INVALID_ARGUMENT", "the ticket has expired; request a new one with GetFlightInfo")
        assert refusal(lambda: client.get(ticket)) == expected
    server.stop(0).wait()


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (("db2", "sales", "orders"), "catalog 'db2' not found. Did you mean 'db1'?"),
        (("db1", "sale", "orders"), "schema 'sale' not found. Did you mean 'sales'?"),
        (("db1", "sales", "ordrs"), "table 'sales.ordrs' not found. Did you mean 'orders'?"),
        (("db1", "sales", "zzz"), "table 'sales.zzz' not found"),
    ],
)
def test_unknown_name_is_not_found_with_a_hint(orders: Flight, path: tuple[str, ...], message: str) -> None:
    """An unknown catalog, schema or table is NOT_FOUND, with the nearest name if one is near."""
    descriptor = path_descriptor(*path)
    expected = ("NOT_FOUND", message)

    assert refusal(lambda: orders.flight_info(descriptor)) == expected
    assert refusal(lambda: orders.unary("GetSchema", descriptor)) == expected
    assert refusal(lambda: orders.scan(descriptor, [0])) == expected
    assert refusal(lambda: orders.action("flight_info", {"descriptor": descriptor})) == expected
    assert refusal(lambda: orders.insert(descriptor, ROWS)) == expected
    statistics = {"flight_descriptor": descriptor, "column_name": "id"}
    assert refusal(lambda: orders.action("column_statistics", statistics)) == expected


def test_unknown_names_in_ddl_are_not_found(orders: Flight) -> None:
    """DDL on an unknown catalog, schema, table or column is NOT_FOUND."""
    gone = {"catalog_name": "db1", "schema_name": "sales", "name": "order"}
    hint = "Did you mean 'orders'?"

    assert refusal(lambda: orders.action("drop_table", gone)) == (
        "NOT_FOUND",
        f"table 'sales.order' not found. {hint}",
    )
    assert refusal(lambda: orders.create_table("db1", "sails", "t", ROWS.schema)) == (
        "NOT_FOUND",
        "schema 'sails' not found. Did you mean 'sales'?",
    )
    assert refusal(lambda: orders.create_schema("db", "x")) == (
        "NOT_FOUND",
        "catalog 'db' not found. Did you mean 'db1'?",
    )
    assert refusal(lambda: orders.action("remove_column", {**ALTER, "removed_column": "nam"})) == (
        "NOT_FOUND",
        "column 'nam' not found. Did you mean 'name'?",
    )
    assert refusal(lambda: orders.action("list_schemas", {"catalog_name": "db2"}))[0] == "NOT_FOUND"


def test_unknown_column_is_not_found(orders: Flight) -> None:
    """A column id or name that the table does not have is NOT_FOUND."""
    statistics = {"flight_descriptor": TABLE, "column_name": "nme"}

    assert refusal(lambda: orders.scan(TABLE, [7])) == ("NOT_FOUND", "column id '7' not found")
    assert refusal(lambda: orders.action("column_statistics", statistics)) == (
        "NOT_FOUND",
        "column 'nme' not found. Did you mean 'name'?",
    )
    update = pa.table({"nme": ["x"], "rowid": pa.array([0], pa.int64())})
    assert refusal(lambda: orders.write("update", TABLE, update)) == (
        "NOT_FOUND",
        "column 'nme' not found. Did you mean 'name'?",
    )


def test_existing_names_are_refused(orders: Flight) -> None:
    """Making what is there is ALREADY_EXISTS, in any letter case."""
    column = bytes(pa.schema([("Name", pa.string())]).serialize())

    assert refusal(lambda: orders.create_schema("db1", "SALES")) == (
        "ALREADY_EXISTS",
        "schema 'SALES' already exists",
    )
    assert refusal(lambda: orders.create_table("db1", "sales", "orders", ROWS.schema)) == (
        "ALREADY_EXISTS",
        "table 'sales.orders' already exists",
    )
    assert refusal(lambda: orders.action("add_column", {**ALTER, "column_schema": column})) == (
        "ALREADY_EXISTS",
        "column 'Name' already exists",
    )


def test_schema_with_tables_is_not_dropped(orders: Flight) -> None:
    """A schema with tables in it is FAILED_PRECONDITION to drop."""
    assert refusal(lambda: orders.action("drop_schema", {"catalog_name": "db1", "name": "sales"})) == (
        "FAILED_PRECONDITION",
        "schema 'sales' contains tables (1 table: 'orders'); drop them first or use cascade",
    )


@pytest.mark.parametrize(
    ("descriptor", "message"),
    [
        (path_descriptor(), "a path is [schema, table] or [catalog, schema, table]; this one has 0 parts"),
        (path_descriptor("x"), "a path is [schema, table] or [catalog, schema, table]; this one has 1 parts"),
        (
            path_descriptor("a", "b", "c", "d"),
            "a path is [schema, table] or [catalog, schema, table]; this one has 4 parts",
        ),
        (
            path_descriptor(*"abcde"),
            "a path is [schema, table] or [catalog, schema, table]; this one has 5 parts",
        ),
        (b"", "a flight descriptor must be of type PATH or CMD"),
        (cmd_descriptor("{"), "the command is not valid JSON"),
        (cmd_descriptor("{}"), "the command must have the strings 'schema' and 'table'"),
        (
            cmd_descriptor('{"schema": 1, "table": 2}'),
            "the command must have the strings 'schema' and 'table'",
        ),
        (cmd_descriptor(b"\xff\xfe"), "a command must be UTF-8 text"),
        (
            cmd_descriptor("no dot"),
            "a command must be schema.table, catalog.schema.table, or JSON with schema and table",
        ),
    ],
)
def test_bad_descriptor_is_invalid(orders: Flight, descriptor: bytes, message: str) -> None:
    """A descriptor that names nothing is INVALID_ARGUMENT on every way in."""
    assert refusal(lambda: orders.flight_info(descriptor)) == ("INVALID_ARGUMENT", message)
    assert refusal(lambda: orders.scan(descriptor, [])) == ("INVALID_ARGUMENT", message)
    assert refusal(lambda: orders.insert(descriptor, ROWS)) == ("INVALID_ARGUMENT", message)


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        (("VERSION", "99"), ("NOT_FOUND", "version '99' not found")),
        (("VERSION", "-1"), ("NOT_FOUND", "version '-1' not found")),
        (("VERSION", "abc"), ("INVALID_ARGUMENT", "'abc' is not a version number")),
        (("TIMESTAMP", "1999-01-01"), ("NOT_FOUND", "version at timestamp '1999-01-01' not found")),
        (
            ("TIMESTAMP", "yesterday"),
            ("INVALID_ARGUMENT", "'yesterday' is not a timestamp such as 2024-01-15T10:30:00Z"),
        ),
        (
            ("TAG", "x"),
            ("INVALID_ARGUMENT", "unknown time unit 'TAG'; use timestamp, version or snapshot"),
        ),
    ],
)
def test_bad_time_point_is_refused(orders: Flight, at: tuple[str, str], expected: tuple[str, str]) -> None:
    """A state that never was is NOT_FOUND, and a time that means nothing INVALID_ARGUMENT."""
    info = {"descriptor": TABLE, "at_unit": at[0], "at_value": at[1]}

    assert refusal(lambda: orders.scan(TABLE, [0], at=at)) == expected
    assert refusal(lambda: orders.action("flight_info", info)) == expected
