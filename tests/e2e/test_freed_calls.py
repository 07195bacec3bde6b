"""A call is freed at its end, without a search for garbage: until then it is an open stream for gRPC."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest

from sparkport.flight.transport import direct_server
from sparkport.flight.transport.direct_rpc import DirectRpc
from sparkport.flight.transport.rpc import Rpc
from tests.flight_client import Flight, batch_frames, path_descriptor, refusal

from .conftest import ROWS, TABLE

MISSING = path_descriptor("db1", "sales", "missing")
MANY = 700  # more than the streams that gRPC allows on a connection


@pytest.fixture
def filled(client: Flight) -> Flight:
    """Return a client of a server with a table."""
    client.create_schema("db1", "sales")
    client.create_table("db1", "sales", "orders", ROWS.schema)
    client.insert(TABLE, ROWS)
    return client


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Keep Python from searching for cycles of garbage."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def cancelled_insert(client: Flight) -> None:
    """Begin an INSERT, and leave."""
    exchange = client.exchange("insert")
    exchange.open(TABLE, ROWS.schema)
    exchange.send(batch_frames(ROWS)[0])
    exchange.call.cancel()


def strange_call(client: Flight) -> None:
    """Call with a wrong token."""
    own, client.headers = client.headers, [("authorization", "Bearer wrong")]
    code, _ = refusal(client.list_flights)
    client.headers = own
    assert code == "UNAUTHENTICATED"


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(strange_call, id="wrong token"),
        pytest.param(lambda client: client.action("catalog_version", {"catalog_name": "db1"}), id="action"),
        pytest.param(lambda client: client.flight_info(TABLE), id="flight info"),
        pytest.param(lambda client: client.list_flights(), id="listing"),
        pytest.param(lambda client: client.read(TABLE, 2), id="scan"),
        pytest.param(lambda client: client.insert(TABLE, ROWS), id="insert"),
        pytest.param(lambda client: refusal(lambda: client.action("nonsense", {})), id="unknown action"),
        pytest.param(lambda client: refusal(lambda: client.flight_info(MISSING)), id="missing table"),
        pytest.param(lambda client: refusal(lambda: client.insert(MISSING, ROWS)), id="refused insert"),
        pytest.param(lambda client: refusal(lambda: client.get(b"forged")), id="forged ticket"),
        pytest.param(cancelled_insert, id="cancelled insert"),
    ],
)
@pytest.mark.usefixtures("uncollected")
def test_call_is_freed_at_its_end(filled: Flight, call: Callable[[Flight], object]) -> None:
    """Nothing refers to a call that is over, however it has ended."""
    for _ in range(3):
        call(filled)

    assert left() == 0


def left() -> int:
    """Return how many calls are kept, once those that are about to end have ended."""
    until = time.monotonic() + 5
    while count := sum(isinstance(thing, Rpc) for thing in gc.get_objects()):
        if time.monotonic() > until:
            break
        time.sleep(0.01)
    return count


@pytest.mark.usefixtures("uncollected")
def test_connection_takes_any_number_of_calls(filled: Flight) -> None:
    """Calls after one another are never refused."""
    answers = {filled.action("catalog_version", {"catalog_name": "db1"})[0] for _ in range(MANY)}

    assert len(answers) == 1


def test_stream_ends_with_its_call_whoever_keeps_it(filled: Flight, monkeypatch: pytest.MonkeyPatch) -> None:
    """A handler that leaves its call in a cycle, or in a list, takes no stream from its client."""
    kept = []

    class Kept(DirectRpc):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            kept.append(self)

    monkeypatch.setattr(direct_server, "DirectRpc", Kept)
    for _ in range(MANY):
        filled.action("catalog_version", {"catalog_name": "db1"})
    code, _ = refusal(lambda: filled.action("nonsense", {}))
    for call in kept:
        call.dismiss(grpc.StatusCode.CANCELLED, "too late to matter")

    assert code == "UNIMPLEMENTED"
    assert len(kept) == MANY + 1
