"""Who may call: every method asks for the token before it looks at anything else."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import grpc
import msgspec
import pytest
from grpc_health.v1 import health_pb2

import sparkport
from tests import flight_client as wire
from tests.conftest import TOKEN
from tests.flight_client import Flight, refusal

from .conftest import TABLE


def _calls(client: Flight) -> dict[str, Callable[[], object]]:
    """Return a call of every method, with bodies that could never be parsed among them."""
    garbage = b"\xff\xff\xff"

    def streamed(method: str) -> list[bytes]:
        call: Callable[..., Any] = client.channel.stream_stream(wire.SERVICE + method)
        return list(call(iter([garbage]), metadata=tuple(client.headers), timeout=10))

    return {
        "DoAction": lambda: client.action("list_schemas", {"catalog_name": "db1"}),
        "DoAction unknown": lambda: client.action("no_such_action", b""),
        "DoAction garbage": lambda: list(client.stream("DoAction", garbage)),
        "DoGet": lambda: client.get(b"x"),
        "DoGet garbage": lambda: list(client.stream("DoGet", garbage)),
        "ListFlights": client.list_flights,
        "ListActions": lambda: list(client.stream("ListActions", b"")),
        "GetFlightInfo": lambda: client.flight_info(TABLE),
        "GetFlightInfo garbage": lambda: client.unary("GetFlightInfo", garbage),
        "GetSchema": lambda: client.unary("GetSchema", TABLE),
        "PollFlightInfo": lambda: client.unary("PollFlightInfo", TABLE),
        "DoExchange": lambda: streamed("DoExchange"),
        "DoPut": lambda: streamed("DoPut"),
        "Handshake": lambda: streamed("Handshake"),
    }


@pytest.mark.parametrize(
    ("authorization", "begin"),
    [
        (None, "A token is needed."),
        ("Bearer ", "A token is needed."),
        ("Bearer wrong", "the token is not valid."),
        ("Bearer secret-token2", "the token is not valid."),
        ("Basic " + base64.b64encode(b"user:wrong").decode(), "the token is not valid."),
        ("Basic !!!", "A token is needed."),
        ("secret-token", "A token is needed."),
    ],
)
def test_every_method_needs_the_token(orders: Flight, authorization: str | None, begin: str) -> None:
    """Without the right token every method is UNAUTHENTICATED before anything is parsed."""
    right = orders.headers
    orders.headers = [wire.AIRPORT] + ([("authorization", authorization)] if authorization else [])
    answers = {name: refusal(call) for name, call in _calls(orders).items()}
    orders.headers = right

    assert {name: code for name, (code, _) in answers.items()} == dict.fromkeys(answers, "UNAUTHENTICATED")
    assert all(message.startswith(begin) for _, message in answers.values())
    assert not any(TOKEN in message for _, message in answers.values())


def test_token_may_come_as_a_basic_password(server: sparkport.Server) -> None:
    """The token is also taken as the password of HTTP Basic, with or without padding."""
    credentials = base64.b64encode(f"anyone:{TOKEN}".encode()).decode()
    with Flight(server.location, None) as client:
        for text in (credentials, credentials.rstrip("=")):
            answer = client.action(
                "catalog_version", {"catalog_name": "db1"}, [("authorization", f"Basic {text}")]
            )
            assert msgspec.msgpack.decode(answer[0]) == {"catalog_version": 1, "is_fixed": False}


def test_health_needs_no_token(server: sparkport.Server) -> None:
    """The health check answers without credentials, for the server and for Flight."""
    with grpc.insecure_channel(server.location.removeprefix("grpc://")) as channel:
        check: Callable[..., bytes] = channel.unary_unary("/grpc.health.v1.Health/Check")
        for service in ("", "arrow.flight.protocol.FlightService"):
            request = health_pb2.HealthCheckRequest(service=service).SerializeToString()
            answer = health_pb2.HealthCheckResponse.FromString(check(request, timeout=10))
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
