"""Damaged requests: whatever arrives, the answer is a sentence, and the server goes on."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator

import grpc
import msgspec
import pyarrow as pa
import pytest

from sparkport.catalog import Call
from sparkport.catalog.lookup import TablePath
from sparkport.errors import SparkportError
from sparkport.flight import routes
from sparkport.flight.context import ServerContext
from sparkport.flight.request import Headers, Request
from sparkport.memory import MemoryCatalog
from sparkport.protocol import descriptor
from sparkport.protocol.airport import predicates
from sparkport.protocol.ipc import flight_data
from sparkport.protocol.ipc.flight_data import Decoder
from sparkport.protocol.ticket import Ticket, TicketSigner
from sparkport.toolkit.registry import Catalogs
from tests import flight_client as wire
from tests.flight_client import Exchange, Flight, path_descriptor

COLUMNS = pa.schema([("id", pa.int64()), ("name", pa.string()), ("st", pa.struct([("x", pa.int32())]))])
ROWS = pa.table({"id": [1, 2], "name": ["a", None], "st": [{"x": 1}, None]}, schema=COLUMNS)
TABLE = path_descriptor("db1", "s", "t")
FILTERS = (
    '{"filters":[{"expression_class":"BOUND_COMPARISON","type":"COMPARE_EQUAL","alias":"","query_location":7,'
    '"left":{"expression_class":"BOUND_COLUMN_REF","type":"BOUND_COLUMN_REF","alias":"id","query_location":7,'
    '"return_type":{"id":"BIGINT","type_info":null},"binding":{"table_index":0,"column_index":0},"depth":0},'
    '"right":{"expression_class":"BOUND_CONSTANT","type":"VALUE_CONSTANT","alias":"","query_location":7,'
    '"value":{"type":{"id":"BIGINT","type_info":null},"is_null":false,"value":1}}}],'
    '"column_binding_names_by_index":["id"]}'
)
# What would tell a caller of the inside of the server.
INSIDE = re.compile(
    r"Traceback|\.py\b|0x[0-9a-f]{6}|<class|sparkport\.|site-packages|pyarrow|object at|Internal"
)


def _alter(**more: object) -> dict[str, object]:
    return {"catalog": "db1", "schema": "s", "name": "t", "ignore_not_found": False, **more}


def _field(name: str, kind: pa.DataType) -> bytes:
    return bytes(pa.schema([(name, kind)]).serialize())


BODIES: dict[str, dict[str, object]] = {
    "list_schemas": {"catalog_name": "db1"},
    "catalog_version": {"catalog_name": "db1"},
    "create_transaction": {"catalog_name": "db1"},
    "flight_info": {"descriptor": TABLE, "at_unit": "VERSION", "at_value": "1"},
    "endpoints": {
        "descriptor": TABLE,
        "parameters": {
            "json_filters": FILTERS,
            "column_ids": [0, 1, 18446744073709551615],
            "table_function_parameters": "",
            "table_function_input_schema": "",
            "at_unit": "TIMESTAMP",
            "at_value": "2030-01-01 00:00:00",
        },
    },
    "column_statistics": {"flight_descriptor": TABLE, "column_name": "id", "type": "BIGINT"},
    "create_schema": {"catalog_name": "db1", "schema": "x", "comment": None, "tags": {}},
    "drop_schema": {"type": "schema", "catalog_name": "db1", "schema_name": "", "name": "x"},
    "create_table": {
        "catalog_name": "db1",
        "schema_name": "s",
        "table_name": "u",
        "arrow_schema": bytes(COLUMNS.serialize()),
        "on_conflict": "ignore",
        "not_null_constraints": [0],
        "unique_constraints": [],
        "check_constraints": ["(id > 0)"],
        "primary_key_columns": ["id"],
        "unique_columns": ["name"],
        "multi_key_primary_keys": [],
        "extra_constraints": ["UNIQUE(id, name)"],
    },
    "drop_table": {"type": "table", "catalog_name": "db1", "schema_name": "s", "name": "u"},
    "add_column": _alter(column_schema=_field("n", pa.int32()), if_column_not_exists=True),
    "remove_column": _alter(removed_column="n", if_column_exists=True, cascade=False),
    "rename_column": _alter(old_name="name", new_name="label"),
    "rename_table": _alter(new_table_name="t"),
    "change_column_type": _alter(column_schema=_field("id", pa.int64()), expression="CAST(id AS BIGINT)"),
    "set_default": _alter(column_name="name", expression="'x'"),
    "set_not_null": _alter(column_name="id"),
    "drop_not_null": _alter(column_name="id"),
    "add_field": _alter(column_path=["st"], column_schema=_field("y", pa.int32()), if_field_not_exists=True),
    "rename_field": _alter(column_path=["st", "x"], new_name="x"),
    "remove_field": _alter(column_path=["st", "y"], if_column_exists=True, cascade=False),
    "add_constraint": _alter(constraint="CHECK (id > 0)"),
}
ODD: list[object] = [
    None,
    True,
    -1,
    2**64 - 1,
    1.5,
    float("nan"),
    "",
    "\0",
    "x" * 5000,
    "'; DROP TABLE t; --",
    "(SELECT content FROM read_text('/etc/hostname'))",
    "1 / 0",
    "id +",
    b"",
    b"\xff\xfe",
    path_descriptor("__databases"),
    [],
    [[]],
    [-1],
    [2**63],
    ["x"],
    {},
    {"a": {"b": {"c": []}}},
]
# These run SQL of the engine, which takes milliseconds each.
SLOW = {"create_table", "change_column_type", "set_default", "add_constraint"}


def mutations(data: bytes, count: int, seed: int) -> Iterator[bytes]:
    """Yield damaged copies: bits flipped, pieces cut, doubled, swapped, or made of other bytes."""
    dice = random.Random(seed)
    for _ in range(count):
        copy = bytearray(data)
        for _ in range(dice.choice((1, 1, 1, 2, 4))):
            at = dice.randrange(len(copy) + 1)
            match dice.randrange(6):
                case 0 if at < len(copy):
                    copy[at] ^= 1 << dice.randrange(8)
                case 1 if at < len(copy):
                    copy[at] = dice.choice((0, 0x7F, 0x80, 0xC1, 0xFF, 0xDF, 0xDD, 0xDB))
                case 2:
                    del copy[at:]
                case 3:
                    del copy[at : at + dice.randrange(8)]
                case 4:
                    copy[at:at] = copy[at : at + dice.randrange(16)]
                case _:
                    copy[at:at] = dice.randbytes(dice.randrange(5))
        yield bytes(copy)


class Nowhere:
    """Stands for the connection of a request that came by none."""

    connection = ""

    def time_remaining(self) -> float | None:
        """Return no deadline."""
        return None

    def send_initial_metadata(self, initial_metadata: tuple[tuple[str, str], ...]) -> None:
        """Send nothing."""

    def take_events(self, seconds: float) -> None:
        """Do nothing: there is nobody who could cancel."""


def fresh() -> tuple[ServerContext, Request]:
    """Return a context with the table `s.t`, and a request to it."""
    request = Request(Call(), Headers([("airport-user-agent", "airport/1")]), Nowhere())
    context = ServerContext(Catalogs({"db1": MemoryCatalog()}))
    routes.run(
        "create_schema", context, request, msgspec.msgpack.encode(BODIES["create_schema"] | {"schema": "s"})
    )
    body = BODIES["create_table"] | {"table_name": "t", "check_constraints": [], "extra_constraints": []}
    routes.run("create_table", context, request, msgspec.msgpack.encode(body))
    return context, request


def tally(run: Callable[[bytes], object], inputs: Iterator[bytes]) -> Counter[str]:
    """Count how damaged inputs end; anything but our own errors ends the test."""
    ends: Counter[str] = Counter()
    for data in inputs:
        message = ""
        try:
            run(data)
        except SparkportError as error:
            message = str(error)
        assert not INSIDE.search(message), message
        ends["refused" if message else "taken"] += 1
    return ends


@pytest.mark.parametrize("action", sorted(BODIES))
def test_damaged_bodies_are_taken_or_refused(action: str) -> None:
    """A damaged body of any action is done or refused by one of our own errors."""
    context, request = fresh()
    body = msgspec.msgpack.encode(BODIES[action])
    count = 200 if action in SLOW else 2000
    ends = tally(lambda data: routes.run(action, context, request, data), mutations(body, count, seed=1))

    assert ends["refused"] > count // 4
    assert ends.total() == count


@pytest.mark.parametrize("action", sorted(BODIES))
def test_values_of_any_type_are_taken_or_refused(action: str) -> None:
    """A sound map with any one value replaced by something odd is done or refused."""
    context, request = fresh()
    bodies = [msgspec.msgpack.encode(body) for body in replaced(BODIES[action])]
    ends = tally(lambda data: routes.run(action, context, request, data), iter(bodies))

    assert ends["refused"] > 0


def replaced(body: dict[str, object]) -> Iterator[dict[str, object]]:
    """Yield the body with each value, also of inner maps, replaced by each odd one."""
    for key, value in body.items():
        for odd in ODD:
            yield body | {key: odd}
        if isinstance(value, dict):
            for inner in replaced(value):
                yield body | {key: inner}


def test_damaged_descriptors_are_refused() -> None:
    """A damaged descriptor of any form names a table or is refused."""
    forms = [TABLE, wire.cmd_descriptor('"db1"."s"."t"'), wire.cmd_descriptor('{"schema":"s","table":"t"}')]
    ends = Counter[str]()
    for form in forms:
        ends += tally(descriptor.decode, mutations(form, 1500, seed=2))

    assert ends["refused"] > 500


def test_damaged_tickets_are_refused() -> None:
    """No damaged ticket is opened, except by a copy that is the ticket itself."""
    signer = TicketSigner(b"k" * 32)
    ticket = signer.sign(Ticket(TablePath("db1", "s", "t"), ("id",), FILTERS.encode()), "me")
    ends = tally(
        lambda data: signer.verify(data, "me"),
        (data for data in mutations(ticket, 3000, seed=3) if data != ticket),
    )

    assert ends["taken"] == 0


def test_sealed_nonsense_is_refused() -> None:
    """A payload that is sealed rightly but is no ticket, as of another version, is refused."""
    signer = TicketSigner(b"k" * 32)
    ticket = signer.sign(Ticket(TablePath("db1", "s", "t"), ("id",)), "me")[32:]
    sealed = (signer._mac(data, "me") + data for data in mutations(ticket, 1000, seed=4))

    assert tally(lambda data: signer.verify(data, "me"), sealed)["refused"] > 100


def test_damaged_filters_are_decoded_or_refused() -> None:
    """A damaged filter document is decoded, weakened or refused."""
    ends = tally(predicates.decode, mutations(FILTERS.encode(), 5000, seed=5))

    assert ends.total() == 5000


def test_damaged_frames_are_read_or_refused() -> None:
    """A damaged stream of frames yields rows or is refused, but never anything else."""
    head = wire.frame(descriptor=TABLE, header=wire.schema_header(COLUMNS))
    batch = wire.batch_frames(ROWS)[0]

    def read(frames: list[bytes]) -> None:
        for _ in Decoder(flight_data.decode(one) for one in frames):
            pass

    ends = tally(lambda data: read([data, batch]), mutations(head, 3000, seed=6))
    ends += tally(lambda data: read([head, data]), mutations(batch, 5000, seed=7))

    assert ends["refused"] > 500


@pytest.fixture
def table(client: Flight) -> Flight:
    """Make `s.t` with two rows."""
    client.create_schema("db1", "s")
    client.create_table("db1", "s", "t", COLUMNS)
    client.insert(TABLE, ROWS)
    return client


def ended(run: Callable[[], object]) -> str:
    """Return the code of a call, after a look at what its message tells."""
    code, message = "OK", ""
    try:
        run()
    except grpc.RpcError as error:
        code, message = error.code().name, str(error.details())
    assert not INSIDE.search(message), message
    return code


def test_damaged_actions_over_the_wire(table: Flight) -> None:
    """Damaged action messages never end with UNKNOWN or INTERNAL, and the table is still there."""
    reading = ("list_schemas", "flight_info", "endpoints", "column_statistics", "create_transaction")
    codes = Counter[str]()
    for action in reading:
        message = msgspec.msgpack.encode(BODIES[action])
        whole = b"\n" + bytes([len(action)]) + action.encode() + b"\x12\x7f" + message
        for data in mutations(whole, 200, seed=8):
            codes[ended(lambda data=data: list(table.stream("DoAction", data)))] += 1  # type: ignore[misc]

    assert codes.keys() <= {"OK", "INVALID_ARGUMENT", "NOT_FOUND", "UNIMPLEMENTED", "FAILED_PRECONDITION"}
    assert table.read(TABLE, 3).num_rows == 2


def test_damaged_exchanges_over_the_wire(table: Flight) -> None:
    """Damaged frames of an INSERT never end with UNKNOWN or INTERNAL, and refused ones leave no row."""
    head = wire.frame(descriptor=TABLE, header=wire.schema_header(COLUMNS))
    batch = wire.batch_frames(ROWS)[0]
    headers = [*table.headers, ("airport-operation", "insert"), ("return-chunks", "1")]
    codes = Counter[str]()
    for index, data in enumerate(mutations(head + batch, 400, seed=9)):
        frames = [data[: len(head)], data[len(head) :]]
        if index % 2:
            frames = [head, *list(mutations(batch, 1, seed=index))]
        exchange = Exchange(table.channel, headers)
        for one in frames:
            exchange.send(one)
        exchange.half_close()
        codes[ended(exchange.rest)] += 1

    assert codes.keys() <= {"OK", "INVALID_ARGUMENT", "NOT_FOUND", "RESOURCE_EXHAUSTED"}
    assert codes["INVALID_ARGUMENT"] > 100
    rows = table.read(TABLE, 3)
    assert rows.slice(0, 2).drop_columns(["rowid"]).equals(ROWS)
    assert rows.num_rows % 2 == 0


def test_damaged_headers_are_no_obstacle(table: Flight) -> None:
    """Headers of any content are taken as text or refused like any other request."""
    dice = random.Random(10)
    codes = Counter[str]()
    for name in (
        "airport-trace-id",
        "airport-transaction-id",
        "airport-flight-path",
        "airport-catalog",
        "return-chunks",
    ):
        for _ in range(20):
            value = "".join(chr(dice.randrange(33, 127)) for _ in range(dice.randrange(1, 200)))
            codes[ended(lambda name=name, value=value: table.scan(TABLE, [0], headers=[(name, value)]))] += 1  # type: ignore[misc]

    assert codes == {"OK": 80, "NOT_FOUND": 20}
