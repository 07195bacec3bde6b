"""Replaying what a real DuckDB sent.

The files in `recorded` hold the messages of DuckDB 1.4.4 with Airport 2025101101,
byte for byte, with the SQL that caused them and the tables that were there before.
What another server had chosen (descriptors, tickets, transaction ids, row ids) is
replaced by what this server answers, as the client would have done.
`matching`, `changed` and `after` are what plain DuckDB does with the same SQL.
"""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import grpc
import msgspec
import pyarrow as pa

from sparkport.protocol import flight_pb2 as pb
from tests import flight_client as wire
from tests.flight_client import Exchange, Flight

FOLDER = Path(__file__).with_name("recorded")
_CATALOG_ACTIONS = ("create_transaction", "catalog_version", "list_schemas")


@dataclass(frozen=True, slots=True)
class Recorded:
    """One recorded call."""

    sql: str
    method: str
    headers: list[tuple[str, str]]
    messages: list[bytes]
    changed: int | None = None
    matching: list[int] | None = None

    @property
    def action(self) -> str:
        """The action's name, empty for other methods."""
        return pb.Action.FromString(self.messages[0]).type if self.method == "DoAction" else ""

    def header(self, name: str) -> str:
        """Return a header, or an empty text."""
        return dict(self.headers).get(name, "")


@dataclass(frozen=True, slots=True)
class Scenario:
    """A recorded scenario."""

    name: str
    catalog: str
    schemas: list[str]
    tables: list[tuple[str, str, pa.Table]]
    calls: list[Recorded]
    after: dict[str, pa.Table]
    row_ids: dict[int, int]

    def for_sql(self, beginning: str) -> list[Recorded]:
        """Return the calls of the statements that begin so."""
        return [call for call in self.calls if call.sql.startswith(beginning)]


@dataclass(slots=True)
class Answer:
    """What the server answered to one call."""

    call: Recorded
    code: grpc.StatusCode = grpc.StatusCode.OK
    message: str = ""
    results: list[bytes] = field(default_factory=list)
    rows: pa.Table | None = None
    returned: list[pa.Table] = field(default_factory=list)
    changed: int | None = None


def load(name: str) -> Scenario:
    """Read a recording."""
    raw = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))
    return Scenario(
        raw["scenario"],
        raw["catalog"],
        raw["schemas"],
        [(one["schema"], one["table"], _rows(one["rows"])) for one in raw["tables"]],
        [_recorded(call) for call in raw["calls"]],
        {path: _rows(rows) for path, rows in raw.get("after", {}).items()},
        {int(old): new for old, new in raw.get("row_ids", {}).items()},
    )


class Replay:
    """Plays recorded calls to a server, keeping what the client would keep between them."""

    def __init__(self, client: Flight, scenario: Scenario) -> None:
        self.client = client
        self.scenario = scenario
        self.entries: dict[tuple[str, str], pb.FlightInfo] = {}
        self._tickets: list[bytes] = []
        self._transaction = ""

    def set_up(self) -> Self:
        """Make the schemas and tables that were there before the recording began."""
        catalog = self.scenario.catalog
        for schema in self.scenario.schemas:
            self.client.create_schema(catalog, schema)
        for schema, table, rows in self.scenario.tables:
            info = self.client.create_table(catalog, schema, table, rows.schema)
            if rows.num_rows:
                self.client.insert(wire.descriptor_of(info), rows)
        (listing,) = self.client.action("list_schemas", {"catalog_name": catalog})
        for name, infos in flights_by_schema(listing).items():
            for info in infos:
                self._keep(name, info)
        return self

    def play(self, call: Recorded) -> Answer:
        """Send one recorded call and check that the answer has the shape the client needs."""
        answer = Answer(call)
        try:
            match call.method:
                case "DoAction":
                    self._action(call, answer)
                case "DoGet":
                    self._get(answer)
                case "DoExchange":
                    self._exchange(call, answer)
                case "GetFlightInfo":
                    self._flight_info(call, answer)
                case "ListFlights":
                    answer.results = list(
                        self.client.stream("ListFlights", call.messages[0], self._headers(call))
                    )
        except grpc.RpcError as error:
            answer.code, answer.message = error.code(), str(error.details())
        return answer

    def play_all(self, *, skip_sql: tuple[str, ...] = ()) -> list[Answer]:
        """Play the whole recording."""
        return [
            self.play(call) for call in self.scenario.calls if not call.sql.startswith(skip_sql or ("\0",))
        ]

    def descriptor(self, schema: str, table: str) -> bytes:
        """Return the descriptor that the client holds of a table."""
        return wire.descriptor_of(self.entries[schema.lower(), table.lower()])

    def read(self, schema: str, table: str) -> pa.Table:
        """Read all rows of a table, without the row id."""
        info = self.entries[schema.lower(), table.lower()]
        names = [one.name for one in wire.schema_in(info) if not is_rowid(one)]
        return self.client.read(wire.descriptor_of(info), len(names)).select(names)

    def _keep(self, schema: str, info: pb.FlightInfo) -> None:
        metadata = msgspec.msgpack.decode(info.app_metadata)
        assert metadata["catalog"] == self.scenario.catalog
        assert metadata["schema"] == schema
        self.entries[schema.lower(), metadata["name"].lower()] = info

    def _action(self, call: Recorded, answer: Answer) -> None:
        action = pb.Action.FromString(call.messages[0])
        body = self._own_descriptor(action.body)
        answer.results = self.client.action(action.type, body, self._headers(call))
        count = len(answer.results)
        match action.type:
            case "drop_table" | "drop_schema":
                assert count == 0, "nothing is read of a drop"
            case _:
                assert count == 1, "the client reads exactly one result"
        if action.type == "endpoints":
            check_endpoints(answer.results[0])
            self._tickets = wire.tickets(answer.results[0])
        elif action.type == "create_transaction":
            self._transaction = msgspec.msgpack.decode(answer.results[0])["identifier"] or ""
        elif action.type == "flight_info":
            check_info(pb.FlightInfo.FromString(answer.results[0]))
        elif action.type == "create_schema":
            check_contents(msgspec.msgpack.decode(answer.results[0]))
        elif count and action.type not in {*_CATALOG_ACTIONS, "column_statistics"}:
            info = pb.FlightInfo.FromString(answer.results[0])
            check_info(info)
            self._keep(msgspec.msgpack.decode(info.app_metadata)["schema"], info)

    def _get(self, answer: Answer) -> None:
        ticket = self._tickets.pop(0)
        frames = self.client.get(ticket)
        check_stream(frames)
        answer.rows = wire.table_of(frames)

    def _flight_info(self, call: Recorded, answer: Answer) -> None:
        descriptor = self._replacement(call.messages[0])
        info = self.client.flight_info(descriptor, self._headers(call))
        answer.results = [info.SerializeToString()]
        assert wire.descriptor_of(info) == descriptor, "the client compares the descriptors"

    def _exchange(self, call: Recorded, answer: Answer) -> None:
        returning = call.header("return-chunks") == "1"
        headers = [*self.client.headers, *self._headers(call)]
        exchange = Exchange(self.client.channel, headers)
        old = wire.fields(call.messages[0])[1]
        opening, batches = call.messages[:2], call.messages[2:]
        for message in opening:
            exchange.send(wire.with_descriptor(message, self._replacement(old)))
        # The client sends no row before it has the server's schema.
        reply = exchange.receive()
        incoming = wire.schema_of(opening[-1])
        frames = [reply]
        for message in batches:
            exchange.send(self._own_row_ids(message, incoming))
            if returning:
                frames.append(exchange.receive())
                assert wire.is_batch(frames[-1])
                assert not wire.has_metadata(frames[-1])
                answer.returned.append(wire.table_of([reply, frames[-1]]))
        exchange.half_close()
        last = exchange.rest()
        assert len(last) == 1, "after the end of the input only the count is sent"
        answer.changed = wire.total_changed(last[0])
        answer.rows = wire.table_of(frames)
        self._check_reply(call, incoming, answer.rows.schema, old)

    def _check_reply(self, call: Recorded, incoming: pa.Schema, reply: pa.Schema, old: bytes) -> None:
        advertised = wire.schema_in(self.entries[self._names(old)])
        assert is_rowid(reply.field(len(reply) - 1)), "the row id comes last"
        for one in reply:
            assert one.type == advertised.field(one.name).type, "the types are the advertised ones"
        if call.header("airport-operation") == "update":
            assert reply.names[: len(incoming) - 1] == incoming.names[:-1], "the reply is in incoming order"
            assert reply.names[-1] == "rowid"
        else:
            assert reply.names == advertised.names

    def _own_row_ids(self, message: bytes, incoming: pa.Schema) -> bytes:
        if not self.scenario.row_ids or incoming.names[-1:] != ["rowid"]:
            return message
        rows = wire.table_of([wire.frame(header=wire.schema_header(incoming)), message])
        ids = [self.scenario.row_ids.get(number, number) for number in rows["rowid"].to_pylist()]
        changed = rows.set_column(rows.num_columns - 1, incoming.field("rowid"), pa.array(ids, pa.int64()))
        return wire.batch_frames(changed)[0]

    def _headers(self, call: Recorded) -> list[tuple[str, str]]:
        """Return the recorded headers, with our transaction id where there was one."""
        own = {"airport-transaction-id": self._transaction}
        return [(key, own.get(key, value) if value else value) for key, value in call.headers]

    def _own_descriptor(self, body: bytes) -> bytes:
        for old, new in self._replacements().items():
            body = body.replace(_packed(old), _packed(new))
        return body

    def _replacement(self, old: bytes) -> bytes:
        return self._replacements().get(old, old)

    def _replacements(self) -> dict[bytes, bytes]:
        """Return our descriptors by those of the server that was recorded."""
        catalog = self.scenario.catalog
        found: dict[bytes, bytes] = {}
        for (schema, table), info in self.entries.items():
            name = msgspec.msgpack.decode(info.app_metadata)["name"]
            for spelled in {name, table}:
                recorded = wire.path_descriptor(f"{catalog}/{schema}/table/{spelled}")
                found[recorded] = wire.descriptor_of(info)
        return found

    def _names(self, old: bytes) -> tuple[str, str]:
        """Return schema and table of a recorded descriptor."""
        _, schema, _, table = pb.FlightDescriptor.FromString(old).path[0].split("/")
        return schema.lower(), table.lower()


def is_rowid(one: pa.Field) -> bool:
    """Say whether the client takes the field for the row id."""
    return bool((one.metadata or {}).get(b"is_rowid"))


def check_info(info: pb.FlightInfo) -> None:
    """Check what the client needs of a table's FlightInfo."""
    metadata = msgspec.msgpack.decode(info.app_metadata)
    assert metadata["type"] == "table"
    assert {"type", "schema", "catalog", "name", "comment"} <= set(metadata)
    assert metadata["input_schema"] is None
    columns = wire.schema_in(info)
    assert [is_rowid(one) for one in columns] == [False] * (len(columns) - 1) + [True]
    path = info.flight_descriptor.path
    assert all(part.isascii() and part.isprintable() for part in path)
    assert info.flight_descriptor.type in {pb.FlightDescriptor.PATH, pb.FlightDescriptor.CMD}


def check_contents(contents: dict[str, Any]) -> None:
    """Check the hash and the length of a contents object."""
    serialized = contents["serialized"]
    assert contents["sha256"] == hashlib.sha256(serialized).hexdigest()
    unpacked(serialized)


def check_endpoints(body: bytes) -> None:
    """Check that every endpoint can be read by the client."""
    for data in msgspec.msgpack.decode(body):
        endpoint = pb.FlightEndpoint.FromString(data)
        assert [location.uri for location in endpoint.location] == ["arrow-flight-reuse-connection://?"]


def check_stream(frames: list[bytes]) -> None:
    """Check a DoGet stream: one schema, then batches, no metadata anywhere."""
    assert not wire.is_batch(frames[0])
    assert all(wire.is_batch(one) for one in frames[1:])
    assert not any(wire.has_metadata(one) for one in frames)


def unpacked(data: bytes) -> Any:
    """Return the content of a `[length, zstd]` pair, whose length must be exact."""
    length, compressed = msgspec.msgpack.decode(data)
    payload = pa.Codec("zstd").decompress(compressed, decompressed_size=length, asbytes=True)
    assert len(payload) == length
    return msgspec.msgpack.decode(payload)


def flights_by_schema(listing: bytes) -> dict[str, list[pb.FlightInfo]]:
    """Return the flights of a `list_schemas` answer."""
    found: dict[str, list[pb.FlightInfo]] = {}
    for schema in unpacked(listing)["schemas"]:
        check_contents(schema["contents"])
        found[schema["name"]] = [
            pb.FlightInfo.FromString(data) for data in unpacked(schema["contents"]["serialized"])
        ]
    return found


def _packed(data: bytes) -> bytes:
    """Return bytes as the client packs them: as a msgpack str."""
    size = len(data)
    if size < 32:
        return bytes([0xA0 | size]) + data
    return (b"\xd9" + bytes([size]) if size < 256 else b"\xda" + size.to_bytes(2, "big")) + data


def _rows(text: str) -> pa.Table:
    return pa.ipc.open_stream(pa.py_buffer(base64.b64decode(text))).read_all()


def _recorded(raw: dict[str, Any]) -> Recorded:
    headers = [
        (key, one)
        for key, value in raw["headers"].items()
        for one in (value if isinstance(value, list) else [value])
    ]
    return Recorded(
        raw["sql"],
        raw["method"],
        headers,
        [base64.b64decode(message) for message in raw.get("messages", [])],
        raw.get("changed"),
        raw.get("matching"),
    )
