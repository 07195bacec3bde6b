"""The command line: what it prints, what it refuses, how it ends."""

from __future__ import annotations

import json
import re
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

import sparkport
from sparkport import cli
from tests.flight_client import Flight, refusal
from tests.json_client import INT, TEXT, JsonClient, table

from .serving import Process

Run = Callable[..., tuple[int, str, str]]

APP = """
import os

import pyarrow as pa
from sparkport import App, CatalogBuilder
from sparkport.memory import MemoryCatalog

builder = CatalogBuilder().schema("demo").table("numbers", pa.table({"n": [1, 2, 3]}))
catalog = builder.build()
several = {"one": catalog, "two": MemoryCatalog()}
nothing = 42
wrong = {"one": 1}
numbered = {1: catalog}
alike = {"one": catalog, "ONE": catalog}


def made():
    return catalog


def named(name):
    return catalog


def failing():
    raise RuntimeError("no\\nluck")


def silent():
    raise KeyError


def helped(count=2, *rest, **others):
    return catalog


class Holder:
    inner = catalog


app = App(schema="utils")
app.add_table(pa.table({"n": [1]}), name="own")
app.action("ping")(lambda body: b"pong " + body)
app.action("variable")(lambda body: os.environ.get(body.decode(), "not set").encode())
clash = App(schema="SALES")
clash.add_table(pa.table({"n": [1]}), name="own")
"""


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Run]:
    """Run a command that ends by itself, in this process: exit code, output and errors."""
    (tmp_path / "shop.py").write_text(APP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("SPARKPORT_ENGINE", "memory")
    # The log would go on writing to the captured output of the first command.
    monkeypatch.setattr("sparkport.cli.serve.configure_logs", lambda *_: None)

    def invoke(*arguments: str) -> tuple[int, str, str]:
        result = CliRunner().invoke(cli.app, list(arguments))
        return result.exit_code, result.stdout, result.stderr

    yield invoke
    sys.modules.pop("shop", None)


def databases(process: Process, token: str | None) -> list[str]:
    """Return the names that a server serves."""
    with Flight(process.location, token) as client:
        infos = client.list_flights()
        names = {msgspec.msgpack.decode(info.app_metadata)["catalog"] for info in infos}
        return sorted(names)


def test_version_is_printed(run: Run) -> None:
    """`--version` prints name and version and ends well."""
    assert run("--version") == (0, f"sparkport {sparkport.__version__}\n", "")


@pytest.mark.parametrize("arguments", [("--help",), ("serve", "--help"), ("-h",)])
def test_help_shows_examples(run: Run, arguments: tuple[str, ...]) -> None:
    """The help has examples that can be pasted."""
    code, text, _ = run(*arguments)

    assert code == 0
    assert "sparkport serve ./lakehouse" in text
    assert "sparkport serve --app mymodule:catalog" in text


def test_program_runs_as_a_module() -> None:
    """`python -m sparkport` is the same program as the command."""
    with Process("--version") as process:
        assert (process.finished(), process.stdout) == (0, [f"sparkport {sparkport.__version__}\n"])


def test_serve_says_when_it_is_ready_and_stops_on_sigterm() -> None:
    """The first line tells the location; SIGTERM ends the server with code 0."""
    with Process("serve", "--port", "0", "--token", "t0k3n") as process:
        location = process.location
        with Flight(location, "t0k3n") as client:
            assert len(client.action("list_schemas", {"catalog_name": "lakehouse"})) == 1
        process.terminate()
        code = process.finished()

    assert code == 0
    assert process.stdout[0] == f"sparkport ready at {location}\n"
    assert re.fullmatch(r"grpc://127\.0\.0\.1:[1-9]\d+", location)


@pytest.mark.slow
def test_sigint_stops_the_server_too() -> None:
    """Ctrl-C ends the server with code 0 and without a traceback."""
    with Process("serve", "--port", "0", "--no-auth") as process:
        assert process.location
        process.process.send_signal(signal.SIGINT)
        code = process.finished()

    assert code == 0
    assert "Traceback" not in process.text


@pytest.mark.slow
def test_greeting_can_be_pasted_into_duckdb() -> None:
    """The greeting has the secret with the right scope and the ATTACH statement."""
    with Process("serve", "--port", "0", "--token", "t0k3n", "--catalog", "shop") as process:
        where = process.location
        process.terminate()
        process.finished()

    text = "".join(process.stdout)
    assert f"CREATE SECRET (TYPE airport, auth_token '<your token>', SCOPE '{where}');" in text
    assert f"ATTACH 'shop' (TYPE airport, LOCATION '{where}');" in text


@pytest.mark.slow
def test_token_is_made_up_when_none_is_given() -> None:
    """Without a token the server makes one, prints it once and asks for it."""
    with Process("serve", "--port", "0") as process:
        with Flight(process.location, None) as stranger:
            assert refusal(stranger.list_flights)[0] == "UNAUTHENTICATED"
        process.terminate()
        process.finished()
        found = re.search(r"auth_token '([^']{32,})'", "".join(process.stdout))

    assert found is not None


@pytest.mark.slow
def test_sample_is_served() -> None:
    """`--sample` starts with a small shop."""
    with (
        Process("serve", "--port", "0", "--no-auth", "--sample") as process,
        Flight(process.location, None) as client,
    ):
        names = [msgspec.msgpack.decode(info.app_metadata)["name"] for info in client.list_flights()]

    assert names == ["customers", "orders"]


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::"])
def test_no_auth_is_refused_beyond_loopback(run: Run, host: str) -> None:
    """A server that others can reach needs a token."""
    code, _, errors = run("serve", "--port", "0", "--no-auth", "--host", host)

    message = f"sparkport: a server without authentication listens on loopback only, not on {host}\n"
    assert (code, errors) == (2, message)


def test_token_and_no_auth_exclude_each_other(run: Run) -> None:
    """A token that nobody needs is a mistake."""
    code, _, errors = run("serve", "--no-auth", "--token", "t0k3n")

    assert (code, errors) == (2, "sparkport: --token and --no-auth cannot be used together\n")


def token_file(folder: Path, text: str, mode: int = 0o600) -> Path:
    """Write a file with a token."""
    path = folder / "token"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_token_comes_from_a_file_and_is_told_to_nobody(tmp_path: Path) -> None:
    """The first line of the file is the token; neither the output nor the list of processes has it."""
    path = token_file(tmp_path, " t0k3n-42 \nand a comment\n")
    with Process("serve", "--port", "0", "--token-file", str(path)) as process:
        with Flight(process.location, None) as stranger, Flight(process.location, "t0k3n-42") as client:
            assert refusal(stranger.list_flights)[0] == "UNAUTHENTICATED"
            assert client.list_flights() == []
        process.terminate()
        process.finished()

    assert f"auth_token '<the token in {path}>'" in process.text
    assert "t0k3n-42" not in process.text


@pytest.mark.slow
@pytest.mark.parametrize("source", ["variable", "config"])
def test_token_file_is_a_setting_like_others(tmp_path: Path, source: str) -> None:
    """It may be named by a variable and in the file of settings."""
    path = token_file(tmp_path, "t0k3n")
    (tmp_path / "sparkport.toml").write_text(f'token-file = "{path}"')
    variables = {
        "variable": {"SPARKPORT_TOKEN_FILE": str(path)},
        "config": {"SPARKPORT_CONFIG": "sparkport.toml"},
    }
    with Process("serve", "--port", "0", cwd=tmp_path, env=variables[source]) as process:
        assert databases(process, "t0k3n") == []


@pytest.mark.slow
def test_token_on_the_command_line_is_hidden() -> None:
    """Others do not see it in the list of processes, and whoever gave it there learns a better way."""
    with Process("serve", "--port", "0", "--token", "t0k3n-42") as process:
        assert databases(process, "t0k3n-42") == []
        shown = Path(f"/proc/{process.process.pid}/cmdline").read_bytes().split(b"\0")

    assert shown[-3:] == [b"--token", b"********", b""]
    assert "use --token-file" in "".join(process.stderr)


@pytest.mark.slow
def test_token_in_a_variable_is_not_inherited(tmp_path: Path) -> None:
    """What the server starts, and the user's code in it, does not find the token in its environment."""
    (tmp_path / "shop.py").write_text(APP)
    arguments = ("serve", "--port", "0", "--app", "shop:app")
    with (
        Process(*arguments, cwd=tmp_path, env={"SPARKPORT_TOKEN": "t0k3n"}) as process,
        Flight(process.location, "t0k3n") as client,
    ):
        assert client.action("variable", b"SPARKPORT_TOKEN") == [b"not set"]
        assert client.action("variable", b"SPARKPORT_ENGINE") == [b"memory"]


def test_token_file_excludes_other_ways(run: Run, tmp_path: Path) -> None:
    """Two tokens, or one that nobody needs, are a mistake."""
    path = str(token_file(tmp_path, "t0k3n"))

    assert run("serve", "--token-file", path, "--token", "t") == (
        2,
        "",
        "sparkport: --token and --token-file cannot be used together\n",
    )
    assert run("serve", "--token-file", path, "--no-auth") == (
        2,
        "",
        "sparkport: --token-file and --no-auth cannot be used together\n",
    )


def test_catalog_needs_a_name(run: Run) -> None:
    """The catalog that DuckDB attaches has a name."""
    assert run("serve", "--no-auth", "--catalog", "") == (2, "", "sparkport: the catalog needs a name\n")


def test_empty_token_is_refused(run: Run) -> None:
    """An empty token would let everybody in."""
    assert run("serve", "--token", "") == (2, "", "sparkport: the token is empty\n")


def test_taken_port_is_told(run: Run) -> None:
    """A port that is taken gives one clear line and code 2."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        code, _, errors = run("serve", "--no-auth", "--port", str(port))

    assert (code, errors.splitlines()[-1]) == (
        2,
        f"sparkport: cannot listen on 127.0.0.1:{port}; is the port taken, or the address another machine's?",
    )
    assert "Traceback" not in errors


def test_a_warehouse_that_cannot_be_is_told(run: Run, tmp_path: Path) -> None:
    """A file, and a folder that nobody can make, give one clear line and code 2."""
    file = tmp_path / "file"
    file.touch()

    assert run("serve", str(file), "--no-auth", "--engine", "spark") == (
        2,
        "",
        f"sparkport: the warehouse '{file}' is a file, not a folder\n",
    )
    assert run("serve", str(file / "inner"), "--no-auth", "--engine", "spark") == (
        2,
        "",
        f"sparkport: the warehouse '{file}/inner' cannot be created: Not a directory\n",
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--port", "70000"), "'--port'"),
        (("--port", "x"), "'--port'"),
        (("--log-level", "loud"), "'loud' is not one of"),
        (("--log-format", "xml"), "'xml' is not one of"),
        (("--engine", "oracle"), "'oracle' is not one of"),
        (("--no-such-option",), "No such option: --no-such-option"),
    ],
)
def test_bad_settings_are_told(run: Run, arguments: tuple[str, ...], message: str) -> None:
    """A setting that means nothing ends with code 2 and is named, without a traceback."""
    code, _, errors = run("serve", "--no-auth", *arguments)

    assert code == 2
    assert message in " ".join(errors.replace("│", " ").split())
    assert "Traceback" not in errors


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("shop:catalog", ["mine"]),
        ("shop:builder", ["mine"]),
        ("shop:made", ["mine"]),
        ("shop:helped", ["mine"]),
        ("shop:Holder.inner", ["mine"]),
        ("shop:several", ["one"]),
    ],
)
def test_app_serves_the_users_own_catalogs(tmp_path: Path, spec: str, expected: list[str]) -> None:
    """`--app` takes a catalog, a builder, a function, a dotted name, or catalogs by name."""
    (tmp_path / "shop.py").write_text(APP)
    with Process(
        "serve", "--port", "0", "--no-auth", "--app", spec, "--catalog", "mine", cwd=tmp_path
    ) as process:
        assert databases(process, None) == expected


@pytest.mark.slow
def test_app_may_be_named_in_the_file(tmp_path: Path) -> None:
    """The key of a flag in the file is the flag's name, whatever the program calls it."""
    (tmp_path / "shop.py").write_text(APP)
    (tmp_path / "sparkport.toml").write_text('app = "shop:catalog"\ncatalog = "mine"\nno-auth = true')
    with Process("serve", "--port", "0", "--config", "sparkport.toml", cwd=tmp_path) as process:
        assert databases(process, None) == ["mine"]


def test_app_is_served_beside_the_engines_tables(tmp_path: Path) -> None:
    """The schemas of an App are in the same database as the engine's, and its actions are answered."""
    (tmp_path / "shop.py").write_text(APP)
    with (
        Process(
            "serve", "--port", "0", "--no-auth", "--sample", "--app", "shop:app", cwd=tmp_path
        ) as process,
        Flight(process.location, None) as client,
    ):
        infos = [msgspec.msgpack.decode(info.app_metadata) for info in client.list_flights()]

        assert client.action("ping", b"!") == [b"pong !"]
        assert [(one["catalog"], one["schema"], one["name"]) for one in infos] == [
            ("lakehouse", "sales", "customers"),
            ("lakehouse", "sales", "orders"),
            ("lakehouse", "utils", "own"),
        ]


def test_app_whose_schema_the_engine_has_is_refused(run: Run) -> None:
    """A name that is taken is told at the start, not found out later."""
    code, _, errors = run("serve", "--port", "0", "--no-auth", "--sample", "--app", "shop:clash")

    assert (code, errors) == (2, "sparkport: schema 'SALES' already exists\n")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("shop", "sparkport: --app is written module:object, not 'shop'"),
        (":catalog", "sparkport: --app is written module:object, not ':catalog'"),
        ("nowhere:catalog", "sparkport: --app: module 'nowhere' does not exist"),
        ("shop:absent", "sparkport: --app: module 'shop' has no 'absent'"),
        (
            "shop:nothing",
            "sparkport: --app: shop:nothing is neither an App, a catalog nor a mapping of names to catalogs",
        ),
        ("shop:numbered", "sparkport: --app: shop:numbered has a catalog under 1, which is not a name"),
        ("shop:alike", "sparkport: catalog 'ONE' already exists"),
        ("shop:wrong", "sparkport: --app: shop:wrong has a value under 'one' that is not a catalog"),
        (
            "shop:named",
            "sparkport: --app: shop:named needs arguments; give a function that is called without any",
        ),
        (
            "json:loads",
            "sparkport: --app: json:loads needs arguments; give a function that is called without any",
        ),
        (
            "builtins:getattr",
            (
                "sparkport: --app: builtins:getattr failed: TypeError:"
                " getattr expected at least 2 arguments, got 0"
            ),
        ),
        ("shop:failing", "sparkport: --app: shop:failing failed: RuntimeError: no luck"),
        ("shop:silent", "sparkport: --app: shop:silent failed: KeyError"),
        ("broken:catalog", "sparkport: --app: module 'broken' failed: ZeroDivisionError: division by zero"),
        (
            "needy:catalog",
            "sparkport: --app: module 'needy' failed: ModuleNotFoundError: No module named 'nowhere'",
        ),
        ("json.nowhere:catalog", "sparkport: --app: module 'json.nowhere' does not exist"),
    ],
)
def test_bad_app_is_told(run: Run, spec: str, message: str) -> None:
    """An `--app` that is not there, fails or is not a catalog gives one clear line and code 2."""
    Path("broken.py").write_text("1 / 0")
    Path("needy.py").write_text("import nowhere")
    code, _, errors = run("serve", "--port", "0", "--no-auth", "--app", spec)

    assert (code, errors) == (2, f"{message}\n")


def test_log_has_one_json_line_per_request_and_no_token() -> None:
    """Each request is one line of JSON with method, status and duration; the token is in none."""
    with Process("serve", "--port", "0", "--token", "t0k3n-42", "--log-format", "json") as process:
        with Flight(process.location, "t0k3n-42") as client:
            client.action("list_schemas", {"catalog_name": "lakehouse"})
            refusal(lambda: client.action("list_schemas", {"catalog_name": "nope"}))
            client.list_flights()
        with Flight(process.location, "wrong-t0k3n") as stranger:
            refusal(stranger.list_flights)
        process.terminate()
        process.finished()
    lines = [json.loads(line) for line in process.stderr]
    requests = [line for line in lines if line["event"] == "request"]

    assert [(line["method"], line.get("action"), line["status"]) for line in requests] == [
        ("DoAction", "list_schemas", "OK"),
        ("DoAction", "list_schemas", "NOT_FOUND"),
        ("ListFlights", None, "OK"),
        ("ListFlights", None, "UNAUTHENTICATED"),
    ]
    assert all(line["ms"] >= 0 and line["level"] == "info" for line in requests)
    assert "t0k3n-42" not in "".join(process.stderr)
    assert "wrong-t0k3n" not in process.text


@pytest.mark.slow
def test_everything_on_standard_error_is_json_if_the_log_is() -> None:
    """What people are told beside the log is an event of it."""
    with Process(
        "serve", "somewhere", "--direct-reads", "--port", "0", "--no-auth", "--log-format", "json"
    ) as process:
        assert process.location
        process.terminate()
        process.finished()

    assert [json.loads(line)["event"] for line in process.stderr] == [
        "the memory engine ignores the warehouse somewhere",
        "the memory engine ignores --direct-reads",
        "stopping",
    ]


@pytest.mark.slow
def test_refusal_is_json_if_the_log_is() -> None:
    """Whoever reads the log learns why there is no server."""
    with Process("serve", "--token", "", "--log-format", "json") as process:
        code = process.finished()

    line = json.loads("".join(process.stderr))
    assert (code, line["level"], line["event"]) == (2, "error", "the token is empty")


def test_people_are_told_in_plain_lines() -> None:
    """Without JSON the notes and the last line are plain text."""
    with Process("serve", "somewhere", "--direct-reads", "--port", "0", "--no-auth") as process:
        assert process.location
        process.terminate()
        process.finished()

    assert process.stderr == [
        "note: the memory engine ignores the warehouse somewhere\n",
        "note: the memory engine ignores --direct-reads\n",
        "sparkport: stopping ...\n",
    ]


def test_allow_query_only_warns() -> None:
    """The old switch is still taken, and told to do nothing."""
    with Process("serve", "--allow-query", "--port", "0", "--no-auth") as process:
        assert process.location
        process.terminate()
        process.finished()

    assert process.stderr == [
        "note: --allow-query does nothing any more: SQL is on, and --no-sql switches it off\n",
        "sparkport: stopping ...\n",
    ]


@pytest.mark.slow
def test_log_tells_what_a_request_is_about() -> None:
    """Also without DuckDB's headers a line has the path: from the body, the command or the ticket."""
    with Process("serve", "--port", "0", "--no-auth", "--log-format", "json") as process:
        with Flight(process.location, None, airport=False) as flight:
            json_client = JsonClient(flight)
            json_client.json("CreateSchema", schema_name="sales")
            json_client.create_table("sales", "orders", INT, TEXT)
            json_client.insert("sales", "orders", table([1], ["one"]))
            json_client.update("sales", "orders", [0], table([2], ["two"]))
            json_client.scan("sales", "orders")
            json_client.delete("sales", "orders", [0])
            refusal(lambda: json_client.insert("sales", "missing", table([1], ["one"])))
        process.terminate()
        process.finished()
    lines = [json.loads(line) for line in process.stderr if line.startswith("{")]
    told = [
        (line.get("action") or line.get("operation") or line["method"], line["path"], line["status"])
        for line in lines
        if line["event"] == "request"
    ]

    assert told == [
        ("CreateSchema", "sales", "OK"),
        ("CreateTable", "sales/orders", "OK"),
        ("insert", "sales/orders", "OK"),
        ("update", "sales/orders", "OK"),
        ("GetFlightInfo", "sales/orders", "OK"),
        ("DoGet", "lakehouse/sales/orders", "OK"),
        ("delete", "sales/orders", "OK"),
        ("insert", "sales/missing", "NOT_FOUND"),
    ]


@pytest.mark.slow
def test_log_lines_cannot_be_forged() -> None:
    """What a client sends is logged short and without line breaks or control characters."""
    with Process("serve", "--port", "0", "--no-auth") as process:
        with Flight(process.location, None) as client:
            for name in ("x\nforged line", "\x1b[31mred", "z" * 100_000):
                assert refusal(lambda name=name: client.action(name, b""))[0] == "UNIMPLEMENTED"  # type: ignore[misc]
        process.terminate()
        process.finished()
    lines = [line for line in process.stderr if "request" in line]

    assert len(lines) == 3
    assert all(line.strip().isprintable() and len(line) < 500 for line in lines)


def test_settings_come_from_the_environment() -> None:
    """Every setting has a variable of its own."""
    settings = {
        "SPARKPORT_PORT": "0",
        "SPARKPORT_TOKEN": "from-env",
        "SPARKPORT_CATALOG": "env",
        "SPARKPORT_SAMPLE": "1",
    }
    with Process("serve", env=settings) as process, Flight(process.location, "from-env") as client:
        assert len(client.action("list_schemas", {"catalog_name": "env"})) == 1
        assert len(client.list_flights()) == 2
