"""What `grpc.server` cannot tell, and when it is chosen."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
import structlog

from sparkport.flight.transport import server as transport
from sparkport.flight.transport.rpc import Patience
from sparkport.flight.transport.standard_server import StandardServer
from tests.flight_client import refusal

from .small_service import Served


@pytest.fixture
def served() -> Iterator[Served]:
    """Serve with `grpc.server`, and stop at the end."""
    running = Served(server=StandardServer)
    yield running
    running.stop()


def test_client_that_sends_nothing_is_dismissed() -> None:
    """The call ends in time, but with CANCELLED: `grpc.server` can tell no reason from another thread."""
    served = Served(patience=Patience(request=30, stream=0.5), server=StandardServer)
    method: Any = served.channel.stream_stream("/test/lockstep")
    messages: queue.Queue[bytes | None] = queue.Queue()
    answers = method(iter(messages.get, None), timeout=30)
    messages.put(b"m")
    assert next(answers) == b"m"

    assert refusal(lambda: next(answers))[0] == "CANCELLED"
    assert served.handlers.told.wait(5)
    messages.put(None)
    served.stop()


def test_stop_cancels_calls_after_the_grace_period(served: Served) -> None:
    """A handler that heeds nothing is told, and its client gets an error."""
    call = served.begin("hold")
    assert served.handlers.entered.wait(20)
    stopped: threading.Event = served.server.stop(0.1)

    assert served.handlers.told.wait(20)
    assert call.exception(timeout=20) is not None
    served.handlers.release.set()
    assert stopped.wait(20)


@pytest.mark.parametrize(
    ("version", "chosen"),
    [
        ("1.79.9", "StandardServer"),
        ("1.80.0", "DirectServer"),
        ("1.85.1", "DirectServer"),
        ("1.86.0rc1", "StandardServer"),
    ],
)
def test_untried_version_of_grpc_gets_its_own_server(
    version: str, chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log says which version is there and which were tried."""
    monkeypatch.delenv("SPARKPORT_GRPC_SERVER", raising=False)
    monkeypatch.setattr(grpc, "__version__", version)
    with structlog.testing.capture_logs() as logs:
        server_class = transport._server_class()

    assert server_class.__name__ == chosen
    assert [line["event"].partition(" that ")[0] for line in logs] == (
        [f"grpcio {version} is not one of the versions 1.80 to 1.85"] if chosen == "StandardServer" else []
    )


def test_misspelled_choice_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A typing error does not choose a server."""
    monkeypatch.setenv("SPARKPORT_GRPC_SERVER", "slow")
    with pytest.raises(ValueError, match="'auto', 'direct' or 'standard', not 'slow'"):
        transport._server_class()
