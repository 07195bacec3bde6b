"""Traces for OpenTelemetry: what a collector gets of the requests of a server."""

from __future__ import annotations

import secrets
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator

import pyarrow as pa
import pytest

import sparkport
from sparkport.errors import ConfigError
from sparkport.memory import MemoryCatalog
from tests.collector import Collector, attributes
from tests.flight_client import Flight, path_descriptor, refusal

from .serving import Process
from .usage import eventually

TOKEN = "traced"
TABLE = path_descriptor("db1", "sales", "orders")
ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send spans often: the SDK reads its variables as anywhere else."""
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")


@pytest.fixture
def collector() -> Iterator[Collector]:
    """Run a collector."""
    with Collector() as running:
        yield running


@pytest.fixture
def server(collector: Collector) -> Iterator[sparkport.Server]:
    """Run a server that is traced."""
    with sparkport.Server(
        {"db1": MemoryCatalog()},
        port=0,
        token=TOKEN,
        default_catalog="db1",
        grace_seconds=0.2,
        otel_endpoint=collector.location,
    ) as running:
        yield running


@pytest.fixture
def traced(server: sparkport.Server) -> Iterator[Flight]:
    """Call it as DuckDB does; it has a table."""
    with Flight(server.location, TOKEN) as client:
        client.create_schema("db1", "sales")
        client.create_table("db1", "sales", "orders", ROWS.schema)
        yield client


def test_an_insert_is_a_span_of_the_clients_trace(traced: Flight, collector: Collector) -> None:
    """The span is a child of the one in `traceparent`, and the commit a child of it."""
    trace, parent = secrets.token_hex(16), secrets.token_hex(8)
    headers = [("traceparent", f"00-{trace}-{parent}-01"), ("airport-flight-path", "db1/sales/orders")]
    traced.insert(TABLE, ROWS, headers=headers)
    request, commit = collector.trace(trace, 2)

    assert (request.name, request.parent_span_id.hex()) == ("DoExchange insert", parent)
    assert (commit.name, commit.parent_span_id) == ("commit", request.span_id)
    assert request.start_time_unix_nano <= commit.start_time_unix_nano
    assert commit.end_time_unix_nano <= request.end_time_unix_nano
    found = attributes(request)
    assert found["rpc.method"] == "arrow.flight.protocol.FlightService/DoExchange"
    assert (found["rpc.response.status_code"], found["sparkport.rows_in"]) == ("OK", 3)
    assert (found["user.name"], found["db.collection.name"]) == ("user", "db1/sales/orders")
    assert collector.resources[0]["service.name"] == "sparkport"


def test_duckdbs_trace_id_is_that_of_the_spans(traced: Flight, collector: Collector) -> None:
    """DuckDB sends an id without a span: its requests are the first spans of that trace."""
    trace = uuid.uuid4()
    traced.insert(TABLE, ROWS, headers=[("airport-trace-id", str(trace))])
    request, _ = collector.trace(trace.hex, 2)

    assert request.parent_span_id == b""


def test_planning_a_query_is_a_step(server: sparkport.Server, traced: Flight, collector: Collector) -> None:
    """How long the analysis of a statement took can be seen apart from the rest."""
    trace = uuid.uuid4()
    headers = [("airport-trace-id", str(trace))]
    with sparkport.connect(server.location, token=TOKEN) as client:
        rows = client.sql("SELECT count(*) AS n FROM sales.orders")
        assert isinstance(rows, pa.RecordBatchReader)
        assert rows.read_all().to_pylist() == [{"n": 0}]
    traced.action("catalog_version", {"catalog_name": "db1"}, headers)
    (version,) = collector.trace(trace.hex, 1)
    plan = next(span for span in collector.spans if span.name == "plan")
    described = next(span for span in collector.spans if span.span_id == plan.parent_span_id)

    assert version.name == "DoAction catalog_version"
    assert described.name == "GetFlightInfo plan"
    assert all("SELECT" not in str(span) for span in collector.spans)


def test_a_failure_tells_its_code_and_no_values(traced: Flight, collector: Collector) -> None:
    """The code is there; the text, in which there may be data, is not."""
    trace = uuid.uuid4()
    missing = path_descriptor("db1", "sales", "secret-name")
    code, _ = refusal(lambda: traced.unary("GetFlightInfo", missing, [("airport-trace-id", str(trace))]))
    (request,) = collector.trace(trace.hex, 1)

    assert attributes(request)["rpc.response.status_code"] == code == "NOT_FOUND"
    assert request.status.code == 0  # the client's own mistake
    assert request.status.message == ""


@pytest.mark.parametrize(
    "header",
    [
        "",
        "00",
        "00-" + "0" * 32 + "-" + "1" * 16 + "-01",
        "00-" + "1" * 32 + "-" + "0" * 16 + "-01",
        "ff-" + "1" * 32 + "-" + "2" * 16 + "-01",
        "00-" + "A" * 32 + "-" + "2" * 16 + "-01",
        "00-" + "1" * 32 + "-" + "2" * 16 + "-01" + "x" * 5000,
    ],
)
def test_a_malformed_traceparent_begins_a_new_trace(
    traced: Flight, collector: Collector, header: str
) -> None:
    """Whatever a client sends there, its request is answered and traced under an id of its own."""
    traced.action("catalog_version", {"catalog_name": "db1"}, [("traceparent", header)])

    assert eventually(lambda: any(span.name == "DoAction catalog_version" for span in collector.spans))
    (found,) = [span for span in collector.spans if span.name == "DoAction catalog_version"]
    assert found.parent_span_id == b""
    assert found.trace_id.hex() not in header


def test_a_client_may_say_that_its_trace_is_not_kept(traced: Flight, collector: Collector) -> None:
    """The flag of `traceparent` is heeded: no span is sent."""
    trace, other = secrets.token_hex(16), uuid.uuid4()
    traced.action(
        "catalog_version",
        {"catalog_name": "db1"},
        [("traceparent", f"00-{trace}-{secrets.token_hex(8)}-00")],
    )
    traced.action("catalog_version", {"catalog_name": "db1"}, [("airport-trace-id", str(other))])
    collector.trace(other.hex, 1)

    assert [span for span in collector.spans if span.trace_id.hex() == trace] == []


@pytest.mark.parametrize("state", ["gone", "silent"])
def test_without_a_collector_requests_go_on(collector: Collector, state: str) -> None:
    """One that is gone, or takes spans and never answers, costs no request anything, and the end a moment."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        gone = f"http://127.0.0.1:{unused.getsockname()[1]}"
    collector.pause.set()
    endpoint = collector.location if state == "silent" else gone
    with sparkport.Server(
        MemoryCatalog(), port=0, token=TOKEN, grace_seconds=0.2, otel_endpoint=endpoint
    ) as server:
        with sparkport.connect(server.location, token=TOKEN) as client:
            client.create_schema("s")
            client.create_table("s", "t", ROWS.schema)
            begun = time.monotonic()
            for _ in range(3000):  # more than the queue of spans has room for
                client.statements()
            seconds = time.monotonic() - begun
            assert client.insert("s", "t", ROWS).affected_rows == 3
        begun = time.monotonic()
    assert time.monotonic() - begun < 10
    assert seconds < 60


def test_a_collector_that_is_gone_is_told_once_in_a_while() -> None:
    """The log says why traces are missing, but not at each try."""
    env = {"OTEL_BSP_SCHEDULE_DELAY": "20"}
    with (
        Process(
            "serve", "--port", "0", "--token", TOKEN, "--otel-endpoint", "http://127.0.0.1:9", env=env
        ) as server,
        sparkport.connect(server.location, token=TOKEN) as client,
    ):
        client.statements()
        assert eventually(lambda: "traces are not delivered" in server.text)
        client.statements()
        time.sleep(2.5)  # the SDK tries again after a second
        assert server.text.count("traces are not delivered") == 1


def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks for traces and has no OpenTelemetry is told the command."""
    monkeypatch.setitem(sys.modules, "sparkport.app.open_telemetry", None)
    with pytest.raises(ConfigError, match=r"pip install 'sparkport\[otel\]'"):
        sparkport.Server(MemoryCatalog(), port=0, otel_endpoint="http://127.0.0.1:9")


def test_variables_of_opentelemetry_switch_it_on(collector: Collector) -> None:
    """`OTEL_EXPORTER_OTLP_ENDPOINT` is enough, as for other programs; the name is that of the variable."""
    env = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.location,
        "OTEL_SERVICE_NAME": "the-lake",
        "OTEL_BSP_SCHEDULE_DELAY": "50",
    }
    trace = uuid.uuid4()
    with (
        Process("serve", "--port", "0", "--token", TOKEN, env=env) as server,
        Flight(server.location, TOKEN) as client,
    ):
        client.action("catalog_version", {"catalog_name": "lakehouse"}, [("airport-trace-id", str(trace))])
        collector.trace(trace.hex, 1)
        server.terminate()
        assert server.finished() == 0

    assert collector.resources[0]["service.name"] == "the-lake"


def test_the_end_of_the_server_sends_what_is_left(collector: Collector) -> None:
    """The last requests are not lost, however seldom spans are sent."""
    trace = uuid.uuid4()
    with (
        Process("serve", "--port", "0", "--token", TOKEN, "--otel-endpoint", collector.location) as server,
        Flight(server.location, TOKEN) as client,
    ):
        client.action("catalog_version", {"catalog_name": "lakehouse"}, [("airport-trace-id", str(trace))])
        server.terminate()
        assert server.finished() == 0

    assert [span.name for span in collector.spans if span.trace_id == trace.bytes] == [
        "DoAction catalog_version"
    ]


def test_wrong_endpoint_is_an_error_in_one_line() -> None:
    """What is no address is refused before the server starts."""
    with Process("serve", "--port", "0", "--otel-endpoint", "collector:4317") as server:
        assert server.finished() == 2
        assert "sparkport: --otel-endpoint is an address such as http://127.0.0.1:4318" in server.text
    with pytest.raises(ConfigError, match="--otel-endpoint"):
        sparkport.Server(MemoryCatalog(), port=0, otel_endpoint="nothing")


def test_variables_for_other_programs_do_not_stop_the_server() -> None:
    """Where they ask for a protocol that the server does not speak, it says so and serves."""
    env = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
    with Process("serve", "--port", "0", "--token", TOKEN, env=env) as server:
        with sparkport.connect(server.location, token=TOKEN) as client:
            assert client.statements() == []
        server.terminate()
        server.finished()

    assert "no traces" in server.text
    assert "http/protobuf" in server.text


def test_nothing_is_loaded_unless_it_is_asked_for() -> None:
    """Without traces there is no OpenTelemetry in the process."""
    code = (
        "import sys, sparkport\n"
        "from sparkport.memory import MemoryCatalog\n"
        "with sparkport.Server(MemoryCatalog(), port=0): pass\n"
        "print([name for name in sys.modules if 'opentelemetry' in name])\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)

    assert run.stdout == "[]\n"
