"""Flight SQL's statements, message by message, over the in-memory engine."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest

import sparkport
from sparkport.catalog import Call, CreateSchemaOptions
from sparkport.memory import MemoryCatalog
from sparkport.protocol import flight_pb2 as pb
from sparkport.protocol import flight_sql_pb2 as sql
from sparkport.protocol.flight_sql.info import SqlInfo
from tests.flight_client import Flight, refusal, table_of
from tests.sql_client import action, descriptor, prepare, put, query, schema, sql_info, update, wrapped

FOREVER = "SELECT sum(hash(a.range + b.range)) AS s FROM range(10000000) a, range(100000) b"


@pytest.fixture(autouse=True)
def table(catalog: MemoryCatalog, plain: Flight) -> None:
    """Make a table with two rows."""
    catalog.create_schema(Call(), "main", CreateSchemaOptions())
    update(plain, "CREATE TABLE t (id BIGINT PRIMARY KEY, name VARCHAR)")
    assert update(plain, "INSERT INTO t VALUES (1, 'a'), (2, 'b')") == 2


def test_a_query_is_described_before_it_runs(plain: Flight) -> None:
    """GetSchema and GetFlightInfo tell the columns; DoGet brings the rows in order."""
    command = sql.CommandStatementQuery(query="SELECT id, name FROM t ORDER BY id DESC")
    info = plain.flight_info(descriptor(command))

    assert schema(plain, command) == pa.schema([("id", pa.int64()), ("name", pa.string())])
    assert info.ordered
    assert not info.endpoint[0].location
    assert info.endpoint[0].expiration_time.seconds > time.time()
    assert query(plain, command.query) == [{"id": 2, "name": "b"}, {"id": 1, "name": "a"}]


def test_getting_the_schema_of_a_change_does_not_run_it(plain: Flight) -> None:
    """Only GetFlightInfo runs a statement without rows, and does so once."""
    command = sql.CommandStatementQuery(query="INSERT INTO t VALUES (3, 'c')")

    assert schema(plain, command) == pa.schema([])
    info = plain.flight_info(descriptor(command))
    assert info.total_records == 1
    assert not info.endpoint
    assert query(plain, "SELECT count(*) AS n FROM t") == [{"n": 3}]


def test_definitions_count_no_rows(plain: Flight) -> None:
    """DDL counts 0 rows: -1 would be taken for a result set."""
    assert update(plain, "CREATE TABLE u (a INT)") == 0
    dropped = plain.flight_info(descriptor(sql.CommandStatementQuery(query="DROP TABLE u")))
    assert dropped.total_records == 0


def test_prepared_statements_take_parameters(plain: Flight) -> None:
    """A prepared query is bound by DoPut; its columns and parameters are known before."""
    made = prepare(plain, "SELECT name FROM t WHERE id = ?")
    command = sql.CommandPreparedStatementQuery(prepared_statement_handle=made.prepared_statement_handle)
    put(plain, command, pa.table({"0": pa.array([2])}))
    info = plain.flight_info(descriptor(command))

    assert pa.ipc.read_schema(pa.py_buffer(made.dataset_schema)).names == ["name"]
    assert pa.ipc.read_schema(pa.py_buffer(made.parameter_schema)).types == [pa.int64()]
    assert len(info.endpoint) == 1
    assert schema(plain, command).names == ["name"]


def test_prepared_changes_take_many_rows_at_once(plain: Flight) -> None:
    """All rows of parameters are one statement; a change has no dataset schema."""
    made = prepare(plain, "INSERT INTO t VALUES (?, ?)")
    command = sql.CommandPreparedStatementUpdate(prepared_statement_handle=made.prepared_statement_handle)
    answer = put(plain, command, pa.table({"0": [3, 4], "1": ["c", "d"]}))
    again = refusal(lambda: put(plain, command, pa.table({"0": [5, 1], "1": ["e", "f"]})))

    assert made.dataset_schema == b""
    assert sql.DoPutUpdateResult.FromString(answer).record_count == 2
    assert again[0] == "INVALID_ARGUMENT"
    assert query(plain, "SELECT count(*) AS n FROM t") == [{"n": 4}]


def test_closing_twice_is_harmless_and_a_closed_handle_is_unknown(plain: Flight) -> None:
    """A handle is of no use once it is closed, nor are bytes that never were one."""
    handle = prepare(plain, "SELECT 1").prepared_statement_handle
    for _ in range(2):
        assert (
            action(
                plain,
                "ClosePreparedStatement",
                sql.ActionClosePreparedStatementRequest(prepared_statement_handle=handle),
            )
            == []
        )
    for unknown in (handle, b"\xff\x00", b""):
        command = sql.CommandPreparedStatementQuery(prepared_statement_handle=unknown)
        assert refusal(lambda: plain.flight_info(descriptor(command)))[0] == "NOT_FOUND"  # noqa: B023


def test_transactions_are_seen_by_themselves_until_they_are_committed(plain: Flight) -> None:
    """A transaction keeps its statements to itself, and SqlInfo says that there are some."""
    begin = sql.ActionBeginTransactionRequest()
    ids = []
    for number in (10, 11):
        (begun,) = action(plain, "BeginTransaction", begin)
        ids.append(sql.ActionBeginTransactionResult.FromString(begun).transaction_id)
        update(plain, f"INSERT INTO t VALUES ({number}, 'x')", transaction_id=ids[-1])
    inside = query(plain, "SELECT count(*) AS n FROM t", transaction_id=ids[0])
    outside = query(plain, "SELECT count(*) AS n FROM t")
    end = sql.ActionEndTransactionRequest
    action(plain, "EndTransaction", end(transaction_id=ids[0], action=end.END_TRANSACTION_COMMIT))
    action(plain, "EndTransaction", end(transaction_id=ids[1], action=end.END_TRANSACTION_ROLLBACK))

    assert inside == [{"n": 3}]
    assert outside == [{"n": 2}]
    assert query(plain, "SELECT id FROM t WHERE id > 9") == [{"id": 10}]
    assert sql_info(plain, [SqlInfo.SERVER_TRANSACTION]) == {SqlInfo.SERVER_TRANSACTION: 1}
    (late,) = action(plain, "BeginTransaction", begin)
    late_id = sql.ActionBeginTransactionResult.FromString(late).transaction_id
    update(plain, "INSERT INTO t VALUES (12, 'x')")
    first = query(plain, "SELECT count(*) AS n FROM t", transaction_id=late_id)
    update(plain, "INSERT INTO t VALUES (13, 'x')")
    assert first == query(plain, "SELECT count(*) AS n FROM t", transaction_id=late_id) == [{"n": 4}]
    for wrong in (ids[1], b"nothing", b"\xff"):
        assert refusal(lambda: update(plain, "DELETE FROM t", transaction_id=wrong))[0] in {  # noqa: B023
            "FAILED_PRECONDITION",
            "NOT_FOUND",
            "INVALID_ARGUMENT",
        }
    assert refusal(lambda: action(plain, "EndTransaction", end(transaction_id=ids[0])))[0] == (
        "INVALID_ARGUMENT"
    )


@pytest.mark.parametrize("name", ["BeginSavepoint", "EndSavepoint", "CreatePreparedSubstraitPlan"])
def test_what_is_not_offered_says_so(plain: Flight, name: str) -> None:
    """Savepoints and Substrait are UNIMPLEMENTED."""
    assert refusal(lambda: plain.action(name, b""))[0] == "UNIMPLEMENTED"


@pytest.mark.parametrize("name", ["CancelFlightInfo", "CancelQuery"])
def test_a_running_query_is_cancelled(plain: Flight, name: str) -> None:
    """A query that somebody reads ends when it is cancelled, and its ticket is of no more use."""
    info = plain.flight_info(descriptor(sql.CommandStatementQuery(query=FOREVER)))
    ticket = info.endpoint[0].ticket.ticket
    codes: list[str] = []
    reader = threading.Thread(target=lambda: codes.append(refusal(lambda: plain.get(ticket))[0]))
    reader.start()
    time.sleep(0.5)  # so that it is likely to run; a cancelled ticket is refused as well
    data = info.SerializeToString()
    if name == "CancelQuery":
        (answer,) = action(plain, name, sql.ActionCancelQueryRequest(info=data))
        assert sql.ActionCancelQueryResult.FromString(answer).result == 1
    else:
        (answer,) = plain.action(name, sql.CancelFlightInfoRequest(info=data).SerializeToString())
        assert sql.CancelFlightInfoResult.FromString(answer).status == 1
    reader.join(20)

    assert codes == ["CANCELLED"]
    assert refusal(lambda: plain.get(ticket))[0] == "CANCELLED"


def test_an_endpoint_is_renewed(plain: Flight) -> None:
    """RenewFlightEndpoint gives an endpoint for the same rows; others than the server's are refused."""
    info = plain.flight_info(descriptor(sql.CommandStatementQuery(query="SELECT 5 AS five")))
    request = sql.RenewFlightEndpointRequest(endpoint=info.endpoint[0].SerializeToString())
    (answer,) = plain.action("RenewFlightEndpoint", request.SerializeToString())
    renewed = pb.FlightEndpoint.FromString(answer)
    forged = pb.FlightEndpoint(ticket=pb.Ticket(ticket=b"x")).SerializeToString()
    refused = sql.RenewFlightEndpointRequest(endpoint=forged).SerializeToString()

    assert plain.get(renewed.ticket.ticket)
    assert refusal(lambda: plain.action("RenewFlightEndpoint", refused))[0] == "INVALID_ARGUMENT"


def test_polling_a_query_is_done_at_once(plain: Flight) -> None:
    """PollFlightInfo answers with the complete FlightInfo."""
    data = plain.unary("PollFlightInfo", descriptor(sql.CommandStatementQuery(query="SELECT 1 AS one")))
    poll = sql.PollInfo.FromString(data)

    assert poll.progress == 1.0
    assert not poll.flight_descriptor
    assert len(pb.FlightInfo.FromString(poll.info).endpoint) == 1


def test_a_session_is_kept_in_a_cookie(plain: Flight) -> None:
    """Options hold for calls that carry the cookie; unknown ones are refused one by one."""
    update(plain, "CREATE SCHEMA other")
    update(plain, "CREATE TABLE other.u AS SELECT 7 AS seven")
    options = {
        "schema": sql.SessionOptionValue(string_value="other"),
        "color": sql.SessionOptionValue(string_value="red"),
        "catalog": sql.SessionOptionValue(bool_value=True),
    }
    request = sql.SetSessionOptionsRequest(session_options=options).SerializeToString()
    call = plain.stream("DoAction", pb.Action(type="SetSessionOptions", body=request).SerializeToString())
    headers = dict(call.initial_metadata())
    result = sql.SetSessionOptionsResult.FromString(pb.Result.FromString(next(iter(call))).body)
    cookie = [("cookie", headers["set-cookie"])]
    (shown,) = plain.action("GetSessionOptions", b"", cookie)

    assert {name: error.value for name, error in result.errors.items()} == {"color": 1, "catalog": 2}
    assert query(plain, "SELECT * FROM u", cookie) == [{"seven": 7}]
    assert sql.GetSessionOptionsResult.FromString(shown).session_options["schema"].string_value == "other"
    assert refusal(lambda: query(plain, "SELECT * FROM u"))[0] == "NOT_FOUND"
    wrong = [("cookie", "arrow_flight_session_id=nonsense")]
    assert refusal(lambda: query(plain, "SELECT 1", wrong))[0] == "INVALID_ARGUMENT"
    (closed,) = plain.action("CloseSession", b"")
    assert sql.CloseSessionResult.FromString(closed).status == 1


def test_use_changes_the_session(plain: Flight) -> None:
    """USE gives the client another cookie, and is refused if that would be forgotten."""
    update(plain, "CREATE SCHEMA other")
    update(plain, "CREATE TABLE other.u AS SELECT 7 AS seven")
    body = sql.ActionCreatePreparedStatementRequest(query="USE other")
    preparing = plain.stream(
        "DoAction", pb.Action(type="CreatePreparedStatement", body=wrapped(body)).SerializeToString()
    )
    cookie = [("cookie", dict(preparing.initial_metadata())["set-cookie"])]
    used = {
        text: dict(plain.stream("GetFlightInfo", use_command(text), cookie).initial_metadata())["set-cookie"]
        for text in ("USE other", 'use schema "OTHER" ;', "USE db1.other", "SET SCHEMA = other")
    }

    for changed in used.values():
        assert query(plain, "SELECT * FROM u", [("cookie", changed)]) == [{"seven": 7}]
    assert refusal(lambda: query(plain, "USE other"))[0] == "FAILED_PRECONDITION"
    assert refusal(lambda: query(plain, "USE othr", cookie)) == (
        "NOT_FOUND",
        "schema 'othr' not found. Did you mean 'other'?",
    )
    assert refusal(lambda: query(plain, "USE CATALOG nothing", cookie))[0] == "NOT_FOUND"
    assert refusal(lambda: query(plain, "SET TIME ZONE 'UTC'", cookie))[0] == "FAILED_PRECONDITION"


def use_command(text: str) -> bytes:
    """Return the descriptor of a statement that is sent as a query."""
    return descriptor(sql.CommandStatementQuery(query=text))


def test_what_one_dialect_makes_the_others_see(client: Flight, plain: Flight) -> None:
    """A table of SQL is listed for DuckDB, and has row ids."""
    assert client.list_flights()
    info = plain.flight_info(
        pb.FlightDescriptor(type=pb.FlightDescriptor.PATH, path=["main", "t"]).SerializeToString()
    )
    assert pa.ipc.read_schema(pa.py_buffer(info.schema)).names == ["id", "name", "rowid"]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("SELEC 1", "INVALID_ARGUMENT"),
        ("", "INVALID_ARGUMENT"),
        ("SELECT 1; SELECT 2", "INVALID_ARGUMENT"),
        ("SELECT * FROM nothing", "NOT_FOUND"),
        ("SELECT nothing FROM t", "NOT_FOUND"),
        ("SELECT * FROM read_csv('/etc/passwd')", "PERMISSION_DENIED"),
        ("SET threads = 1", "UNIMPLEMENTED"),
    ],
)
def test_errors_have_their_codes(plain: Flight, text: str, code: str) -> None:
    """A wrong statement has a code of its own, one paragraph, and no stack."""
    found, message = refusal(lambda: plain.flight_info(descriptor(sql.CommandStatementQuery(query=text))))

    assert found == code
    assert "Traceback" not in message
    assert "\n" not in message


def test_unbound_parameters_are_an_error(plain: Flight) -> None:
    """A query whose parameters nobody has bound is refused when it runs."""
    assert refusal(lambda: query(plain, "SELECT ? AS a"))[0] == "INVALID_ARGUMENT"


def test_without_a_token_nobody_runs_sql(server: sparkport.Server) -> None:
    """A caller without credentials is refused."""
    with Flight(server.location, None, airport=False, alone=True) as stranger:
        assert refusal(lambda: query(stranger, "SELECT 1"))[0] == "UNAUTHENTICATED"


def test_ingest_is_all_or_nothing(plain: Flight) -> None:
    """Rows that break a constraint, or do not fit, leave the table as it was; a new table is not left."""
    options = sql.CommandStatementIngest.TableDefinitionOptions
    append = options(
        if_not_exist=options.TABLE_NOT_EXIST_OPTION_FAIL, if_exists=options.TABLE_EXISTS_OPTION_APPEND
    )
    create = options(
        if_not_exist=options.TABLE_NOT_EXIST_OPTION_CREATE, if_exists=options.TABLE_EXISTS_OPTION_FAIL
    )

    def ingest(table: str, rows: pa.Table, mode: sql.CommandStatementIngest.TableDefinitionOptions) -> int:
        command = sql.CommandStatementIngest(table=table, schema="main", table_definition_options=mode)
        return sql.DoPutUpdateResult.FromString(put(plain, command, rows)).record_count

    assert ingest("t", pa.table({"id": [3, 4], "name": ["c", None]}), append) == 2
    for rows, code in (
        (pa.table({"id": [5, 1], "name": ["e", "f"]}), "INVALID_ARGUMENT"),
        (pa.table({"id": ["x"], "name": ["e"]}), "INVALID_ARGUMENT"),
        (pa.table({"id": [6]}), "INVALID_ARGUMENT"),
    ):
        assert refusal(lambda: ingest("t", rows, append))[0] == code  # noqa: B023
    assert query(plain, "SELECT count(*) AS n FROM t") == [{"n": 4}]
    assert refusal(lambda: ingest("t", pa.table({"id": [9]}), create))[0] == "ALREADY_EXISTS"
    assert refusal(lambda: ingest("none", pa.table({"id": [9]}), append))[0] == "NOT_FOUND"
    assert ingest("fresh", pa.table({"a": pa.array([1.5], pa.float16())}), create) == 1
    assert schema(plain, sql.CommandStatementQuery(query="SELECT a FROM fresh")).types == [pa.float16()]


def test_sql_can_be_switched_off(catalog: MemoryCatalog) -> None:
    """Without SQL the metadata is still there, and SqlInfo says so."""
    with (
        sparkport.Server({"db1": catalog}, port=0, token="t", default_catalog="db1", sql=False) as server,
        Flight(server.location, "t", airport=False, alone=True) as flight,
    ):
        assert refusal(lambda: query(flight, "SELECT 1"))[0] == "FAILED_PRECONDITION"
        assert refusal(lambda: update(flight, "DROP TABLE t"))[0] == "FAILED_PRECONDITION"
        assert refusal(lambda: prepare(flight, "SELECT 1"))[0] == "FAILED_PRECONDITION"
        assert sql_info(flight, [SqlInfo.SERVER_SQL]) == {SqlInfo.SERVER_SQL: False}


def test_servers_with_one_key_take_each_others_tickets(tmp_path: Path) -> None:
    """A ticket of one server is read at another with the same ticket key file, and nowhere else."""
    key = tmp_path / "key"
    key.write_text("a key of at least thirty-two characters")
    key.chmod(0o600)
    catalog = MemoryCatalog()
    with (
        sparkport.Server(catalog, port=0, token="one", ticket_key_file=key) as first,
        sparkport.Server(catalog, port=0, token="two", ticket_key_file=key) as second,
        sparkport.Server(catalog, port=0, token="three") as third,
    ):
        flights = [Flight(s.location, s.token, airport=False) for s in (first, second, third)]
        info = flights[0].flight_info(descriptor(sql.CommandStatementQuery(query="SELECT 42 AS n")))
        ticket = info.endpoint[0].ticket.ticket

        assert table_of(flights[1].get(ticket)).to_pylist() == [{"n": 42}]
        assert refusal(lambda: flights[2].get(ticket))[0] == "INVALID_ARGUMENT"
