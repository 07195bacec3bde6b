"""How a server is set up from Python."""

from __future__ import annotations

import pyarrow as pa
import pytest

import sparkport
from sparkport import App, CatalogBuilder, Server, connect, errors
from sparkport.catalog import Call
from sparkport.memory import MemoryCatalog

CATALOG = CatalogBuilder().schema("s").table("t", pa.table({"n": [1]})).build()


class Staff:
    """Lets in who says a password, and breaks on one of them."""

    def authenticate(self, authorization: str | None) -> str:
        """Return the caller's name."""
        if authorization == "Bearer broken":
            raise OSError("the header was Bearer broken")
        if authorization == "Bearer nobody":
            return ""
        if authorization != "Bearer open sesame":
            raise errors.UnauthenticatedError("say the password")
        return "ali"


def test_authenticator_names_the_caller() -> None:
    """An object of the user's decides who calls, and everything behind it sees the name it gave."""
    app = App()

    @app.table(columns={"name": str})
    def caller(call: Call) -> list[tuple[str]]:
        return [(call.principal,)]

    with (
        Server(app, port=0, authenticator=Staff(), grace_seconds=0) as server,
        connect(server.location, token="open sesame") as client,
    ):
        rows = client.scan("app", "caller").read_all().to_pylist()

    assert server.token is None
    assert rows == [{"name": "ali"}]


@pytest.mark.parametrize(
    ("token", "message"),
    [
        ("guess", "say the password"),
        ("broken", "the credentials could not be checked; see the server's log"),
        ("nobody", "the credentials could not be checked; see the server's log"),
    ],
)
def test_authenticator_that_refuses_or_fails_lets_nobody_in(token: str, message: str) -> None:
    """Its own refusal reaches the client; any failure is a refusal, whose reason does not."""
    with (
        Server(CATALOG, port=0, authenticator=Staff(), grace_seconds=0) as server,
        connect(server.location, token=token) as client,
        pytest.raises(errors.UnauthenticatedError) as refused,
    ):
        client.tables()

    assert str(refused.value) == message


def test_authenticator_needs_its_method() -> None:
    """A mistake shows when the server is made, not at the first call."""
    with pytest.raises(TypeError, match=r"has a method authenticate\(authorization\)"):
        Server(CATALOG, port=0, authenticator=object())  # type: ignore[arg-type]


def test_settings_that_contradict_each_other_are_named_as_python_names_them() -> None:
    """An error of the API is in the error tree and does not speak of flags."""
    with pytest.raises(errors.ConfigError, match=r"^a token was given, but authentication is off"):
        Server(CATALOG, token="t", authenticate=False)
    with pytest.raises(errors.ConfigError, match=r"^an authenticator decides alone"):
        Server(CATALOG, token="t", authenticator=Staff())
    with pytest.raises(errors.ConfigError, match=r"^two apps were given"):
        Server(App(), app=App())
    assert issubclass(errors.ConfigError, errors.SparkportError)


def test_app_is_served_over_an_engine() -> None:
    """Schemas of both are in the default database; another database stays as it is."""
    app = App()
    app.schema("own").table("t", pa.table({"n": [1]}))
    with (
        Server({"lakehouse": MemoryCatalog(), "second": CATALOG}, app=app, port=0, token="t") as server,
        connect(server.location, token="t") as client,
    ):
        client.create_schema("sales")
        client.create_table("sales", "t", pa.schema([("n", pa.int64())]))

        assert sorted((path.catalog, path.schema) for path in client.tables()) == [
            ("lakehouse", "own"),
            ("lakehouse", "sales"),
            ("second", "s"),
        ]


def test_serve_prints_how_to_attach(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The token is printed only if nobody else knows it; Ctrl-C ends the server."""

    def interrupt(_: Server) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Server, "wait", interrupt)
    server = sparkport.Server(CATALOG, port=0, grace_seconds=0)
    server.serve()
    made_up = capsys.readouterr().out
    sparkport.Server(CATALOG, port=0, token="t0k3n", grace_seconds=0).serve()
    given = capsys.readouterr().out

    assert f"sparkport ready at {server.location}" in made_up
    assert f"auth_token '{server.token}'" in made_up
    assert "t0k3n" not in given
    assert "auth_token '<your token>'" in given
