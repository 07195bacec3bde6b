"""The HTTP port: health, metrics, and what the console asks for."""

from __future__ import annotations

import http.client
import io
import json
import re
import signal
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from email.message import Message
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sparkport
from sparkport.app.authentication.tokens import TokenFile
from sparkport.app.sample import load_sample
from sparkport.catalog.measures import MEASURES
from sparkport.cli import serve
from sparkport.errors import ConfigError, ConflictError, NotFoundError
from sparkport.memory import MemoryCatalog
from tests.certificates import Authority
from tests.flight_client import Flight

from .serving import Process
from .usage import eventually

TOKEN = "http-token"
REPOSITORY = Path(__file__).parents[2]
ACCESS = """
[roles]
analyst = ["ada"]

[[grant]]
to = "analyst"
allow = ["select", "execute", "sql"]
catalogs = "lakehouse"

[[grant]]
to = "analyst"
deny = "browse"
tables = "lakehouse.sales.customers"
"""
ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["one", "two", None]})


class Web:
    """Calls the HTTP port of a server."""

    def __init__(self, location: str, token: str | None = TOKEN) -> None:
        self.location = location
        self.headers = {} if token is None else {"authorization": f"Bearer {token}"}

    def call(
        self, path: str, body: object = None, *, headers: dict[str, str] | None = None, method: str = ""
    ) -> tuple[int, bytes, Message]:
        """Return status, body and headers of an answer."""
        data = None if body is None else json.dumps(body).encode()
        given = {"x-sparkport-console": "1", **self.headers, **(headers or {})}
        request = urllib.request.Request(self.location + path, data, given, method=method or None)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read(), answer.headers
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read(), error.headers

    def json(self, path: str, body: object = None) -> Any:
        """Return the JSON of an answer."""
        status, data, _ = self.call(path, body)
        assert status == 200, data
        return json.loads(data)

    def sql(self, text: str) -> list[dict[str, Any]]:
        """Return the lines of a statement."""
        status, data, _ = self.call("/api/sql", {"sql": text})
        assert status == 200, data
        return [json.loads(line) for line in data.splitlines()]

    def metric(self, name: str) -> float:
        """Return a number by its whole name, 0 if it is not there."""
        status, data, _ = self.call("/metrics")
        assert status == 200
        found = [line for line in data.decode().splitlines() if line.startswith(name + " ")]
        return float(found[0].rpartition(" ")[2]) if found else 0.0


@pytest.fixture
def server() -> Iterator[sparkport.Server]:
    """Serve a table in memory, with an HTTP port."""
    with sparkport.Server(MemoryCatalog(), port=0, token=TOKEN, http_port=0, grace_seconds=0.2) as running:
        with sparkport.connect(running.location, token=TOKEN) as client:
            client.create_schema("s", comment="a schema")
            client.create_table("s", "t", ROWS.schema, comment="a table")
            client.insert("s", "t", ROWS)
        yield running


@pytest.fixture
def web(server: sparkport.Server) -> Web:
    """Call it with its token."""
    assert server.console is not None
    found = Web(server.console)
    assert found.call("/healthz")[:2] == (200, b"ok\n")  # from now on requests are counted
    return found


class Dropped:
    """A table that is dropped while it is listed."""

    name = "gone"
    arrow_schema = ROWS.schema

    @property
    def comment(self) -> str:
        """Be gone."""
        raise NotFoundError("table", "s.gone")

    def scan(self, call: object, options: object) -> pa.RecordBatchReader:
        """Be gone."""
        del call, options
        raise NotFoundError("table", "s.gone")


def test_a_table_that_is_dropped_meanwhile_hides_no_other() -> None:
    """The catalog of the console leaves it out."""
    builder = sparkport.CatalogBuilder().schema("s").table("t", ROWS)
    builder.add_table(Dropped())
    with sparkport.Server(builder, port=0, token=TOKEN, http_port=0, grace_seconds=0.2) as server:
        (database,) = Web(str(server.console)).json("/api/databases")

    schema = next(schema for schema in database["schemas"] if schema["name"] == "s")
    assert [table["name"] for table in schema["tables"]] == ["t"]


def test_health_needs_no_token(web: Web) -> None:
    """Both kinds of health are told to anybody, and say nothing else."""
    stranger = Web(web.location, None)

    assert stranger.call("/healthz")[:2] == (200, b"ok\n")
    assert stranger.json("/readyz") == {"ready": True, "problems": {}}


def test_what_is_wrong_makes_a_server_not_ready(web: Web) -> None:
    """A check that fails turns /readyz to 503 with its reason, and back when it is over."""
    stop = MEASURES.check_by("disk", lambda: "the disk is full")
    status, data, _ = web.call("/readyz")
    stop()

    assert (status, json.loads(data)["problems"]) == (503, {"disk": "the disk is full"})
    assert web.call("/readyz")[0] == 200


@pytest.mark.parametrize(
    "path", ["/metrics", "/api/server", "/api/databases", "/api/statements", "/api/pulse", "/api/rows"]
)
def test_everything_else_needs_a_token(web: Web, path: str) -> None:
    """Without a token, or with a wrong one, nobody gets anything."""
    for token in (None, "wrong"):
        status, data, _ = Web(web.location, token).call(path)

        assert status == 401
        assert json.loads(data)["code"] == "UNAUTHENTICATED"


def test_a_log_in_is_a_cookie_that_scripts_and_other_pages_cannot_use(web: Web) -> None:
    """The cookie is HttpOnly and SameSite=Strict, works until the log-out, and is not the token."""
    stranger = Web(web.location, None)
    status, _, headers = stranger.call("/api/login", {"token": TOKEN})
    cookie = headers["set-cookie"]
    session = {"cookie": cookie.partition(";")[0]}

    assert status == 200
    assert "httponly" in cookie.lower()
    assert "samesite=strict" in cookie.lower()
    assert TOKEN not in cookie
    assert stranger.call("/api/server", headers=session)[0] == 200
    assert stranger.call("/api/logout", {}, headers=session)[0] == 200
    assert stranger.call("/api/server", headers=session)[0] == 401
    assert stranger.call("/api/login", {"token": "wrong"})[0] == 401


def test_a_revoked_token_ends_its_sessions(tmp_path: Path) -> None:
    """A session is worth what its token is worth at that moment."""
    tokens = TokenFile(tmp_path / "tokens")
    ada = tokens.create("ada", None)
    with sparkport.Server(MemoryCatalog(), port=0, tokens=tokens.path, http_port=0) as server:
        web = Web(str(server.console), None)
        _, _, headers = web.call("/api/login", {"token": ada})
        session = {"cookie": headers["set-cookie"].partition(";")[0]}
        before = json.loads(web.call("/api/server", headers=session)[1])
        tokens.revoke("ada")
        after = web.call("/api/server", headers=session)[0]

    assert (before["principal"], before["is_administrator"]) == ("ada", False)
    assert after == 401


def test_other_pages_cannot_act_through_a_browser(web: Web) -> None:
    """A POST without the console's header is refused, and so is a name that is not of this machine."""
    plain = urllib.request.Request(
        web.location + "/api/sql",
        b'{"sql": "DELETE FROM s.t"}',
        {**web.headers, "content-type": "text/plain"},
    )
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(plain, timeout=60)
    refused.value.close()

    assert refused.value.code == 403
    assert web.call("/api/server", headers={"host": "evil.example"})[0] == 403
    assert web.sql("SELECT count(*) AS n FROM s.t")[2]["values"] == [[3]]


def test_answers_have_headers_that_protect_the_page(web: Web) -> None:
    """No inline scripts, no frames, nothing from elsewhere."""
    status, page, headers = web.call("/catalog/lakehouse/s/t")
    policy = headers["content-security-policy"]

    assert (status, b'<script type="module" src=' in page) == (200, True)
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"


def test_files_beside_the_page_cannot_be_read(web: Web) -> None:
    """Only what is in the folder of the page is served."""
    with socket.create_connection(("127.0.0.1", int(web.location.rpartition(":")[2])), 10) as raw:
        raw.sendall(b"GET /static/../server.py HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        answer = b"".join(iter(lambda: raw.recv(65536), b""))

    assert b"HttpServer" not in answer
    assert web.call("/static/main.js")[0] == 200
    assert web.call("/static/%2e%2e/server.py")[0] == 404


def test_catalog_is_described(web: Web) -> None:
    """Databases, columns, comments, rows and versions, as the console shows them."""
    (database,) = web.json("/api/databases")
    table = web.json("/api/table?database=lakehouse&schema=s&table=t")
    rows = web.json("/api/rows?database=lakehouse&schema=s&table=t&limit=2")
    before = web.json("/api/rows?database=lakehouse&schema=s&table=t&version=0")

    assert database["schemas"][0] == {
        "name": "s",
        "comment": "a schema",
        "tables": [{"name": "t", "comment": "a table"}],
    }
    assert [(column["name"], column["type"]) for column in table["columns"]] == [
        ("id", "int64"),
        ("name", "string"),
    ]
    assert (table["comment"], table["rows"], table["version"]) == ("a table", 3, "1")
    assert rows["values"] == [[1, 2], ["one", "two"]]
    assert before["rows"] == 0
    assert web.call("/api/table?database=lakehouse&schema=s&table=no")[0] == 404
    assert web.call("/api/rows?database=lakehouse&schema=s&table=t&limit=0")[0] == 400


def test_sql_runs_and_is_listed(web: Web) -> None:
    """Lines with the id, the columns, the rows and the end; a change tells its count, an error its code."""
    lines = web.sql("SELECT id, name, 1e400::DOUBLE AS big FROM s.t ORDER BY id")
    changed = web.sql("DELETE FROM s.t WHERE id = 3")
    failed = web.sql("SELECT nope FROM s.t")
    listed = web.json("/api/statements")

    assert [column["name"] for column in lines[1]["columns"]] == ["id", "name", "big"]
    assert lines[2]["values"][:2] == [[1, 2, 3], ["one", "two", None]]
    assert lines[2]["values"][2] == ["inf"] * 3
    assert lines[-1] == {"done": 3, "cut": False}
    assert changed[1] == {"changed": 1}
    assert failed[1]["code"] == "NOT_FOUND"
    assert [(one["kind"], one["dialect"]) for one in listed[:3]] == [
        ("query", "console"),
        ("delete", "console"),
        ("query", "console"),
    ]
    assert listed[2]["id"] == lines[0]["id"]


def test_a_long_result_is_cut_and_says_so(web: Web) -> None:
    """The page gets 100,000 rows at most."""
    lines = web.sql("SELECT range AS n FROM range(100001)")

    assert lines[-1] == {"done": 100_000, "cut": True}
    assert sum(line.get("rows", 0) for line in lines) == 100_000


def test_rows_are_downloaded_in_three_formats(web: Web) -> None:
    """CSV, Parquet and Arrow have the same rows."""
    body = {"sql": "SELECT id, name, [id] AS ids FROM s.t ORDER BY id"}
    csv, parquet, arrow = (
        web.call("/api/download", {**body, "format": form}) for form in ("csv", "parquet", "arrow")
    )

    assert csv[1] == b'"id","name","ids"\n"1","one","[1]"\n"2","two","[2]"\n"3",,"[3]"\n'
    assert csv[2]["content-disposition"] == 'attachment; filename="rows.csv"'
    rows = pq.read_table(io.BytesIO(parquet[1])).to_pylist()
    assert rows == pa.ipc.open_stream(arrow[1]).read_all().to_pylist()
    assert rows[0] == {"id": 1, "name": "one", "ids": [1]}
    assert web.call("/api/download", {**body, "format": "exe"})[0] == 400
    assert web.call("/api/download", {"sql": "DELETE FROM s.t", "format": "csv"})[0] == 400
    assert web.sql("SELECT count(*) AS n FROM s.t")[2]["values"] == [[3]]


def test_a_query_ends_when_its_page_is_closed(web: Web) -> None:
    """Whoever leaves in the midst of an answer leaves nothing running."""
    endless = "SELECT count(*) AS n FROM range(100000000) a, range(100000000) b"
    connection = http.client.HTTPConnection(web.location.removeprefix("http://"), timeout=60)
    headers = {"x-sparkport-console": "1", **web.headers}
    connection.request("POST", "/api/sql", json.dumps({"sql": endless}), headers)
    answer = connection.getresponse()
    statement = json.loads(answer.readline())["id"]
    connection.close()
    answer.close()

    def state() -> str:
        return str(next(one["state"] for one in web.json("/api/statements") if one["id"] == statement))

    assert eventually(lambda: state() in {"cancelled", "failed"})


def test_a_query_is_cancelled_by_its_id(web: Web) -> None:
    """The page that runs it gets a line with CANCELLED."""
    endless = "SELECT count(*) AS n FROM range(100000000) a, range(100000000) b"
    connection = http.client.HTTPConnection(web.location.removeprefix("http://"), timeout=60)
    headers = {"x-sparkport-console": "1", **web.headers}
    connection.request("POST", "/api/sql", json.dumps({"sql": endless}), headers)
    answer = connection.getresponse()
    statement = json.loads(answer.readline())["id"]
    cancelled = web.json("/api/cancel", {"id": statement})
    last = json.loads(answer.read().splitlines()[-1])
    connection.close()

    assert cancelled["state"] == "cancelled"
    assert last["code"] == "CANCELLED"
    assert web.call("/api/cancel", {"id": "nobody-1"})[0] == 404


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"sql": 1}', b'{"sql": ""}', b"[" * 100_000, b"\xff"])
def test_bad_requests_are_refused(web: Web, body: bytes) -> None:
    """Whatever is sent, it is told in JSON, and the server goes on."""
    request = urllib.request.Request(
        web.location + "/api/sql", body, {"x-sparkport-console": "1", **web.headers}
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            last = json.loads(answer.read().splitlines()[-1])
    except urllib.error.HTTPError as error:
        with error:
            last = json.loads(error.read())

    assert last["code"] == "INVALID_ARGUMENT"
    assert web.call("/healthz")[0] == 200


def requests_and_rows(server: sparkport.Server, web: Web) -> None:
    """Scan a table from Flight and insert into it."""
    del web
    with sparkport.connect(server.location, token=TOKEN) as client:
        client.insert("s", "t", ROWS)
        client.scan("s", "t").read_all()


def failing(server: sparkport.Server, web: Web) -> None:
    """Ask for a table that is not there."""
    del web
    with (
        sparkport.connect(server.location, token=TOKEN) as client,
        pytest.raises(sparkport.errors.NotFoundError),
    ):
        client.scan("s", "no")


def conflict(server: sparkport.Server, web: Web) -> None:
    """Change rows that another has changed since."""
    del web
    with (
        sparkport.connect(server.location, token=TOKEN) as one,
        sparkport.connect(server.location, token=TOKEN) as other,
    ):
        one.scan("s", "t").read_all()
        other.scan("s", "t").read_all()
        other.delete("s", "t", [0])
        with pytest.raises(ConflictError):
            one.delete("s", "t", [0])


def listing(server: sparkport.Server, web: Web) -> None:
    """List the schemas twice, as DuckDB does."""
    del web
    with Flight(server.location, TOKEN) as flight:
        for _ in range(2):
            flight.action("list_schemas", {"catalog_name": "lakehouse"})


@pytest.mark.parametrize(
    ("act", "name"),
    [
        (requests_and_rows, 'sparkport_requests_total{code="OK",dialect="json",method="DoGet"}'),
        (failing, 'sparkport_requests_total{code="NOT_FOUND",dialect="json",method="GetFlightInfo"}'),
        (requests_and_rows, 'sparkport_request_seconds_count{method="DoGet"}'),
        (requests_and_rows, 'sparkport_rows_total{direction="out"}'),
        (requests_and_rows, 'sparkport_rows_total{direction="in"}'),
        (requests_and_rows, 'sparkport_bytes_total{direction="out"}'),
        (requests_and_rows, 'sparkport_bytes_total{direction="in"}'),
        (requests_and_rows, 'sparkport_scans_total{read_mode="engine"}'),
        (requests_and_rows, "sparkport_commits_total"),
        (conflict, "sparkport_conflicts_total"),
        (listing, 'sparkport_cache_hits_total{cache="listing"}'),
        (listing, 'sparkport_cache_misses_total{cache="listing"}'),
    ],
)
def test_a_number_rises(
    server: sparkport.Server, web: Web, act: Callable[[sparkport.Server, Web], None], name: str
) -> None:
    """Each number is moved by what it counts."""
    before = web.metric(name)
    act(server, web)

    assert eventually(lambda: web.metric(name) > before)


@pytest.mark.parametrize(
    "name",
    [
        "commit_retries_total",
        "commit_groups_total",
        "grouped_statements_total",
        "files_skipped_total",
        "spark_jobs_failed_total",
        "spark_restarts_total",
        "spark_jobs_running",
        "spark_jobs_queued",
        'cache_hits_total{cache="plan"}',
        'cache_misses_total{cache="plan"}',
    ],
)
def test_what_engines_count_is_shown(web: Web, name: str) -> None:
    """A number that only Spark moves is the one that its engine counts."""
    counted = name.removesuffix("_total")
    if "{" in counted:
        counted = f"{counted.partition('_total')[0]}_plan"
    before = web.metric(f"sparkport_{name}")
    MEASURES.count(counted)
    after = web.metric(f"sparkport_{name}")
    MEASURES.count(counted, -1)

    assert after == before + 1


@pytest.mark.parametrize("name", ["jvm_memory_bytes", "staging_bytes", "spool_bytes", "warehouse_free_bytes"])
def test_what_is_measured_is_shown(web: Web, name: str) -> None:
    """A level is asked for at the moment it is shown."""
    before = web.metric(f"sparkport_{name}")
    stop = MEASURES.measure_by(name, lambda: 17.0)
    after = web.metric(f"sparkport_{name}")
    stop()

    assert after == before + 17


def test_levels_rise_and_fall(server: sparkport.Server, web: Web) -> None:
    """Open transactions, sessions, streams and statements are those of now."""
    with sparkport.connect(server.location, token=TOKEN) as client:
        with client.transaction():
            within = web.metric("sparkport_open_transactions")
        after = web.metric("sparkport_open_transactions")
    sessions = web.metric("sparkport_sessions_open")
    web.json("/api/login", {"token": TOKEN})

    assert within == after + 1
    assert web.metric("sparkport_sessions_open") == sessions + 1
    assert web.metric("sparkport_memory_bytes") > 10_000_000
    assert web.metric("sparkport_statements_running") == 0
    assert web.metric("sparkport_streams_open") == 0
    assert web.metric("sparkport_rows_memory_bytes") == 0


def test_tls_and_tokens_are_those_of_grpc(tmp_path: Path) -> None:
    """With a certificate the console is https, and its cookie is sent nowhere else."""
    authority = Authority(tmp_path)
    certificate, key = authority.sign("server")
    with sparkport.Server(
        MemoryCatalog(), port=0, token=TOKEN, http_port=0, tls_cert=certificate, tls_key=key
    ) as server:
        trust = ssl.create_default_context(cafile=str(authority.ca))
        request = urllib.request.Request(
            str(server.console) + "/api/login",
            json.dumps({"token": TOKEN}).encode(),
            {"x-sparkport-console": "1"},
        )
        with urllib.request.urlopen(request, timeout=60, context=trust) as answer:
            cookie = answer.headers["set-cookie"]

    assert str(server.console).startswith("https://")
    assert "secure" in cookie.lower()


def test_an_exposed_page_needs_encryption_and_tokens() -> None:
    """Beyond loopback the page needs what the gRPC port needs."""
    with pytest.raises(ConfigError, match="TLS"):
        sparkport.Server(MemoryCatalog(), port=0, http_host="0.0.0.0", http_port=0)
    with pytest.raises(ConfigError, match="loopback"):
        sparkport.Server(MemoryCatalog(), port=0, authenticate=False, http_host="0.0.0.0", http_port=0)


def test_command_line_offers_the_console() -> None:
    """The second line says where it is; SIGHUP stops nothing, SIGTERM everything."""
    with Process("serve", "--port", "0", env={"SPARKPORT_NO_HTTP": "0"}) as process:
        assert process.location
        assert eventually(lambda: len(process.stdout) > 1)
        first, second = process.stdout[:2]
        web = Web(second.strip().removeprefix("console at "), None)
        process.process.send_signal(signal.SIGHUP)
        assert eventually(lambda: "reloaded" in process.text)
        healthy = web.call("/healthz")[0]
        process.terminate()
        code = process.finished()

    assert first.startswith("sparkport ready at grpc://127.0.0.1:")
    assert (healthy, code) == (200, 0)


def test_a_port_that_was_asked_for_and_is_taken_is_an_error() -> None:
    """Only the usual port may be replaced by another one."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with Process("serve", "--port", "0", "--http-port", port, env={"SPARKPORT_NO_HTTP": "0"}) as process:
            code = process.finished()

    assert code == 2
    assert f"cannot listen on 127.0.0.1:{port} for HTTP" in process.text


def test_the_usual_port_is_replaced_where_it_is_taken() -> None:
    """Servers that start on a machine at the same moment all get a port, and say where their consoles are."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        usual = probe.getsockname()[1]

    def start() -> sparkport.Server:
        return sparkport.Server(MemoryCatalog(), port=0, authenticate=False, http_port=(usual, 0))

    with ThreadPoolExecutor(4) as threads:
        servers = [future.result() for future in [threads.submit(start) for _ in range(4)]]
    ports = [server.http.port for server in servers if server.http is not None]
    for server in servers:
        server.stop()

    assert usual in ports
    assert len(set(ports)) == 4


def test_only_the_usual_port_is_replaced() -> None:
    """A port that was asked for is that or an error; beside a free gRPC port the console's is free too."""

    class Context:
        def __init__(self, source: str) -> None:
            self.source = SimpleNamespace(name=source)

        def get_parameter_source(self, name: str) -> SimpleNamespace:
            assert name == "http_port"
            return self.source

    def ports(source: str, port: int) -> tuple[int, ...]:
        return serve._http_ports(Context(source), port, 8816)  # type: ignore[arg-type]

    assert ports("DEFAULT", 8815) == (8816, 0)
    assert ports("DEFAULT", 0) == (0,)
    assert ports("COMMANDLINE", 8815) == ports("ENVIRONMENT", 0) == (8816,)


def test_every_number_is_documented_and_the_dashboard_knows_no_other(web: Web) -> None:
    """The table of metrics is complete, and each plot of the dashboard is of a number that there is."""
    text = web.call("/metrics")[1].decode()
    families = set(re.findall(r"^# TYPE (sparkport_\w+) (?:counter|histogram|gauge)$", text, re.MULTILINE))
    documented = (REPOSITORY / "docs" / "operations.md").read_text(encoding="utf-8")
    dashboard = (REPOSITORY / "deploy" / "grafana-dashboard.json").read_text(encoding="utf-8")
    plotted = {name.removesuffix("_bucket") for name in re.findall(r"sparkport_\w+", dashboard)}
    families = {name for name in families if not name.endswith("_created")}

    assert [name for name in families if f"`{name}`" not in documented] == []
    assert plotted <= families
    assert json.loads(dashboard)["uid"] == "sparkport"


def test_what_the_console_does_is_audited(tmp_path: Path) -> None:
    """A query and a change from the page are in the audit log, with who and what."""
    log = tmp_path / "audit"
    catalog = MemoryCatalog()
    with sparkport.Server(catalog, port=0, token=TOKEN, http_port=0, audit=log) as server:
        web = Web(str(server.console))
        web.sql("CREATE SCHEMA s")
        web.sql("SELECT 1 AS one")
        web.json("/api/databases")
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]

    assert [(line["event"], line.get("sql")) for line in lines] == [
        ("begin", "CREATE SCHEMA s"),
        ("end", "CREATE SCHEMA s"),
        ("begin", "SELECT 1 AS one"),
        ("end", "SELECT 1 AS one"),
        ("end", None),
    ]
    assert {(line["method"], line["principal"]) for line in lines} == {("Console", "user")}


def test_the_console_shows_what_the_caller_may_see(tmp_path: Path) -> None:
    """Tables without a grant do not exist for the page either, and only an administrator sees all."""
    tokens = TokenFile(tmp_path / "tokens")
    ada = tokens.create("ada", None)
    rules = tmp_path / "access.toml"
    rules.write_text(ACCESS, encoding="utf-8")
    catalog = MemoryCatalog()
    load_sample(catalog)
    with sparkport.Server(
        catalog, port=0, tokens=tokens.path, access=rules, http_port=0, grace_seconds=0.2
    ) as server:
        web = Web(str(server.console), ada)
        (database,) = web.json("/api/databases")
        refused = web.call("/api/table?database=lakehouse&schema=sales&table=customers")[0]
        denied = web.sql("SELECT * FROM sales.customers")
        allowed = web.sql("SELECT count(*) AS n FROM sales.orders")

    tables = [table["name"] for schema in database["schemas"] for table in schema["tables"]]
    assert tables == ["orders"]
    assert refused == 404
    assert denied[-1]["code"] in {"NOT_FOUND", "PERMISSION_DENIED"}
    assert allowed[2]["values"] == [[1000]]


def test_a_caller_without_grants_learns_nothing_from_the_console(tmp_path: Path) -> None:
    """No answer names a database, schema, table or statement that does not exist for the caller."""
    tokens = TokenFile(tmp_path / "tokens")
    ada, eve = tokens.create("ada", None), tokens.create("eve", None)
    rules = tmp_path / "access.toml"
    rules.write_text(ACCESS, encoding="utf-8")
    catalog = MemoryCatalog()
    load_sample(catalog)
    with sparkport.Server(
        catalog, port=0, tokens=tokens.path, access=rules, http_port=0, grace_seconds=0.2
    ) as server:
        Web(str(server.console), ada).sql("SELECT count(*) AS orders_of_ada FROM sales.orders")
        others = json.loads(Web(str(server.console), ada).call("/api/statements")[1])
        web = Web(str(server.console), eve)
        place = "database=lakehouse&schema=sales&table=orders"
        answers = [
            web.call("/api/server"),
            web.call("/api/databases"),
            web.call("/api/statements"),
            web.call("/metrics"),
            web.call(f"/api/table?{place}"),
            web.call(f"/api/rows?{place}"),
            web.call("/api/sql", {"sql": "SELECT * FROM sales.orders", "database": "lakehouse"}),
            web.call("/api/download", {"sql": "SELECT 1", "format": "csv", "database": "lakehouse"}),
            web.call("/api/cancel", {"id": others[0]["id"]}),
        ]
        session = web.call("/api/login", {"token": eve})[2]["set-cookie"].partition(";")[0]
        forged = web.call(
            "/api/sql", {"sql": "SELECT 1"}, headers={"x-sparkport-console": "0", "cookie": session}
        )

    texts = [body.decode() for _, body, _ in answers]
    assert others[0]["principal"] == "ada"
    assert not [text for text in texts if "orders_of_ada" in text or "customers" in text]
    assert json.loads(texts[0])["default"] == ""
    assert [json.loads(text) for text in texts[1:3]] == [[], []]
    assert {status for status, _, _ in answers[4:6]} | {answers[7][0], answers[8][0]} == {404}
    assert "NOT_FOUND" in texts[6]
    assert forged[0] == 403
