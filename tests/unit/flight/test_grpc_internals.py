"""What the server takes from the inside of gRPC."""

from __future__ import annotations

import re
from importlib import metadata

import pytest
from grpc._cython import cygrpc  # type: ignore[attr-defined]  # compiled, and without types

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


def test_versions_of_grpc_are_bounded() -> None:
    """What is not public may change with any release, so newer ones are kept out until tried."""
    (needed,) = (one for one in metadata.requires("sparkport") or [] if re.match(r"grpcio[<>=]", one))
    bounds = {
        sign: tuple(map(int, number.split("."))) for sign, number in re.findall("(>=|<)([0-9.]+)", needed)
    }
    installed = tuple(int(part) for part in metadata.version("grpcio").split(".")[:2])

    assert bounds[">="] <= installed < bounds["<"]
