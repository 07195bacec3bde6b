"""Pitfalls of writing and of failing: exchanges in lockstep, errors that the client understands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import grpc
import msgspec
import pyarrow as pa
import pytest

import sparkport
from sparkport.protocol import flight_pb2 as pb
from tests import flight_client as wire
from tests.flight_client import Flight, descriptor_of, schema_in

from .conftest import COLUMNS, ROWS
from .replay import is_rowid


def failed(run: Any) -> grpc.Call:
    """Return the finished call of a request that must fail, with its trailers."""
    with pytest.raises(grpc.RpcError) as caught:
        list(run)
    error = caught.value
    assert isinstance(error, grpc.Call)
    return error


def trailers(error: grpc.Call) -> dict[str, str | bytes]:
    """Return the trailing headers of a call."""
    return {key: value for key, value in error.trailing_metadata() or ()}  # noqa: C416 - named tuples


def action(client: Flight, name: str, body: Mapping[str, object]) -> Any:
    """Start an action and return the running call."""
    request = pb.Action(type=name, body=msgspec.msgpack.encode(body)).SerializeToString()
    return client.stream("DoAction", request)


def test_exchange_answers_its_schema_before_any_row(client: Flight, table: pb.FlightInfo) -> None:
    """The client blocks on the server's schema before it sends a row, in every operation."""
    for operation, incoming in {
        "insert": COLUMNS,
        "update": pa.schema([("name", pa.string()), ("rowid", pa.int64())]),
        "delete": pa.schema([("rowid", pa.int64())]),
    }.items():
        exchange = client.exchange(operation)
        answer = exchange.open(descriptor_of(table), incoming)
        exchange.half_close()

        assert answer.names[-1] == "rowid"
        assert wire.total_changed(exchange.rest()[0]) == 0


def test_returning_answers_one_batch_per_batch(client: Flight, table: pb.FlightInfo) -> None:
    """RETURNING answers exactly one batch for each, also for a batch without rows."""
    exchange = client.exchange("insert", returning=True)
    exchange.open(descriptor_of(table), COLUMNS)
    sizes = []
    (both,) = ROWS.to_batches()
    for rows in (both, both.slice(0, 0), both.slice(1)):
        exchange.send(wire.batch_frames(rows)[0])
        answer = exchange.receive()
        assert wire.is_batch(answer)
        head = wire.frame(header=wire.schema_header(schema_in(table)))
        sizes.append(wire.table_of([head, answer]).num_rows)
    exchange.half_close()
    (last,) = exchange.rest()

    assert sizes == [2, 0, 1]
    assert wire.total_changed(last) == 3


def test_without_returning_no_row_is_sent(client: Flight, table: pb.FlightInfo) -> None:
    """With return-chunks 0 nothing follows the schema but the count."""
    exchange = client.exchange("insert")
    exchange.open(descriptor_of(table), COLUMNS)
    exchange.send(wire.batch_frames(ROWS)[0])
    exchange.half_close()
    rest = exchange.rest()

    assert len(rest) == 1
    assert wire.total_changed(rest[0]) == 2


def test_update_answers_in_incoming_order_and_advertised_types(client: Flight) -> None:
    """RETURNING of an UPDATE comes in the order that was sent, in the table's types, row id last."""
    uuid = pa.schema([pa.field("u", pa.uuid()), ("n", pa.int32())])
    client.create_schema("db1", "s")
    info = client.create_table("db1", "s", "u", uuid)
    text = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
    client.insert(descriptor_of(info), pa.table({"u": [text], "n": pa.array([1], pa.int32())}))
    sent = pa.table({"n": pa.array([7], pa.int32()), "u": [text], "rowid": pa.array([0], pa.int64())})
    exchange = client.exchange("update", returning=True)
    answer = exchange.open(descriptor_of(info), sent.schema)
    exchange.send(wire.batch_frames(sent)[0])
    exchange.receive()
    exchange.half_close()

    assert answer.names == ["n", "u", "rowid"]
    assert answer.types == [pa.int32(), pa.uuid(), pa.int64()]
    assert is_rowid(answer.field("rowid"))
    assert wire.total_changed(exchange.rest()[0]) == 1


def test_expected_errors_do_not_make_the_client_wait(client: Flight) -> None:
    """For Airport every refusal says `invalid` in Arrow's terms beside its exact gRPC code."""
    error = failed(action(client, "list_schemas", {"catalog_name": "nope"}))

    assert error.code() is grpc.StatusCode.NOT_FOUND
    assert trailers(error)["x-arrow-status"] == "4"
    assert trailers(error)["x-arrow-status-message-bin"] == b"catalog 'nope' not found"


def test_unauthenticated_does_not_make_the_client_wait(server: sparkport.Server) -> None:
    """The same holds for a missing token, and the text says how to give one to scans."""
    with Flight(server.location, None) as stranger:
        error = failed(action(stranger, "list_schemas", {"catalog_name": "db1"}))

    assert error.code() is grpc.StatusCode.UNAUTHENTICATED
    assert trailers(error)["x-arrow-status"] == "4"
    assert "CREATE SECRET (TYPE airport" in str(error.details())


def test_other_clients_get_plain_grpc_errors(plain: Flight) -> None:
    """The trailers that steer Airport are not sent to other clients."""
    error = failed(action(plain, "list_schemas", {"catalog_name": "nope"}))

    assert error.code() is grpc.StatusCode.NOT_FOUND
    assert not {"x-arrow-status", "x-arrow-status-message-bin", "grpc-status-details-bin"} & set(
        trailers(error)
    )


def test_broken_constraint_is_typed_on_streams_only(client: Flight) -> None:
    """A broken constraint is DuckDB's ConstraintException on an exchange, not on an action."""
    client.create_schema("db1", "s")
    info = client.create_table("db1", "s", "k", COLUMNS, unique_columns=["id"])
    twice = pa.concat_tables([ROWS, ROWS])
    exchange = client.exchange("insert")
    exchange.open(descriptor_of(info), COLUMNS)
    exchange.send(wire.batch_frames(twice.combine_chunks())[0])
    exchange.half_close()
    error = failed(exchange.call)
    details = trailers(error)["grpc-status-details-bin"]
    assert isinstance(details, bytes)

    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert msgspec.msgpack.decode(details) == {
        "exception_type": "ConstraintException",
        "message": error.details(),
    }
    client.insert(
        descriptor_of(info), pa.table({"id": [None], "name": ["x"], "active": [True]}, schema=COLUMNS)
    )
    change = {"catalog": "db1", "schema": "s", "name": "k", "column_name": "id"}
    assert "grpc-status-details-bin" not in trailers(failed(action(client, "set_not_null", change)))


def test_long_error_texts_are_cut(client: Flight) -> None:
    """A message is at most 1500 bytes and all response headers stay below 16 KiB."""
    name = "é" * 20_000
    error = failed(action(client, "list_schemas", {"catalog_name": name}))
    size = sum(len(key) + len(value) for key, value in trailers(error).items())
    text = str(error.details())

    assert len(text.encode()) <= 1500
    assert text.endswith("...")
    assert size + 3 * len(text.encode()) < 16_384


def test_message_above_four_mebibytes_is_taken(client: Flight, table: pb.FlightInfo) -> None:
    """A batch of wide rows may be larger than gRPC's default limit."""
    wide = pa.table({"id": [1], "name": ["x" * (6 << 20)], "active": [True]}, schema=COLUMNS)

    assert client.insert(descriptor_of(table), wide) == 1


def test_open_exchange_does_not_block_its_own_scan(client: Flight, table: pb.FlightInfo) -> None:
    """The client opens the exchange before it scans the table, so an open one holds no lock."""
    exchange = client.exchange("update")
    exchange.open(descriptor_of(table), pa.schema([("name", pa.string()), ("rowid", pa.int64())]))
    rows = client.read(descriptor_of(table), 3)
    changed = pa.table({"name": ["x"] * 2, "rowid": rows["rowid"]})
    exchange.send(wire.batch_frames(changed.combine_chunks())[0])
    exchange.half_close()

    assert wire.total_changed(exchange.rest()[0]) == 2
    assert client.read(descriptor_of(table), 3)["name"].to_pylist() == ["x", "x"]


def test_dictionary_becomes_its_value_type(client: Flight) -> None:
    """An ENUM comes as a dictionary, is shown as text, and its INSERT then sends text."""
    client.create_schema("db1", "s")
    enum = pa.schema([("e", pa.dictionary(pa.uint8(), pa.string()))])
    info = client.create_table("db1", "s", "en", enum)

    assert schema_in(info).field("e").type == pa.string()
    assert client.insert(descriptor_of(info), pa.table({"e": ["b", None]})) == 2
    assert client.read(descriptor_of(info), 1)["e"].to_pylist() == ["b", None]
