"""Users with passwords: real clients log in, and are out when the list says so."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import adbc_driver_flightsql.dbapi as adbc
import argon2
import pyarrow as pa
import pyarrow.flight as fl
import pytest

import sparkport
from sparkport.app.authentication import passwords
from sparkport.app.authentication import users as user_file
from sparkport.app.authentication.failure_limit import FailureLimit
from sparkport.app.authentication.tokens import TokenFile
from sparkport.app.authentication.users import UserFile
from sparkport.catalog import Call, CreateSchemaOptions
from sparkport.errors import ConfigError, InvalidRequestError, LimitExceededError, UnauthenticatedError
from sparkport.flight.transport import open_calls
from sparkport.flight.transport.auth import basic_header
from sparkport.memory import MemoryCatalog
from tests.conftest import TOKEN
from tests.flight_client import Flight, path_descriptor, refusal

from .serving import Process
from .usage import eventually

PASSWORD = "correct: horse bättery"
TABLE = path_descriptor("db1", "s", "t")


@pytest.fixture
def users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> UserFile:
    """Return a list with one user, whose hash takes little time."""
    quick = argon2.PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    monkeypatch.setattr(user_file, "HASHER", quick)
    monkeypatch.setattr(passwords, "HASHER", quick)
    made = UserFile(tmp_path / "users.json")
    made.create("ada", PASSWORD, None, ["analyst"])
    return made


@pytest.fixture(params=["direct", "standard"])
def server(
    request: pytest.FixtureRequest, users: UserFile, catalog: MemoryCatalog, monkeypatch: pytest.MonkeyPatch
) -> Iterator[sparkport.Server]:
    """Serve to the users of a list and to a token, and check running calls often; no pause ever ends."""
    monkeypatch.setenv("SPARKPORT_GRPC_SERVER", request.param)
    monkeypatch.setattr(open_calls.OpenCalls.__init__, "__defaults__", (0.2,))
    monkeypatch.setattr(FailureLimit.__init__, "__defaults__", (lambda: 0.0, 100))
    catalog.create_schema(Call(), "s", CreateSchemaOptions())
    with sparkport.Server(
        {"db1": catalog}, port=0, token=TOKEN, users=users.path, default_catalog="db1", grace_seconds=0.2
    ) as running:
        yield running


def _arrow(server: sparkport.Server, name: str, password: str) -> tuple[bytes, bytes]:
    with fl.connect(server.location) as client:
        header: tuple[bytes, bytes] = client.authenticate_basic_token(name, password)
        options = fl.FlightCallOptions(headers=[header], timeout=30)
        assert len(list(client.list_actions(options))) > 0
        return header


def _adbc(server: sparkport.Server, name: str, password: str) -> adbc.Connection:
    location = server.location.replace("grpc://", "grpc+tcp://")
    return adbc.connect(location, db_kwargs={"username": name, "password": password}, autocommit=True)


def test_clients_log_in(server: sparkport.Server) -> None:
    """Arrow's Flight client, ADBC and ours take name and password; a handshake gives no password back."""
    name, header = _arrow(server, "ada", PASSWORD)
    with _adbc(server, "ada", PASSWORD) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 42")
        answer = cursor.fetchone()
    with sparkport.connect(server.location, username="ada", password=PASSWORD) as client:
        assert client.tables() == []

    assert (name, answer) == (b"authorization", (42,))
    assert header.startswith(b"Bearer sparkport-session.")
    assert PASSWORD.encode() not in header


def test_the_token_is_still_the_password_of_anybody(server: sparkport.Server) -> None:
    """With a token as its password a name means nothing, also if it is that of a user."""
    for name in ("anyone", "ada"):
        assert _arrow(server, name, TOKEN) == (b"authorization", f"Bearer {TOKEN}".encode())


@pytest.mark.parametrize(("name", "password"), [("ada", "wrong"), ("nobody", PASSWORD), ("ada", "")])
def test_wrong_log_ins(server: sparkport.Server, name: str, password: str) -> None:
    """Whether the name or the password is wrong is not told to any client."""
    text = "the user name or the password is not valid"
    with pytest.raises(fl.FlightUnauthenticatedError, match=text):
        _arrow(server, name, password)
    with pytest.raises(adbc.Error, match=text):
        _adbc(server, name, password)
    with (
        sparkport.connect(server.location, username=name, password=password) as client,
        pytest.raises(UnauthenticatedError, match=text),
    ):
        client.tables()


def test_changes_end_sessions_and_calls(server: sparkport.Server, users: UserFile) -> None:
    """A new password, or a removed user, refuses the next call, and ends those that run without a commit."""
    _, bearer = _arrow(server, "ada", PASSWORD)
    columns = pa.schema({"id": pa.int64()})
    with Flight(server.location, TOKEN) as own, Flight(server.location, None) as first:
        own.create_table("db1", "s", "t", columns)
        first.headers.append(("authorization", bearer.decode()))
        by_session = first.exchange("insert")
        by_session.open(TABLE, columns)
        first.headers[-1] = ("authorization", basic_header("ada", PASSWORD))
        by_password = first.exchange("insert")
        by_password.open(TABLE, columns)
        users.set_password("ada", "another password")
        ended = [refusal(call.rest)[0] for call in (by_session, by_password)]
        rows = own.read(TABLE, 1)
    with pytest.raises(fl.FlightUnauthenticatedError):
        _arrow(server, "ada", PASSWORD)
    _arrow(server, "ada", "another password")
    users.remove("ada")
    with pytest.raises(fl.FlightUnauthenticatedError):
        _arrow(server, "ada", "another password")

    assert set(ended) <= {"UNAUTHENTICATED", "CANCELLED"}  # gRPC's own server can tell no other code
    assert rows.num_rows == 0


def test_too_many_failures(server: sparkport.Server, users: UserFile) -> None:
    """After ten the address has to wait; who has a token, or was right before, does not."""
    users.create("bob", PASSWORD, None)
    with (
        sparkport.connect(server.location, username="ada", password=PASSWORD) as known,
        sparkport.connect(server.location, username="bob", password=PASSWORD) as late,
        sparkport.connect(server.location, username="x", password="wrong") as stranger,
        sparkport.connect(server.location, token=TOKEN) as own,
    ):
        known.tables()
        for _ in range(10):
            with pytest.raises(UnauthenticatedError):
                stranger.tables()
        with pytest.raises(LimitExceededError, match="too many failed log-ins from this address"):
            late.tables()

        assert (known.tables(), own.tables()) == ([], [])


def test_console_takes_a_password(users: UserFile, catalog: MemoryCatalog) -> None:
    """A log-in with name and password is a session that ends with the user."""
    with sparkport.Server({"db1": catalog}, port=0, users=users.path, http_port=0) as server:
        ways, _ = _http(server, "/api/login")
        wrong, _ = _http(server, "/api/login", {"user": "ada", "password": "wrong"})
        right, cookie = _http(server, "/api/login", {"user": "ada", "password": PASSWORD})
        before, _ = _http(server, "/api/server", cookie=cookie)
        users.remove("ada")
        after, _ = _http(server, "/api/server", cookie=cookie)

    assert (ways, right) == ({"takes_passwords": True}, {})
    assert (wrong["code"], after["code"]) == ("UNAUTHENTICATED", "UNAUTHENTICATED")
    assert before["principal"] == "ada"
    assert before["is_administrator"] is False


def test_settings_that_contradict_each_other(users: UserFile, catalog: MemoryCatalog, tmp_path: Path) -> None:
    """A list is a mistake where nobody looks at it, and so is one that cannot be read."""
    with pytest.raises(ConfigError, match="authenticate=False"):
        sparkport.Server({"db1": catalog}, port=0, users=users.path, authenticate=False)
    with pytest.raises(ConfigError, match=r"the user list .* cannot be read"):
        sparkport.Server({"db1": catalog}, port=0, users=tmp_path / "none")
    for given in ({"username": "ada"}, {"password": "x"}, {"username": "a", "password": "x", "token": "t"}):
        with pytest.raises(InvalidRequestError, match="either a token"):
            sparkport.connect("grpc://127.0.0.1:1", **given)  # type: ignore[arg-type]


def test_users_and_tokens_side_by_side(users: UserFile, catalog: MemoryCatalog, tmp_path: Path) -> None:
    """Both lists count, and the server makes up no token."""
    tokens = TokenFile(tmp_path / "tokens.json")
    token = tokens.create("bob", None)
    with sparkport.Server({"db1": catalog}, port=0, users=users.path, tokens=tokens.path) as server:
        assert server.token is None
        with sparkport.connect(server.location, token=token) as client:
            assert client.tables() == []
        with sparkport.connect(server.location, username="ada", password=PASSWORD) as client:
            assert client.tables() == []


def test_commands(tmp_path: Path) -> None:
    """The commands make a user whom a server takes, and the password is in no output and no process list."""
    path = tmp_path / "users.json"
    file = ("--file", str(path))
    assert _run("create", "ada", "--expires", "30d", "--role", "analyst", "--password-stdin", *file) == (
        0,
        "",
    )
    listed = _run("list", *file)
    with Process("serve", "--port", "0", "--users", str(path)) as server:
        with sparkport.connect(server.location, username="ada", password=PASSWORD) as client:
            assert client.tables() == []
            with (
                sparkport.connect(server.location, username="ada", password="w" * 20) as other,
                pytest.raises(UnauthenticatedError),
            ):
                other.tables()
            assert PASSWORD not in Path(f"/proc/{server.process.pid}/cmdline").read_text()
            assert _run("password", "ada", "--password-stdin", *file, text="another password\n") == (0, "")
            with pytest.raises(UnauthenticatedError):
                client.tables()
            path.chmod(0o666)
            with (
                sparkport.connect(server.location, username="ada", password="another password") as changed,
                pytest.raises(UnauthenticatedError),
            ):
                changed.tables()
        assert eventually(lambda: "users not reloaded, none is valid" in server.text)
        assert "users reloaded" in server.text
        assert not any(
            secret in server.text for secret in (PASSWORD, "w" * 20, "another password", "$argon2")
        )
    path.chmod(0o600)

    assert listed[1].startswith("ada  created ")
    assert listed[1].endswith("  roles analyst\n")
    assert _run("create", "bob", *file)[1].endswith("use --password-stdin\n")
    assert _run("create", "bob", "--password-stdin", *file, text="short\n")[0] == 2
    assert _run("remove", "bob", *file) == (2, "sparkport: user 'bob' not found\n")
    assert _run("remove", "ada", *file) == (0, "")


def _run(*arguments: str, text: str = PASSWORD + "\n") -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "sparkport", "user", *arguments],
        input=text,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def _http(
    server: sparkport.Server, path: str, body: object = None, cookie: str = ""
) -> tuple[dict[str, object], str]:
    """Return the answer of the HTTP port, and the cookie it sets."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"x-sparkport-console": "1", "cookie": cookie}
    request = urllib.request.Request(f"{server.console}{path}", data, headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read()), str(answer.headers["set-cookie"]).partition(";")[0]
    except urllib.error.HTTPError as error:
        with error:
            return json.loads(error.read()), ""
