"""The memory of RETURNING rows while their client has not taken them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sparkport.catalog.budget import ByteBudget, Resources
from sparkport.flight.context import ServerContext
from sparkport.flight.transport.auth import BearerTokens
from sparkport.flight.transport.limits import ServerLimits
from sparkport.flight.transport.server import GrpcServer
from sparkport.memory import MemoryCatalog
from sparkport.toolkit.registry import Catalogs
from tests.flight_client import SERVICE, Flight
from tests.json_client import INT, JsonClient, put_frames

from .usage import MB, eventually

INSERT = {"operation": "insert", "schema_name": "s", "table_name": "t", "returning": True}


@pytest.fixture
def budget() -> ByteBudget:
    """Return the memory of the server."""
    return ByteBudget(200 * MB)


@pytest.fixture
def flight(budget: ByteBudget) -> Iterator[Flight]:
    """Serve a table `s.t`."""
    context = ServerContext(
        Catalogs({"db1": MemoryCatalog()}, default="db1"), resources=Resources(rows=budget)
    )
    server = GrpcServer(context, BearerTokens({"a": "ann"}), "127.0.0.1", 0, ServerLimits())
    server.start()
    with Flight(server.location, "a", airport=False, alone=True) as client:
        JsonClient(client).json("CreateSchema", schema_name="s")
        JsonClient(client).create_table("s", "t", INT)
        yield client
    assert server.stop(0).wait(20)


def returning(flight: Flight) -> Any:
    """Insert 16 MB of rows in two messages, the last of them a small one, and read no answer."""
    rows = pa.Table.from_batches(
        [pa.record_batch({"id": np.arange(2 * MB)}), pa.record_batch({"id": np.arange(1)})]
    )
    method: Callable[..., Any] = flight.channel.stream_stream(SERVICE + "DoPut")
    call = method(put_frames(INSERT, rows), metadata=tuple(flight.headers), timeout=60)
    call.initial_metadata()  # which comes with the answer
    return call


def test_rows_are_held_until_their_client_has_them(flight: Flight, budget: ByteBudget) -> None:
    """They are in memory for as long as they are sent."""
    call = returning(flight)

    assert budget.held >= 16 * MB
    assert len(list(call)) == 1
    assert eventually(lambda: budget.held == 0)


def test_rows_of_a_client_that_leaves_are_given_back(flight: Flight, budget: ByteBudget) -> None:
    """A cancelled call holds nothing."""
    call = returning(flight)
    held = budget.held
    call.cancel()

    assert held >= 16 * MB
    assert eventually(lambda: budget.held == 0)


def test_rows_of_a_failed_statement_are_given_back(flight: Flight, budget: ByteBudget) -> None:
    """Rows that were answered before an error are not sent, nor held."""
    update = {**INSERT, "operation": "update", "row_ids": [0, 1]}
    JsonClient(flight).insert("s", "t", pa.table({"id": [1]}))
    method: Callable[..., Any] = flight.channel.stream_stream(SERVICE + "DoPut")
    call = method(put_frames(update, pa.table({"id": [1, 2]})), metadata=tuple(flight.headers), timeout=60)

    assert call.code().name == "NOT_FOUND"
    assert eventually(lambda: budget.held == 0)
