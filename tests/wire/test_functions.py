"""Functions as a real DuckDB called them: the messages of its client, sent again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow as pa
import pytest

import sparkport
from sparkport.memory import MemoryCatalog
from sparkport.protocol import flight_pb2 as pb
from tests import flight_client as wire
from tests.flight_client import Exchange, Flight

from .recorded_functions import app
from .replay import Answer, Recorded, Replay, load


class FunctionReplay(Replay):
    """Plays calls of functions, which have descriptors and exchanges of their own."""

    def _action(self, call: Recorded, answer: Answer) -> None:
        if call.action != "table_function_flight_info":
            super()._action(call, answer)
            return
        body = self._own_descriptor(pb.Action.FromString(call.messages[0]).body)
        (result,) = answer.results = self.client.action(call.action, body)
        info = pb.FlightInfo.FromString(result)
        sent = msgspec.msgpack.decode(body, type=dict[str, msgspec.Raw])["descriptor"]
        assert bytes(sent).endswith(wire.descriptor_of(info)), "the client compares the descriptors"
        answer.rows = wire.schema_in(info).empty_table()

    def _exchange(self, call: Recorded, answer: Answer) -> None:
        exchange = Exchange(self.client.channel, [*self.client.headers, *call.headers])
        in_out = call.header("airport-operation") == "table_function_in_out"
        opening = 3 if in_out else 2
        old = wire.fields(call.messages[0])[1]
        for message in call.messages[:opening]:
            named = 1 in wire.fields(message)
            exchange.send(wire.with_descriptor(message, self._replacement(old)) if named else message)
        reply = exchange.receive()  # the client sends no row before it has the server's schema
        frames = [reply]
        for message in call.messages[opening:]:
            exchange.send(message)
            frames.extend(_in_out_answer(exchange) if in_out else [exchange.receive()])
            answer.returned.append(wire.table_of([reply, *frames[-1:]]))
        exchange.half_close()
        if in_out:
            frames.extend(_in_out_answer(exchange))
        assert exchange.rest() == [], "nothing comes after the last batch"
        answer.rows = wire.table_of(frames)

    def _replacements(self) -> dict[bytes, bytes]:
        found = super()._replacements()
        for (schema, _), info in self.entries.items():
            metadata = msgspec.msgpack.decode(info.app_metadata)
            path = f"{self.scenario.catalog}/{schema}/{metadata['type']}/{metadata['name']}"
            found[wire.path_descriptor(path)] = wire.descriptor_of(info)
        return found


def _in_out_answer(exchange: Exchange) -> Iterator[bytes]:
    """Yield the batches of an answer, which ends as the client understands it at any size."""
    while True:
        frame = exchange.receive()
        yield frame
        mark = wire.fields(frame)[3]
        if mark == b"chunk_finished":
            return
        assert mark == b"chunk_continues"


@pytest.fixture
def client() -> Iterator[Flight]:
    """Serve the recorded functions beside an empty engine."""
    with (
        sparkport.Server({"db1": app.over(MemoryCatalog())}, port=0, token="t", grace_seconds=0.1) as server,
        Flight(server.location, "t") as flight,
    ):
        yield flight


def results(client: Flight, name: str, method: str) -> list[tuple[str, Any]]:
    """Play a scenario and return the rows of the calls by which functions are run."""
    played = FunctionReplay(client, load(f"functions/{name}")).set_up()
    found: list[tuple[str, Any]] = []
    for call in played.scenario.calls:
        answer = played.play(call)
        assert (call.sql, answer.code.name, answer.message) == (call.sql, "OK", "")
        if call.method == method:
            found.append((call.sql.replace("db1.utils.", ""), answer.rows))
    return found


def columns(tables: list[tuple[str, pa.Table]]) -> list[tuple[str, list[Any]]]:
    """Return the first column of each result."""
    return [(sql, rows.column(0).to_pylist()) for sql, rows in tables]


def test_recorded_scalar_functions_are_answered_batch_by_batch(client: Flight) -> None:
    """Each batch of arguments gets one of results: constants, NULLs, any type, more than one batch."""
    *first, (sql, total), last = columns(results(client, "50-scalar-functions", "DoExchange"))

    assert [values for _, values in first] == [
        ["ABC"],
        [11],
        [11, 22, None],
        ["A", "B", None],
        ["A", "B", None],
        ["AX", "BX", None],
        ["A", "B", None],
        ["text"],
        ["42"],
        ["true"],
        ["2024-01-01"],
        ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"],
        [[3, 10, 5, 16, 8, 4, 2, 1]],
        [],  # the arguments failed in the client after it had opened the exchange
    ]
    assert (sql, sum(total)) == ("SELECT sum(test_add(r, 1)) FROM range(3000) t(r)", 4501500)
    assert last == ("SELECT test_any_type(true)", ["1"])  # sent as an 8-bit boolean


def test_recorded_table_functions_are_described_planned_and_run(client: Flight) -> None:
    """Named, missing, NULL and any-typed parameters reach the function, whose columns depend on them."""
    found = results(client, "51-table-functions", "DoGet")
    rows = {sql.removeprefix("SELECT * FROM "): table.to_pylist() for sql, table in found}

    assert rows["test_repeat('rep', 2)"] == [{"result": "rep"}] * 2
    assert rows["test_dynamic_schema({'k': 1, 'l': ['a']})"] == [{"input": {"k": 1, "l": ["a"]}}]
    assert rows["test_dynamic_schema(NULL)"] == [{"input": None}]
    assert rows["test_echo(NULL)"] == [{"result": None}]
    call = "test_dynamic_schema_named_parameters('Elliott', 1, 'Princeton')"
    assert rows[call] == [{"name": "Elliott", "location": None, "input": 1, "city": "Princeton"}]
    call = "test_dynamic_schema_named_parameters('Elliott', 555.2222, 'Princeton', location='Main Street')"
    assert rows[call][0]["location"] == "Main Street"
    wide = next(table for sql, table in found if sql.startswith("SELECT result_3"))
    assert (wide.num_columns, wide["result_6"].to_pylist()) == (20, [6, 6])


def test_recorded_functions_of_tables_are_answered_in_lockstep(client: Flight) -> None:
    """Every batch of input is answered and finished, and so is its end."""
    found = columns(results(client, "52-table-in-out-functions", "DoExchange"))
    first, empty, repeated, wide, filtered, limited, many, echoed = [values for _, values in found]

    assert first == ["Sloane", "Sloane", "Sloane", "last"]
    assert empty == ["last"]
    assert repeated == ["a", "b", None] * 10
    assert wide == filtered == [0, 0, 0]
    assert limited == ["x", "x", "x", "last"]
    assert many == [*["x"] * 300, "last"]
    assert echoed == ["a", "b", None]


@pytest.mark.parametrize(
    ("name", "rows"), [("62-in-out-2048-hang", 2049), ("93-variant-in-out-full-chunks", 4097)]
)
def test_recorded_full_batches_do_not_hang_the_client(client: Flight, name: str, rows: int) -> None:
    """A full batch of 2048 rows is not the finished one: the client would wait for another for ever."""
    ((_, table),) = results(client, name, "DoExchange")

    assert table.num_rows == rows
