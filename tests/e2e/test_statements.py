"""What runs on a server, who may see it, and how it is ended."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import sparkport
from sparkport import ServerLimits, cli, errors
from sparkport.app.authentication.tokens import TokenFile
from sparkport.client import Client
from sparkport.memory.statements import InsertStatement
from sparkport.protocol import flight_pb2 as pb
from tests.conftest import TOKEN as SERVER_TOKEN
from tests.flight_client import Flight, path_descriptor, refusal, table_of

from .slow_table import Slow
from .usage import eventually

TOKEN = "owner-token"
ROWS = pa.table({"id": pa.array(range(1000), pa.int64())})


@pytest.fixture
def slow() -> Slow:
    """Return a table whose scan does not end by itself."""
    return Slow()


@pytest.fixture
def served(slow: Slow, tmp_path: Path) -> Iterator[sparkport.Server]:
    """Serve it to the owner of the server, to Ada and to Grace."""
    tokens = tmp_path / "tokens"
    for name in ("ada", "grace"):
        (tmp_path / name).write_text(TokenFile(tokens).create(name, None))
    builder = sparkport.CatalogBuilder().schema("s").table("t", ROWS)
    builder.add_table(slow)
    with sparkport.Server(builder, port=0, token=TOKEN, tokens=tokens, grace_seconds=0.2) as server:
        yield server


def client_of(served: sparkport.Server, tmp_path: Path, name: str) -> Client:
    """Return a client of one of them."""
    token = TOKEN if name == "user" else (tmp_path / name).read_text()
    return sparkport.connect(served.location, token=token)


def reading(client: Client) -> pa.RecordBatchReader:
    """Return a scan that has begun."""
    reader = client.scan("s", "slow")
    reader.read_next_batch()
    return reader


def only_running(client: Client) -> dict[str, object]:
    """Return the one statement that runs."""
    (statement,) = [one for one in client.statements() if one["ended"] is None]
    return statement


def test_a_finished_scan_is_listed_with_what_it_did(served: sparkport.Server, tmp_path: Path) -> None:
    """A statement is kept after its end, with its rows, bytes, times and outcome."""
    with client_of(served, tmp_path, "ada") as client:
        client.scan("s", "t").read_all()
        (statement,) = client.statements()

    assert statement["principal"] == "ada"
    assert (statement["kind"], statement["table"], statement["dialect"]) == ("scan", "lakehouse/s/t", "json")
    assert (statement["state"], statement["code"], statement["rows"]) == ("finished", "OK", 1000)
    assert statement["bytes"] > 8000
    assert statement["seconds"] > 0
    assert statement["error"] == ""


def test_sql_is_listed_with_its_text_and_its_error(served: sparkport.Server, tmp_path: Path) -> None:
    """A query shows its text; one that fails shows why."""
    with client_of(served, tmp_path, "ada") as client:
        rows = client.sql("SELECT count(*) AS n FROM s.t")
        assert isinstance(rows, pa.RecordBatchReader)
        assert rows.read_all().to_pylist() == [{"n": 1000}]
        with pytest.raises(errors.SparkportError):
            client.sql("SELECT nothing FROM s.t")
        failed, query, plan = client.statements()

    assert (plan["kind"], query["kind"], failed["kind"]) == ("plan", "query", "plan")
    assert query["sql"] == "SELECT count(*) AS n FROM s.t"
    assert query["dialect"] == "flight-sql"
    assert failed["state"] == "failed"
    assert "nothing" in failed["error"]


def test_a_cancelled_scan_ends_on_both_sides(served: sparkport.Server, tmp_path: Path, slow: Slow) -> None:
    """Its client gets CANCELLED within two seconds, and nothing goes on reading for it."""
    with client_of(served, tmp_path, "ada") as client:
        reader = reading(client)
        statement = only_running(client)
        begun = time.monotonic()
        after = client.cancel(str(statement["id"]))
        with pytest.raises(errors.CancelledError):
            reader.read_all()
        seconds = time.monotonic() - begun

    assert statement["state"] == "streaming"
    assert after["state"] == "cancelled"
    assert slow.ended.wait(5)
    assert seconds < 2


def test_a_statement_that_waits_for_its_client_is_cancelled_too(client: Flight) -> None:
    """A client that opened a stream and sends nothing is told as well, and nothing is written."""
    table = path_descriptor("db1", "sales", "orders")
    client.create_schema("db1", "sales")
    client.create_table("db1", "sales", "orders", ROWS.schema)
    exchange = client.exchange("insert")
    exchange.open(table, ROWS.schema)
    (answer,) = client.action("list_statements", b"")
    statement = json.loads(answer)["statements"][0]
    client.action("cancel_statement", json.dumps({"statement_id": statement["id"]}).encode())
    code, message = refusal(exchange.rest)

    assert (statement["kind"], statement["state"]) == ("insert", "running")
    assert code == "CANCELLED"
    assert "cancelled" in message.lower()
    assert client.read(table, 1).num_rows == 0


def test_a_change_that_is_being_committed_is_told_as_it_ends(
    server: sparkport.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever cancels in the middle of a commit is told what became of it, and so is the client."""
    begun, commit = threading.Event(), InsertStatement.commit

    def slowly(self: InsertStatement) -> int:
        count = commit(self)
        begun.set()
        time.sleep(2.5)
        return count

    monkeypatch.setattr(InsertStatement, "commit", slowly)
    with sparkport.connect(server.location, token=SERVER_TOKEN) as client, ThreadPoolExecutor() as pool:
        client.create_schema("s")
        client.create_table("s", "t", ROWS.schema)
        insert = pool.submit(lambda: client.insert("s", "t", ROWS).affected_rows)
        assert begun.wait(20)
        statement = next(one for one in client.statements() if one["kind"] == "insert")
        during = client.cancel(str(statement["id"]))

        assert insert.result(20) == 1000
        assert client.scan("s", "t").read_all().num_rows == 1000
        after = next(one for one in client.statements() if one["id"] == statement["id"])
    assert (during["state"], after["state"]) == ("running", "finished")


def test_others_neither_see_nor_cancel_a_statement(
    served: sparkport.Server, tmp_path: Path, slow: Slow
) -> None:
    """Only the owner and an administrator know of it: for others its id does not exist."""
    with (
        client_of(served, tmp_path, "ada") as ada,
        client_of(served, tmp_path, "grace") as grace,
        client_of(served, tmp_path, "user") as administrator,
    ):
        reader = reading(ada)
        statement = str(only_running(ada)["id"])

        assert [one for one in grace.statements() if one["principal"] == "ada"] == []
        with pytest.raises(errors.NotFoundError):
            grace.cancel(statement)
        assert not slow.ended.is_set()
        assert only_running(administrator)["principal"] == "ada"
        assert administrator.cancel(statement)["state"] == "cancelled"
        with pytest.raises(errors.CancelledError):
            reader.read_all()


def test_ids_that_do_not_exist_are_refused(served: sparkport.Server, tmp_path: Path) -> None:
    """Whatever the text, it is not found, and nothing fails inside."""
    with client_of(served, tmp_path, "ada") as client:
        for text in ("1", "-1", "x-1", "a" * 500, "é-٣"):
            with pytest.raises(errors.NotFoundError):
                client.cancel(text)


def test_a_late_statement_is_ended_by_the_server(slow: Slow) -> None:
    """`statement_seconds` ends it with DEADLINE_EXCEEDED, and the text names the setting."""
    builder = sparkport.CatalogBuilder().schema("s")
    builder.add_table(slow)
    limits = ServerLimits(statement_seconds=0.5)
    with (
        sparkport.Server(builder, port=0, token=TOKEN, limits=limits, grace_seconds=0.2) as server,
        sparkport.connect(server.location, token=TOKEN) as client,
    ):
        with pytest.raises(errors.DeadlineExceededError, match="--statement-timeout"):
            client.scan("s", "slow").read_all()

        assert [one["code"] for one in client.statements()] == ["DEADLINE_EXCEEDED"]
        assert slow.ended.wait(5)


def test_a_late_statement_whose_client_is_silent_is_ended_too() -> None:
    """A stream that nobody feeds or reads does not outlive the time of a statement."""
    catalog = sparkport.CatalogBuilder().schema("s").table("t", ROWS).build()
    limits = ServerLimits(statement_seconds=0.3)
    with (
        sparkport.Server(catalog, port=0, token=TOKEN, limits=limits, grace_seconds=0.2) as server,
        Flight(server.location, TOKEN) as flight,
    ):
        exchange = flight.exchange("insert")
        code, message = refusal(exchange.rest)

    assert (code, "--statement-timeout" in message) == ("DEADLINE_EXCEEDED", True) or code == "CANCELLED"


def test_statements_of_one_principal_are_limited(slow: Slow, tmp_path: Path) -> None:
    """Beyond the limit a principal is refused, another is not, and the own ones can still be listed."""
    tokens = tmp_path / "tokens"
    for name in ("ada", "grace"):
        (tmp_path / name).write_text(TokenFile(tokens).create(name, None))
    builder = sparkport.CatalogBuilder().schema("s").table("t", ROWS)
    builder.add_table(slow)
    limits = ServerLimits(statements_per_principal=1)
    with (
        sparkport.Server(builder, port=0, tokens=tokens, limits=limits, grace_seconds=0.2) as server,
        client_of(server, tmp_path, "ada") as ada,
        client_of(server, tmp_path, "grace") as grace,
    ):
        reader = reading(ada)
        with pytest.raises(errors.LimitExceededError, match="--statements-per-principal"):
            ada.scan("s", "t").read_all()

        assert grace.scan("s", "t").read_all().num_rows == 1000
        ada.cancel(str(only_running(ada)["id"]))
        with pytest.raises(errors.CancelledError):
            reader.read_all()
        assert ada.scan("s", "t").read_all().num_rows == 1000


def test_functions_list_and_cancel(served: sparkport.Server, tmp_path: Path) -> None:
    """`sparkport.statements()` and `sparkport.cancel(id)` are there for DuckDB, on any catalog."""
    with client_of(served, tmp_path, "ada") as client:
        reader = reading(client)
        rows = function(served, tmp_path, "statements", [])
        statement = next(row for row in rows if row["table"] == "lakehouse/s/slow")
        (cancelled,) = function(served, tmp_path, "cancel", [statement["id"]])
        with pytest.raises(errors.CancelledError):
            reader.read_all()

    assert statement["state"] == "streaming"
    assert cancelled == {"id": statement["id"], "state": "cancelled", "code": "CANCELLED"}


def function(
    served: sparkport.Server, tmp_path: Path, name: str, parameters: list[object]
) -> list[dict[str, object]]:
    """Call a table function by its name."""
    with Flight(served.location, (tmp_path / "ada").read_text(), airport=False) as flight:
        body = {"name": f"sparkport.{name}", "parameters": parameters}
        (answer,) = flight.action("table_function_flight_info", msgspec.msgpack.encode(body))
        info = pb.FlightInfo.FromString(answer)
        rows: list[dict[str, object]] = table_of(flight.get(info.endpoint[0].ticket.ticket)).to_pylist()
    return rows


def test_the_last_thousand_are_kept(served: sparkport.Server) -> None:
    """Memory is bounded: older statements are forgotten."""
    with sparkport.connect(served.location, token=TOKEN) as client:
        for _ in range(1010):
            client.scan("s", "t").read_all()
        kept = client.statements()

    assert len(kept) == 1000
    assert served.statements.running() == 0


def test_command_line_lists_and_cancels(served: sparkport.Server, tmp_path: Path) -> None:
    """`sparkport ps` shows what runs, `sparkport cancel ID` ends it; both say plainly when they cannot."""
    options = ["--server", served.location, "--token", (tmp_path / "ada").read_text()]
    run = CliRunner().invoke
    nothing = run(cli.app, ["ps", *options])
    with client_of(served, tmp_path, "ada") as client:
        reader = reading(client)
        listed = run(cli.app, ["ps", *options])
        statement = str(only_running(client)["id"])
        cancelled = run(cli.app, ["cancel", statement, *options])
        with pytest.raises(errors.CancelledError):
            reader.read_all()
    missing = run(cli.app, ["cancel", "abc-1", *options])

    assert nothing.stdout == "no statements run\n"
    assert statement in listed.stdout
    assert "lakehouse/s/slow" in listed.stdout
    assert cancelled.stdout == f"{statement} cancelled\n"
    assert (missing.exit_code, "abc-1" in missing.stderr) == (2, True)


def test_a_client_that_leaves_is_a_cancelled_statement(
    served: sparkport.Server, tmp_path: Path, slow: Slow
) -> None:
    """What ends because its client is gone is listed as cancelled."""
    with client_of(served, tmp_path, "ada") as client:
        reader = reading(client)
        reader.close()
        del reader
        assert slow.ended.wait(5)
        assert eventually(lambda: client.statements()[0]["state"] == "cancelled")
