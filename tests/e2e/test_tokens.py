"""Several tokens: made and revoked on the command line while a server runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import sparkport
from sparkport.app.authentication.tokens import TokenFile
from sparkport.catalog import Call, CreateSchemaOptions
from sparkport.errors import ConfigError, UnauthenticatedError
from sparkport.flight.transport import open_calls
from sparkport.memory import MemoryCatalog
from tests.conftest import TOKEN
from tests.flight_client import Flight, path_descriptor, refusal

from .serving import Process
from .usage import eventually

TABLE = path_descriptor("db1", "s", "t")


@pytest.fixture
def tokens(tmp_path: Path) -> TokenFile:
    """Return a list with two tokens."""
    return TokenFile(tmp_path / "tokens.json")


@pytest.fixture(params=["direct", "standard"])
def server(
    request: pytest.FixtureRequest, tokens: TokenFile, catalog: MemoryCatalog, monkeypatch: pytest.MonkeyPatch
) -> Iterator[sparkport.Server]:
    """Serve to the tokens of a list, and check running calls often."""
    monkeypatch.setenv("SPARKPORT_GRPC_SERVER", request.param)
    monkeypatch.setattr(open_calls.OpenCalls.__init__, "__defaults__", (0.2,))
    tokens.create("first", None)
    catalog.create_schema(Call(), "s", CreateSchemaOptions())
    with sparkport.Server({"db1": catalog}, port=0, tokens=tokens.path, grace_seconds=0.2) as running:
        yield running


def test_tokens_count_at_once(server: sparkport.Server, tokens: TokenFile) -> None:
    """A token that was made works in the next call, and one that was revoked does not."""
    token = tokens.create("ada", None)
    with sparkport.connect(server.location, token=token) as client:
        before = client.tables()
        tokens.revoke("ada")
        with pytest.raises(UnauthenticatedError, match="not valid"):
            client.tables()

    assert before == []
    assert server.token is None


def test_tickets_and_transactions_belong_to_one_token(server: sparkport.Server, tokens: TokenFile) -> None:
    """What one token began, another cannot use."""
    ada, bob = tokens.create("ada", None), tokens.create("bob", None)
    with Flight(server.location, ada) as first, Flight(server.location, bob) as second:
        first.create_table("db1", "s", "t", pa.schema({"id": pa.int64()}))
        (ticket,) = first.scan(TABLE, [0])
        first.get(ticket)
        foreign, _ = refusal(lambda: second.get(ticket))
        altered, _ = refusal(lambda: first.get(ticket[:-1] + bytes([ticket[-1] ^ 1])))
    with (
        sparkport.connect(server.location, token=ada) as mine,
        sparkport.connect(server.location, token=bob) as other,
        mine.transaction() as transaction,
    ):
        assert transaction.transaction_id is not None
        with pytest.raises(sparkport.errors.NotFoundError):
            other.transaction_status(transaction.transaction_id)

    assert (foreign, altered) == ("INVALID_ARGUMENT", "INVALID_ARGUMENT")


def test_running_call_ends_when_its_token_is_revoked(server: sparkport.Server, tokens: TokenFile) -> None:
    """An exchange that waits for rows is ended with its token, others go on, and nothing is written."""
    ada, bob = tokens.create("ada", None), tokens.create("bob", None)
    columns = pa.schema({"id": pa.int64()})
    with Flight(server.location, ada) as first, Flight(server.location, bob) as second:
        first.create_table("db1", "s", "t", columns)
        ended, going = first.exchange("insert"), second.exchange("insert")
        ended.open(TABLE, columns)
        going.open(TABLE, columns)
        tokens.revoke("ada")
        code, _ = refusal(ended.rest)
        going.half_close()
        going.rest()
        rows = second.read(TABLE, 1)

    assert code in {"UNAUTHENTICATED", "CANCELLED"}  # gRPC's own server can tell no other code
    assert rows.num_rows == 0


def test_a_token_may_be_given_beside_the_list(tokens: TokenFile, catalog: MemoryCatalog) -> None:
    """The server's own token and those of the list are valid side by side."""
    ada = tokens.create("ada", None)
    with sparkport.Server({"db1": catalog}, port=0, token=TOKEN, tokens=tokens.path) as server:
        for token in (TOKEN, ada):
            with sparkport.connect(server.location, token=token) as client:
                assert client.tables() == []


def test_a_list_goes_with_no_other_way_in(tokens: TokenFile, catalog: MemoryCatalog) -> None:
    """A list is a mistake where nobody looks at it, and so is one that is not there."""
    with pytest.raises(ConfigError, match="authenticate=False"):
        sparkport.Server({"db1": catalog}, port=0, tokens=tokens.path, authenticate=False)
    with pytest.raises(ConfigError, match="cannot be read"):
        sparkport.Server({"db1": catalog}, port=0, tokens=tokens.path)


def test_commands(tokens: TokenFile) -> None:
    """The commands make a token that a server takes, list it without it, and revoke it."""
    file = ("--file", str(tokens.path))
    created = _run("token", "create", "ada", "--expires", "30d", *file)
    token = created.strip()
    listed = _run("token", "list", *file)
    with Process("serve", "--port", "0", "--tokens", str(tokens.path)) as server:
        with sparkport.connect(server.location, token=token) as client:
            assert client.tables() == []
            _run("token", "revoke", "ada", *file)
            with pytest.raises(UnauthenticatedError):
                client.tables()
        assert eventually(lambda: "tokens reloaded" in server.text)
        assert token not in server.text
        assert "<your token>" in server.text

    assert len(token) == 43
    assert listed.startswith("ada  created ")
    assert token not in listed
    assert "'bob' not found" in _run("token", "revoke", "bob", *file, code=2)
    assert "such as 30d" in _run("token", "create", "bob", "--expires", "soon", *file, code=2)


def _run(*arguments: str, code: int = 0) -> str:
    with Process(*arguments) as process:
        assert process.finished() == code, process.text
    return process.text
