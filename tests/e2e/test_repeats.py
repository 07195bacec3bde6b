"""Statements with the header `x-idempotency-key`, in both dialects and from the client."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import sparkport
from sparkport.catalog import Call
from sparkport.catalog.budget import Reservation
from sparkport.client import Client, connect
from sparkport.errors import InvalidRequestError, PreconditionError, UnavailableError
from sparkport.memory.table import MemoryTable
from sparkport.memory.versions import Change
from tests.conftest import TOKEN
from tests.flight_client import Flight, path_descriptor, refusal
from tests.json_client import INT, TEXT, JsonClient, table

ONE = table([1], ["one"])


@pytest.fixture
def shop(plain: Flight) -> JsonClient:
    """Return a client of a server with an empty table `s.t`."""
    json_client = JsonClient(plain)
    json_client.json("CreateSchema", schema_name="s")
    json_client.create_table("s", "t", INT, TEXT)
    return json_client


@pytest.fixture
def caller(server: sparkport.Server, shop: JsonClient) -> Iterator[Client]:
    """Return the Python client of the same server."""
    del shop
    with connect(server.location, token=TOKEN) as client:
        yield client


def test_json_statements_are_done_once(plain: Flight, shop: JsonClient) -> None:
    """DoPut and `delete` with a known key answer as they did the first time."""
    keyed = [JsonClient(plain, [("x-idempotency-key", key)]) for key in ("put", "set", "gone")]
    inserted = [keyed[0].insert("s", "t", ONE), keyed[0].insert("s", "t", ONE)]
    updated = [keyed[1].update("s", "t", [0], table([2], ["two"])) for _ in range(2)]
    before = shop.rows("s", "t")
    deleted = [keyed[2].delete("s", "t", [0]), keyed[2].delete("s", "t", [0])]

    for answers in (inserted, updated, deleted):
        assert answers[0] == answers[1]
        assert answers[0]["affected_rows"] == 1
    assert before == [{"id": 2, "name": "two"}]
    assert shop.rows("s", "t") == []


def test_exchanges_are_done_once(client: Flight, shop: JsonClient) -> None:
    """DuckDB's way to write takes the header too."""
    key = [("x-idempotency-key", "k")]
    address = path_descriptor("s", "t")

    assert [client.insert(address, ONE, headers=key) for _ in range(2)] == [1, 1]
    assert shop.rows("s", "t") == [{"id": 1, "name": "one"}]


@pytest.mark.parametrize("key", ["", " ", "a b", "x" * 129])
def test_malformed_key_is_refused(plain: Flight, shop: JsonClient, key: str) -> None:
    """A key is short and visible; anything else is INVALID_ARGUMENT and changes nothing."""
    told = refusal(lambda: JsonClient(plain, [("x-idempotency-key", key)]).insert("s", "t", ONE))

    assert told == (
        "INVALID_ARGUMENT",
        "header x-idempotency-key must have 1 to 128 visible ASCII characters",
    )
    assert shop.rows("s", "t") == []


def test_client_repeats_a_statement_without_an_answer(
    caller: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lost after the commit, a statement is sent again under its key and counts once; streams are not."""
    publish = MemoryTable.commit
    left = [2]

    def lost(self: MemoryTable, call: Call, change: Change, held: Reservation) -> int:
        count = publish(self, call, change, held)
        if left[0]:
            left[0] -= 1
            raise UnavailableError("gone")
        return count

    monkeypatch.setattr(MemoryTable, "commit", lost)
    left[0] = 1
    assert caller.insert("s", "t", ONE).affected_rows == 1
    left[0] = 1
    assert caller.delete("s", "t", [0]).affected_rows == 1
    left[0] = 1
    with pytest.raises(UnavailableError):
        caller.insert("s", "t", ONE.to_reader())
    left[0] = 1
    with pytest.raises(UnavailableError):
        caller.insert("s", "t", ONE, returning=True, key="mine")
    with pytest.raises(PreconditionError, match="was already executed, with 1 rows"):
        caller.insert("s", "t", ONE, returning=True, key="mine")
    with pytest.raises(InvalidRequestError):
        caller.insert("s", "t", ONE, key="no good")

    assert caller.insert("s", "t", ONE, key="mine").affected_rows == 1
    assert len(caller.scan("s", "t").read_all()) == 2
