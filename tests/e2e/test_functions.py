"""An app's functions, tables and actions over the wire, and what becomes of those that fail."""

from __future__ import annotations

import base64
import re
import sys
import threading
from collections.abc import Iterator
from functools import partial
from typing import Annotated, Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import sparkport
from sparkport.arrow.conform import batch_of
from sparkport.catalog import ANY, Call, ClientCall, ScanOptions
from sparkport.errors import AlreadyExistsError, InvalidRequestError, PermissionDeniedError
from sparkport.protocol import flight_pb2 as pb
from tests import flight_client as wire
from tests.conftest import TOKEN
from tests.flight_client import Exchange, Flight, refusal
from tests.wire.replay import flights_by_schema

Numbers = Annotated[pa.Array, pa.int64()]
SECRET = "/srv/secret/place"


class Watched:
    """Remembers what generators did."""

    def __init__(self) -> None:
        self.made = 0
        self.closed = threading.Event()


WATCHED = Watched()


def make_app() -> sparkport.App:
    """Declare one of each kind, and some that fail."""
    app = sparkport.App(schema="s")

    @app.scalar_function(stability="volatile")
    def half(n: Numbers) -> Numbers:
        """Halve."""
        return pc.divide(n, 2)

    app.scalar_function(name="half")(_half_text)
    app.scalar_function(parameters={"a": ANY, "b": bool}, returns=str)(_kinds)
    app.scalar_function()(_failing)
    app.scalar_function(parameters={"n": int}, returns=int)(_short)
    app.scalar_function(parameters={"n": int}, returns=int)(_wrong)
    app.scalar_function(name="größe")(half)
    app.table_function(columns={"n": int})(_series)
    app.table_function(columns=lambda n: {"n": int} if n >= 0 else {})(_failing_rows)
    app.table_in_out(columns={"total": int})(_total)
    app.table_in_out()(_watched_rows)
    app.table(columns={"n": int})(_failing_table)
    app.add_reference("cities", ClientCall("read_csv", ("c.csv", 2), {"header": True}), columns={"c": str})
    app.action("echo")(_echo)
    app.action("fail")(_fail)
    app.action("who")(_who)
    return app


def _half_text(text: Annotated[pa.Array, pa.large_string()]) -> Annotated[pa.Array, pa.large_string()]:
    return pc.utf8_slice_codeunits(text, 0, 1)


def _kinds(a: pa.Array, b: pa.Array) -> list[str]:
    return [f"{a.type} {b.type} {value}" for value in b.to_pylist()]


def _failing(n: Numbers) -> Numbers:
    if 0 in n.to_pylist():
        raise InvalidRequestError("zero is not allowed")
    if 7 in n.to_pylist():
        sys.exit("enough")
    raise FileNotFoundError(2, "No such file", SECRET)


def _short(n: pa.Array) -> pa.Array:
    return n.slice(1)


def _wrong(n: pa.Array) -> pa.Array:
    return pa.array(["x"] * len(n))


def _series(count: int, start: int = 0, *, step: int = 1, options: ScanOptions) -> Iterator[pa.RecordBatch]:
    WATCHED.closed.clear()
    try:
        for number in range(start, start + count * step, step):
            WATCHED.made = number
            size = 1 if options.columns is None or count < 1000 else 100_000
            yield pa.record_batch({"n": pa.array([number] * size, pa.int64())})
    finally:
        WATCHED.closed.set()


def _failing_rows(n: int) -> Iterator[tuple[int]]:
    yield from ((number,) for number in range(n))
    raise RuntimeError(f"cannot open {SECRET}\nand more")


def _total(scale: int, rows: Iterator[pa.RecordBatch], *, plus: int = 1) -> Iterator[tuple[int]]:
    yield (sum(batch.num_rows for batch in rows) * scale + plus,)


def _watched_rows(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    WATCHED.closed.clear()
    try:
        yield from rows
    finally:
        WATCHED.closed.set()


def _failing_table() -> Iterator[tuple[int]]:
    raise ZeroDivisionError(f"in {SECRET}")


def _echo(body: bytes) -> bytes | None:
    return body or None


def _fail(body: bytes) -> bytes:
    if body == b"mine":
        raise AlreadyExistsError("thing", "x")
    raise KeyError(f"{SECRET}")


def _who(call: Call, body: bytes) -> bytes:
    return call.principal.encode() + body


@pytest.fixture
def client() -> Iterator[Flight]:
    """Serve the app and speak as DuckDB."""
    with (
        sparkport.Server(make_app(), port=0, token=TOKEN, grace_seconds=0.2) as server,
        Flight(server.location, TOKEN) as flight,
    ):
        yield flight


def listed(client: Flight, name: str) -> list[tuple[bytes, dict[str, Any], pa.Schema]]:
    """Return descriptor, metadata and parameters of everything under a name."""
    (listing,) = client.action("list_schemas", {"catalog_name": "lakehouse"})
    found = []
    for info in flights_by_schema(listing)["s"]:
        metadata = msgspec.msgpack.decode(info.app_metadata)
        if metadata["name"] == name:
            parameters = pa.ipc.read_schema(pa.py_buffer(metadata["input_schema"]))
            found.append((wire.descriptor_of(info), metadata, parameters))
    return found


def row(values: dict[str, Any]) -> bytes:
    """Return parameters as DuckDB sends them."""
    columns = [pa.array([value]) for value in values.values()]
    batch = batch_of(columns, pa.schema(zip(values, (one.type for one in columns), strict=True)), 1)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


def scalar(client: Flight, name: str, arguments: pa.Table, form: int = 0) -> list[Any]:
    """Call a scalar function and return the results."""
    exchange = client.exchange("scalar_function", returning=True)
    reply = exchange.open(listed(client, name)[form][0], arguments.schema)
    frames = [wire.frame(header=wire.schema_header(reply))]
    for frame in wire.batch_frames(arguments):
        exchange.send(frame)
        frames.append(exchange.receive())
    exchange.half_close()
    assert exchange.rest() == []
    values: list[Any] = wire.table_of(frames).column(0).to_pylist()
    return values


def rows_of(client: Flight, name: str, form: int, columns: list[int], **parameters: object) -> pa.Table:
    """Call a table function as DuckDB does, in three steps."""
    descriptor = listed(client, name)[form][0]
    (answer,) = client.action(
        "table_function_flight_info", {"descriptor": descriptor, "parameters": row(parameters)}
    )
    assert wire.descriptor_of(pb.FlightInfo.FromString(answer)) == descriptor
    scan = {"column_ids": columns, "table_function_parameters": row(parameters)}
    (body,) = client.action("endpoints", {"descriptor": descriptor, "parameters": scan})
    (ticket,) = wire.tickets(body)
    return wire.table_of(client.get(ticket))


def open_in_out(client: Flight, name: str, columns: pa.Schema, **parameters: object) -> Exchange:
    """Begin to send a table to a function, and wait for the columns of its result."""
    descriptor = listed(client, name)[0][0]
    exchange = client.exchange("table_function_in_out", returning=True)
    exchange.send(wire.frame(descriptor=descriptor))
    exchange.send(wire.frame(app_metadata=msgspec.msgpack.encode({"parameters": row(parameters)})))
    exchange.send(wire.frame(descriptor=descriptor, header=wire.schema_header(columns)))
    exchange.receive()
    return exchange


def test_listing_tells_forms_flags_and_stability(client: Flight) -> None:
    """DuckDB learns each way to call a function: overloads, optional and named parameters, any type."""
    (_, volatile, _), (_, overload, text) = listed(client, "half")
    ((_, _, kinds),) = listed(client, "_kinds")
    few, more = listed(client, "_series")
    ((_, _, total),) = listed(client, "_total")
    flags = {field.name: sorted(field.metadata or {}) for field in kinds}

    assert (volatile["type"], volatile["description"]) == ("scalar_function", "Halve.")
    assert msgspec.msgpack.decode(volatile["extra_data"]) == {"stability": "volatile"}
    assert msgspec.msgpack.decode(overload["extra_data"]) == {"stability": "consistent"}
    assert text.field("text").type == pa.string()  # what DuckDB exports
    assert flags == {"a": [b"is_any_type"], "b": [b"is_any_type"]}  # a boolean's layout is a setting
    assert [few[2].names, more[2].names] == [["count", "step"], ["count", "start", "step"]]
    assert more[2].field("step").metadata == {b"is_named_parameter": b"1"}
    assert total.names == ["scale", "plus", "rows"]  # beside a table DuckDB has no named parameters
    assert total.field("rows").metadata == {b"is_table_type": b"1"}


def test_scalar_function_answers_batch_by_batch(client: Flight) -> None:
    """Arguments are brought to the declared types, NULLs pass, and overloads are told apart."""
    assert scalar(client, "half", pa.table({"n": pa.array([2, None, 9], pa.int64())})) == [1, None, 4]
    assert scalar(client, "half", pa.table({"text": ["ab", None]}), form=1) == ["a", None]
    assert scalar(client, "größe", pa.table({"n": pa.array([4])})) == [2]
    arguments = pa.table({"a": pa.array([1], pa.int8()), "b": pa.array([1], pa.bool8().storage_type)})
    assert scalar(client, "_kinds", arguments) == ["int8 bool True"]


def test_table_function_gets_defaults_named_parameters_and_hints(client: Flight) -> None:
    """Each form leaves out what has a default, and a named NULL means the default too."""
    assert rows_of(client, "_series", 0, [0], count=2, step=None)["n"].to_pylist() == [0, 1]
    assert rows_of(client, "_series", 0, [0], count=2, step=5)["n"].to_pylist() == [0, 5]
    assert rows_of(client, "_series", 1, [0], count=2, start=7, step=None)["n"].to_pylist() == [7, 8]


def test_function_of_a_table_may_answer_at_the_end(client: Flight) -> None:
    """Batches without results are finished all the same; the end of the input has the result."""
    exchange = open_in_out(client, "_total", pa.schema([("n", pa.int64())]), scale=10, plus=None)
    for _ in range(3):
        exchange.send(wire.batch_frames(pa.table({"n": list(range(2048))}))[0])
        assert wire.fields(exchange.receive())[3] == b"chunk_finished"
    exchange.half_close()
    result, finished = exchange.rest()
    schema = wire.frame(header=wire.schema_header(pa.schema([("total", pa.int64())])))

    assert wire.table_of([schema, result])["total"].to_pylist() == [61441]
    assert [wire.fields(frame)[3] for frame in (result, finished)] == [b"chunk_continues", b"chunk_finished"]


def test_generator_is_closed_when_the_client_goes_away(client: Flight) -> None:
    """Rows are made as they are read, and a client that stops reading stops the generator."""
    descriptor = listed(client, "_series")[0][0]
    scan = {"column_ids": [0], "table_function_parameters": row({"count": 1_000_000, "step": None})}
    (body,) = client.action("endpoints", {"descriptor": descriptor, "parameters": scan})
    stream = client.stream("DoGet", pb.Ticket(ticket=wire.tickets(body)[0]).SerializeToString())
    next(stream)
    next(stream)
    stream.cancel()

    assert WATCHED.closed.wait(10)
    assert WATCHED.made < 10_000
    exchange = open_in_out(client, "_watched_rows", pa.schema([("n", pa.int64())]))
    exchange.send(wire.batch_frames(pa.table({"n": [1]}))[0])
    exchange.receive()
    WATCHED.closed.clear()
    exchange.call.cancel()
    assert WATCHED.closed.wait(10)


def test_failing_code_is_told_by_type_and_message(client: Flight, capsys: pytest.CaptureFixture[str]) -> None:
    """The caller gets what went wrong and a trace id, the log the traceback, and the server lives on."""
    ones = pa.table({"n": pa.array([1, 1], pa.int64())})
    cases = {
        "function 's._failing' failed: FileNotFoundError: [Errno 2] No such file: '...'": lambda: scalar(
            client, "_failing", ones
        ),
        "function 's._failing' failed: SystemExit: enough": lambda: scalar(
            client, "_failing", pa.table({"n": pa.array([7], pa.int64())})
        ),
        "function 's._short' failed: ValueError: the result has 1 rows for 2 rows of arguments": (
            lambda: scalar(client, "_short", ones)
        ),
        "function 's._wrong' failed: TypeError: the result is of type string instead of int64": (
            lambda: scalar(client, "_wrong", ones)
        ),
        "function 's._failing_rows' failed: RuntimeError: cannot open ...": lambda: rows_of(
            client, "_failing_rows", 0, [0], n=3
        ),
        "function 's._failing_rows' failed: TypeError: the result has no columns": lambda: rows_of(
            client, "_failing_rows", 0, [0], n=-1
        ),
        "table '_failing_table' failed: ZeroDivisionError: in ...": lambda: client.get(
            client.scan(wire.path_descriptor("lakehouse", "s", "_failing_table"), [0])[0]
        ),
        "action 'fail' failed: KeyError: '...'": lambda: client.action("fail", b""),
    }
    for expected, run in cases.items():
        code, message = refusal(run)
        found = re.fullmatch(r"(.*) \(trace id ([0-9a-f-]{36})\)", message)
        assert found is not None, message
        assert (code, found.group(1)) == ("INTERNAL", expected)
        log = capsys.readouterr().err
        trace_ids = [line.rpartition("trace_id=")[2][:36] for line in log.splitlines() if "trace_id=" in line]
        assert trace_ids == [found.group(2)]
        assert "Traceback" in log
        assert TOKEN not in log
    assert scalar(client, "half", ones) == [0, 0]


def test_own_errors_keep_their_codes(client: Flight) -> None:
    """An error of sparkport's that user code raises reaches the caller as it is."""
    zeros = pa.table({"n": pa.array([0], pa.int64())})

    assert refusal(lambda: scalar(client, "_failing", zeros)) == ("INVALID_ARGUMENT", "zero is not allowed")
    assert refusal(lambda: client.action("fail", b"mine")) == ("ALREADY_EXISTS", "thing 'x' already exists")


def test_actions_take_and_give_bytes(client: Flight) -> None:
    """A body of any bytes, one result or none, the caller's name, and a place in the list of actions."""
    listing = {
        action.type: action.description
        for action in (pb.ActionType.FromString(data) for data in client.stream("ListActions", b""))
    }

    assert client.action("echo", b"\x00\xff") == [b"\x00\xff"]
    assert client.action("echo", b"") == []
    assert client.action("who", b"!") == [b"user!"]
    assert {"echo", "fail", "who", "list_schemas"} <= set(listing)
    app = sparkport.App()
    app.action("list_schemas")(lambda body: body)
    with pytest.raises(ValueError, match="action 'list_schemas' is one of the server's own"):
        sparkport.Server(app, port=0)


def test_reference_points_duckdb_at_a_function_of_its_own(client: Flight) -> None:
    """DuckDB is told what to call; others, who cannot, are told so."""
    descriptor = wire.path_descriptor("lakehouse", "s", "cities")
    scan = {"column_ids": [0]}
    (body,) = client.action("endpoints", {"descriptor": descriptor, "parameters": scan})
    (endpoint,) = [pb.FlightEndpoint.FromString(data) for data in msgspec.msgpack.decode(body)]
    kind, _, encoded = endpoint.location[0].uri.partition(";base64,")
    call = msgspec.msgpack.decode(base64.b64decode(encoded))
    arguments = pa.ipc.open_stream(pa.py_buffer(call["data"])).read_all()
    client.headers = client.headers[1:]
    (ticket,) = client.flight_info(descriptor).endpoint

    assert kind == "data:application/x-msgpack-duckdb-function-call"
    assert call["function_name"] == "read_csv"
    assert arguments.to_pylist() == [{"arg_0": "c.csv", "arg_1": 2, "header": True}]
    assert refusal(lambda: client.get(ticket.ticket.ticket)) == (
        "FAILED_PRECONDITION",
        "table 'cities' does not support scans by the server: DuckDB reads it itself",
    )


def test_functions_by_name_take_named_parameters_too(client: Flight) -> None:
    """The JSON dialect gives parameters in order or by name, and gets the same rows."""

    def call(name: str, *values: object, **named: object) -> list[Any]:
        body = {"name": name, "parameters": list(values), "named_parameters": named}
        (answer,) = client.action("table_function_flight_info", body)
        (endpoint,) = pb.FlightInfo.FromString(answer).endpoint
        found: list[Any] = wire.table_of(client.get(endpoint.ticket.ticket))["n"].to_pylist()
        return found

    assert call("_series", 2) == [0, 1]
    assert call("s._series", 2, "5", step=3) == [5, 8]
    assert refusal(lambda: call("_series", 2, stop=3)) == (
        "INVALID_ARGUMENT",
        "function '_series' has no named parameter 'stop'",
    )
    assert refusal(lambda: call("_series", "x")) == (
        "INVALID_ARGUMENT",
        "parameter 'count' of function '_series' is not a value of type int64",
    )
    assert refusal(lambda: call("_total", 1)) == (
        "FAILED_PRECONDITION",
        "function 's._total' does not support calls without a table",
    )


@pytest.mark.parametrize(
    "body", [{"parameters": ["x" * (1 << 20)]}, {"named_parameters": {"a": "x" * (1 << 20)}}]
)
def test_large_parameters_are_refused(client: Flight, body: dict[str, Any]) -> None:
    """Decoded parameters take many times the room of their bytes, of which there is a mebibyte at most."""
    body = {"name": "_series", "parameters": [], "named_parameters": {}, **body}

    assert refusal(lambda: client.action("table_function_flight_info", body)) == (
        "RESOURCE_EXHAUSTED",
        "the parameters of a function must not exceed 1048576 bytes",
    )


def test_bad_calls_are_refused(client: Flight) -> None:
    """Damaged parameters, other columns, and functions that are not what is said of them."""
    series, half = listed(client, "_series")[0][0], listed(client, "half")[0][0]
    good = row({"count": 1, "step": None})
    changed = wire.path_descriptor("lakehouse", "s", "table_function", "_series", "another form")
    gone = wire.path_descriptor("lakehouse", "s", "table_function", "_serie", "f")

    def info(descriptor: bytes, parameters: bytes) -> tuple[str, str]:
        body = {"descriptor": descriptor, "parameters": parameters}
        return refusal(lambda: client.action("table_function_flight_info", body))

    for damaged in (b"", b"x", good[:50], good[:-40], b"\xff\xff\xff\xff" + bytes([9] * 40)):
        assert info(series, damaged)[0] == "INVALID_ARGUMENT"
    assert info(series, row({"count": 1})) == (
        "INVALID_ARGUMENT",
        "the parameters of the function are: count, step",
    )
    assert info(half, row({"n": 1}))[0] == "INVALID_ARGUMENT"
    assert info(wire.path_descriptor("s", "cities"), good)[0] == "INVALID_ARGUMENT"
    assert info(gone, good) == ("NOT_FOUND", "function 's._serie' not found. Did you mean '_series'?")
    assert info(changed, good) == (
        "FAILED_PRECONDITION",
        (
            "the parameters of function 's._series' have changed since it was attached;"
            " DETACH and ATTACH the database again to see them"
        ),
    )
    assert refusal(lambda: client.flight_info(series))[0] == "INVALID_ARGUMENT"
    two = pa.table({"n": [1], "m": [2]})
    assert refusal(lambda: scalar(client, "half", two)) == (
        "INVALID_ARGUMENT",
        "schema mismatch: function 's.half' takes 1 arguments, 2 were sent",
    )
    assert refusal(lambda: scalar(client, "half", pa.table({"n": ["x"]})))[0] == "INVALID_ARGUMENT"
    assert refusal(lambda: scalar(client, "_series", two))[0] == "INVALID_ARGUMENT"
    for operation in ("scalar_function", "table_function_in_out"):
        exchange = client.exchange(operation)
        table = wire.path_descriptor("s", "cities")
        assert refusal(partial(exchange.open, table, two.schema)) == (
            "INVALID_ARGUMENT",
            "the descriptor does not name a function",
        )


def test_permission_is_the_functions_own_business(client: Flight) -> None:
    """A function may look at the call and refuse."""
    app = sparkport.App()

    @app.table_function(columns={"n": int})
    def mine(n: int, call: Call) -> Iterator[tuple[int]]:
        if call.principal != "me":
            raise PermissionDeniedError("not yours")
        yield (n,)

    del client
    with (
        sparkport.Server(app, port=0, token=TOKEN, grace_seconds=0.2) as server,
        Flight(server.location, TOKEN) as flight,
    ):
        body = {"name": "mine", "parameters": [1]}
        (answer,) = flight.action("table_function_flight_info", body)
        (endpoint,) = pb.FlightInfo.FromString(answer).endpoint

        assert refusal(lambda: flight.get(endpoint.ticket.ticket)) == ("PERMISSION_DENIED", "not yours")
