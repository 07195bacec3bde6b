"""The JSON dialect over raw gRPC: JSON in, JSON or msgpack out, and the plain status of a refusal."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from sparkport.protocol import flight_pb2 as pb
from tests.flight_client import (
    SERVICE,
    TIMEOUT,
    Flight,
    Headers,
    batch_frames,
    cmd_descriptor,
    frame,
    path_descriptor,
    schema_header,
    schema_in,
    table_of,
)

INT = {"name": "id", "type": "int64"}
TEXT = {"name": "name", "type": "utf8"}


class JsonClient:
    """Speaks the dialect through a raw Flight client; `headers` go with every call."""

    def __init__(self, flight: Flight, headers: Headers = ()) -> None:
        self.flight = flight
        self.headers = list(headers)

    def within(self, transaction_id: str, header: str = "x-transaction-id") -> JsonClient:
        """Return a client whose calls carry a transaction id."""
        return JsonClient(self.flight, [(header, transaction_id)])

    def raw(self, action: str, body: bytes) -> dict[str, Any]:
        """Run an action with any body and return its one JSON answer."""
        (answer,) = self.flight.action(action, body, self.headers)
        decoded: dict[str, Any] = json.loads(answer)
        return decoded

    def json(self, action: str, **body: object) -> dict[str, Any]:
        """Run an action with a JSON body."""
        return self.raw(action, json.dumps(body).encode())

    def begin(self, *, auto_commit: bool) -> str:
        """Begin a transaction."""
        return str(self.json("create_transaction", auto_commit=auto_commit)["transaction_id"])

    def state(self, transaction_id: str) -> str:
        """Return where a transaction stands."""
        return str(self.json("get_transaction_status", transaction_id=transaction_id)["state"])

    def create_table(
        self, schema: str, table: str, *columns: Mapping[str, object], **options: object
    ) -> dict[str, Any]:
        """Make a table."""
        body = {"schema_name": schema, "table_name": table, "schema": {"fields": list(columns)}, **options}
        return self.json("CreateTable", **body)

    def put_frames(self, frames: Iterable[bytes]) -> list[dict[str, Any]]:
        """Send a DoPut and return its answers."""
        call: Callable[..., Iterable[bytes]] = self.flight.channel.stream_stream(SERVICE + "DoPut")
        results = call(iter(frames), metadata=(*self.flight.headers, *self.headers), timeout=TIMEOUT)
        return [msgspec.msgpack.decode(pb.PutResult.FromString(data).app_metadata) for data in results]

    def put(self, command: Mapping[str, object], rows: pa.Table) -> dict[str, Any]:
        """Run a statement with rows and return its one answer."""
        (answer,) = self.put_frames(put_frames(command, rows))
        return answer

    def insert(self, schema: str, table: str, rows: pa.Table, **options: object) -> dict[str, Any]:
        """Insert rows."""
        return self.put({"operation": "insert", "schema_name": schema, "table_name": table, **options}, rows)

    def update(
        self, schema: str, table: str, row_ids: Sequence[int], rows: pa.Table, **options: object
    ) -> dict[str, Any]:
        """Replace rows."""
        command = {"operation": "update", "schema_name": schema, "table_name": table, "row_ids": row_ids}
        return self.put({**command, **options}, rows)

    def delete(self, schema: str, table: str, row_ids: Sequence[int], **options: object) -> dict[str, Any]:
        """Delete rows."""
        return self.json("delete", schema_name=schema, table_name=table, row_ids=row_ids, **options)

    def columns(self, schema: str, table: str) -> pa.Schema:
        """Return the columns by GetSchema, with the row id last."""
        data = self.flight.unary("GetSchema", path_descriptor(schema, table), self.headers)
        return pa.ipc.read_schema(pa.py_buffer(pb.SchemaResult.FromString(data).schema))

    def info(self, schema: str, table: str) -> pb.FlightInfo:
        """Call GetFlightInfo."""
        return self.flight.flight_info(path_descriptor(schema, table), self.headers)

    def scan(self, schema: str, table: str) -> pa.Table:
        """Read a table by GetFlightInfo and DoGet."""
        info = self.info(schema, table)
        parts = [
            table_of(self.flight.get(endpoint.ticket.ticket, self.headers)) for endpoint in info.endpoint
        ]
        return pa.concat_tables(parts, promote_options="none").cast(schema_in(info))

    def rows(self, schema: str, table: str) -> list[dict[str, Any]]:
        """Return the rows without their ids."""
        found = self.scan(schema, table)
        rows: list[dict[str, Any]] = found.drop_columns([found.column_names[-1]]).to_pylist()
        return rows

    def ids(self, schema: str, table: str) -> list[int]:
        """Return the row ids."""
        found = self.scan(schema, table)
        ids: list[int] = found.column(found.num_columns - 1).to_pylist()
        return ids


def put_frames(
    command: Mapping[str, object], rows: pa.Table, *, descriptor_alone: bool = False
) -> Iterator[bytes]:
    """Yield the messages of a DoPut; the descriptor comes with the schema, or alone before it."""
    address = cmd_descriptor(json.dumps(command))
    if descriptor_alone:
        yield frame(descriptor=address)
        yield frame(header=schema_header(rows.schema))
    else:
        yield frame(descriptor=address, header=schema_header(rows.schema))
    yield from batch_frames(rows)


def table(ids: Sequence[int | None], names: Sequence[str | None]) -> pa.Table:
    """Return rows of the usual two columns."""
    return pa.table({"id": pa.array(ids, pa.int64()), "name": pa.array(names, pa.string())})


def returned(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of a RETURNING answer of DoPut."""
    rows: list[dict[str, Any]] = pa.ipc.open_stream(answer["returning_data"]).read_all().to_pylist()
    return rows
