"""Malformed bodies by the thousand: every one refused properly, none of them leaving a trace."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import grpc
import msgspec
import pytest

from sparkport.memory import MemoryCatalog
from sparkport.protocol import flight_pb2 as pb
from tests.flight_client import Flight, cmd_descriptor, frame, path_descriptor, schema_header
from tests.json_client import INT, TEXT, JsonClient, put_frames, table

ADDRESS = {"schema_name": "sales", "table_name": "orders"}

# Valid bodies that would change nothing or succeed harmlessly; mutations of them are sent.
JSON_BODIES: dict[str, dict[str, Any]] = {
    "CreateSchema": {"schema_name": "sales", "if_not_exists": True, "comment": "x"},
    "DropSchema": {"schema_name": "nowhere", "if_exists": True, "cascade": False},
    "CreateTable": {
        **ADDRESS,
        "if_not_exists": True,
        "schema": {
            "fields": [
                {"name": "id", "type": "struct<a: int64, b: list<utf8>>", "nullable": True},
                {"name": "m", "type": "map", "fields": [TEXT, INT]},
                {"name": "t", "type": "timestamp[us, tz=UTC]"},
                {"name": "d", "type": "decimal128(10, 2)"},
            ],
            "metadata": {"k": "v"},
        },
        "comment": "x",
    },
    "DropTable": {"schema_name": "sales", "table_name": "nothing", "if_exists": True},
    "AlterTableAddColumn": {
        "schema_name": "sales",
        "table_name": "nothing",
        "if_exists": True,
        "column": {"name": "x", "type": "fixed_size_list<int8>[3]"},
    },
    "AlterTableDropColumn": {**ADDRESS, "if_exists": True, "column_name": "nothing"},
    "delete": {**ADDRESS, "row_ids": [900, 901], "returning": True},
    "get_transaction_status": {"transaction_id": "x"},
    "commit_transaction": {"transaction_id": "x"},
    "rollback_transaction": {"transaction_id": "x"},
    "GetTables": {"catalog": "db1", "table_name_filter_pattern": "%", "include_schema": True},
    "GetDbSchemas": {"db_schema_filter_pattern": "s%"},
}
MSGPACK_BODIES: dict[str, dict[str, Any]] = {
    "endpoints": {
        "schema": "sales",
        "table": "orders",
        "time_point": {"unit": "timestamp", "value": "2024-01-15T10:30:00Z"},
    },
    "table_function_flight_info": {"name": "F", "parameters": [1, "x", None, [1.5], {"k": b"b"}]},
    "GetTables": {"catalog": "db1", "table_types": ["TABLE"]},
    "get_transaction_status": {"transaction_id": "x"},
}
COMMANDS: list[dict[str, Any]] = [
    {"operation": "insert", "schema_name": "sales", "table_name": "nothing", "returning": True},
    {"operation": "update", **ADDRESS, "row_ids": [900], "returning": True},
]

NASTY: list[object] = [
    None,
    True,
    False,
    0,
    1,
    -1,
    1 << 63,
    1 << 64,
    10**40,
    1.5,
    1e308,
    "",
    "\0",
    "a" * 5000,
    "☃" * 2000,
    "../../etc/passwd",
    "'; DROP TABLE orders; --",
    "%s%n{0}{x}",
    [],
    {},
    [[]],
    [None],
    {"": ""},
    {"name": "x", "type": "int8"},
    "list<" * 100,
    "null",
    "list<null not null>",
    "map<null, int8>",
    "map<list<int8>, dictionary<int8, null>>",
    "dense_union<a: null, a: null>",
    "fixed_size_list[0]",
    "dictionary<bool, utf8>",
    "extension<arrow.json>",
    "struct<" + ",".join(f"c{i}: int8" for i in range(300)) + ">",
    "decimal128(" + "9" * 400 + ")",
    "timestamp[us, tz=\ud7ff]",
    "fixed_size_binary[99999999]",
    [900] * 3,
    ["x"] * 300,
]

ALLOWED = {
    "OK",
    "INVALID_ARGUMENT",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "FAILED_PRECONDITION",
    "RESOURCE_EXHAUSTED",
}
LEAKS = re.compile(
    r"Traceback|File \"|\.py\b|/src/|/usr/|/home/|/tmp|site-packages|0x[0-9a-f]{6,}|object at"
    r"|msgspec|pyarrow|sparkport|grpc|MemoryTable|MemoryCatalog|[A-Z][a-z]+(Error|Exception)\b|127\.0\.0\.1"
)
# What a mutation may put into a message by itself.
ECHOES = ("../../etc/passwd",)


def mutated(source: random.Random, value: Any) -> Any:
    """Return a value with one thing in it changed."""
    if isinstance(value, dict) and value and source.random() < 0.8:
        changed = dict(value)
        key = source.choice(list(changed))
        match source.randrange(4):
            case 0:
                del changed[key]
            case 1:
                changed[key + source.choice(["", " ", "X"])] = source.choice(NASTY)
            case _:
                changed[key] = mutated(source, changed[key])
        return changed
    if isinstance(value, list) and value and source.random() < 0.7:
        at = source.randrange(len(value))
        return [*value[:at], mutated(source, value[at]), *value[at + 1 :]]
    if isinstance(value, str) and value and source.random() < 0.5:
        at = source.randrange(len(value))
        return (
            value[:at] + source.choice(["", "<", ">", "[", "]", ",", ":", "\0", "ü", "9"]) + value[at + 1 :]
        )
    return source.choice(NASTY)


def broken(source: random.Random, data: bytes) -> bytes:
    """Return bytes with some of them changed, cut off or repeated."""
    if not data:
        return source.randbytes(5)
    at = source.randrange(len(data))
    match source.randrange(6):
        case 0:
            return data[:at]
        case 1:
            return data[:at] + source.randbytes(source.randrange(1, 6)) + data[at:]
        case 2:
            return data[:at] + bytes([data[at] ^ (1 << source.randrange(8))]) + data[at + 1 :]
        case 3:
            return data + data
        case 4:
            return data[at:] + data[:at]
        case _:
            return source.randbytes(source.randrange(40))


class Judge:
    """Counts what came back and objects to anything that should not."""

    def __init__(self) -> None:
        self.codes: Counter[str] = Counter()

    def see(self, run: Callable[[], object], shown: object) -> None:
        """Run one request and look at its outcome."""
        try:
            run()
        except grpc.RpcError as error:
            code, message = error.code().name, str(error.details())
        else:
            code, message = "OK", "fine"
        self.codes[code] += 1
        text = message
        for echo in ECHOES:
            text = text.replace(echo, "")
        assert code in ALLOWED, (code, message, shown)
        assert message, shown
        assert len(message.encode()) <= 1500, shown
        assert not LEAKS.search(text), (message, shown)


@pytest.fixture
def sales(plain: Flight) -> JsonClient:
    """Return a client of a server with a table `sales.orders` of two rows."""
    json_client = JsonClient(plain)
    json_client.json("CreateSchema", schema_name="sales")
    json_client.create_table("sales", "orders", {**INT, "nullable": False}, TEXT)
    # Mutations may well spell the row ids 0 and 1, and then they are right.
    json_client.insert("sales", "orders", table([0, 0, 1, 2], ["x", "x", "one", None]))
    json_client.delete("sales", "orders", [0, 1])
    return json_client


def orders(json_client: JsonClient) -> tuple[object, object]:
    """Return all that is known of the table."""
    return json_client.scan("sales", "orders").to_pylist(), json_client.columns("sales", "orders")


def test_mutated_json_is_refused_properly(sales: JsonClient) -> None:
    """Four thousand wrong bodies of JSON actions: a proper code each, no word about the inside."""
    source, judge, before = random.Random(1), Judge(), orders(sales)
    names = list(JSON_BODIES)
    for number in range(4000):
        name = names[number % len(names)]
        body = json.dumps(mutated(source, JSON_BODIES[name])).encode()
        if source.random() < 0.4:
            body = broken(source, body)
        judge.see(lambda name=name, body=body: sales.flight.action(name, body), (name, body))  # type: ignore[misc]

    assert judge.codes["INVALID_ARGUMENT"] > 2000
    assert orders(sales) == before


def test_mutated_msgpack_is_refused_properly(sales: JsonClient) -> None:
    """A thousand wrong bodies of msgpack actions fare the same."""
    source, judge, before = random.Random(2), Judge(), orders(sales)
    names = list(MSGPACK_BODIES)
    for number in range(1200):
        name = names[number % len(names)]
        value = mutated(source, MSGPACK_BODIES[name])
        try:
            body = msgspec.msgpack.encode(value)
        except OverflowError:  # msgpack has no larger integers
            body = msgspec.msgpack.encode({"x": [value is None]})
        if source.random() < 0.5:
            body = broken(source, body)
        judge.see(lambda name=name, body=body: sales.flight.action(name, body), (name, body))  # type: ignore[misc]

    assert judge.codes["INVALID_ARGUMENT"] > 400
    assert orders(sales) == before


def test_every_action_survives_random_bytes(sales: JsonClient) -> None:
    """Bytes without any sense are refused by every action there is."""
    source, judge, before = random.Random(3), Judge(), orders(sales)
    listed = [pb.ActionType.FromString(data).type for data in sales.flight.stream("ListActions", b"")]
    for number in range(1000):
        name = listed[number % len(listed)]
        body = source.choice([b"", b"{", b"\x80", b"\x81", b"[", b"\xff\xff"]) + source.randbytes(number % 30)
        judge.see(lambda name=name, body=body: sales.flight.action(name, body), (name, body))  # type: ignore[misc]

    assert orders(sales) == before


def test_mutated_puts_are_refused_properly(sales: JsonClient, catalog: MemoryCatalog) -> None:
    """A thousand wrong streams of rows: commands, schemas and batches broken in every place."""
    source, judge, before = random.Random(4), Judge(), orders(sales)
    version = catalog.commits.sequence
    rows = table([7], ["seven"])
    for number in range(1000):
        command = COMMANDS[number % 2]
        frames = list(put_frames(command, rows))
        match number % 3:
            case 0:
                body = json.dumps(mutated(source, command)).encode()
                body = broken(source, body) if source.random() < 0.3 else body
                frames[0] = frame(descriptor=cmd_descriptor(body), header=schema_header(rows.schema))
                if command["operation"] == "insert":
                    del frames[1:]
            case 1:
                at = source.randrange(len(frames))
                frames[at] = broken(source, frames[at])
            case _:
                source.shuffle(frames)
                frames = frames[: source.randrange(len(frames) + 1)]
        judge.see(lambda frames=frames: sales.put_frames(frames), frames)  # type: ignore[misc]

    assert judge.codes["INVALID_ARGUMENT"] > 300
    assert orders(sales) == before
    assert catalog.commits.sequence == version


def test_mutated_descriptors_are_refused_properly(sales: JsonClient) -> None:
    """Wrong descriptors and tickets are refused by the reading methods too."""
    source, judge = random.Random(5), Judge()
    (endpoint,) = sales.info("sales", "orders").endpoint
    commands = [cmd_descriptor('{"schema": "sales", "table": "orders"}'), path_descriptor("sales", "orders")]
    for number in range(500):
        descriptor = broken(source, commands[number % 2])
        ticket = broken(source, endpoint.ticket.ticket)
        judge.see(lambda descriptor=descriptor: sales.flight.flight_info(descriptor), descriptor)  # type: ignore[misc]
        judge.see(lambda descriptor=descriptor: sales.flight.unary("GetSchema", descriptor), descriptor)  # type: ignore[misc]
        judge.see(lambda ticket=ticket: sales.flight.get(ticket), ticket)  # type: ignore[misc]

    assert judge.codes["INVALID_ARGUMENT"] > 500
