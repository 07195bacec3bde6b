"""What the server takes from the inside of gRPC."""

from __future__ import annotations

from importlib import metadata

import pytest
from grpc._cython import cygrpc  # type: ignore[attr-defined]  # compiled, and without types

from sparkport.flight.transport import server

NEEDED = {
    "Server": [
        *("register_completion_queue", "add_http2_port", "start", "request_call"),
        *("shutdown", "cancel_all_calls", "destroy"),
    ],
    "CompletionQueue": ["poll", "shutdown"],
    "Call": ["start_server_batch", "cancel"],
    "ReceiveMessageOperation": ["message"],
    "ReceiveCloseOnServerOperation": ["cancelled"],
    "SendInitialMetadataOperation": [],
    "SendMessageOperation": [],
    "SendStatusFromServerOperation": [],
}


@pytest.mark.parametrize("name", NEEDED)
def test_grpc_has_what_the_server_is_built_of(name: str) -> None:
    """A version of gRPC without a class or method that the server needs fails here, and says which."""
    found = getattr(cygrpc, name, None)
    assert found is not None, f"grpcio {metadata.version('grpcio')} has no {name}"
    missing = [method for method in NEEDED[name] if not hasattr(found, method)]
    assert missing == [], f"grpcio {metadata.version('grpcio')}: {name} has changed"


def test_installed_version_is_one_that_was_tried() -> None:
    """Otherwise the tests would run on `grpc.server`: raise the bound in `server` once they pass on both."""
    oldest, newest = server._TRIED
    installed = tuple(int(part) for part in metadata.version("grpcio").split(".")[:2])

    assert oldest <= installed <= newest
