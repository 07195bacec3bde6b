"""Running calls whose credentials end."""

from __future__ import annotations

import threading
from unittest.mock import Mock

import grpc

from sparkport.flight.transport.open_calls import OpenCalls
from sparkport.flight.transport.rpc import Rpc


def test_credentials_that_cannot_be_checked_end_the_call() -> None:
    """An authenticator that fails ends the call, and those after it are still checked."""
    authenticator = Mock(still_admits=Mock(side_effect=OSError("disk")))
    calls = OpenCalls(authenticator, check_seconds=0.01)
    rpcs = []
    for _ in range(2):
        ended = threading.Event()
        rpcs.append(Mock(spec=Rpc, dismiss=Mock(side_effect=lambda *_, ended=ended: ended.set())))
        calls.add(rpcs[-1], "ada", "Bearer x")
        assert ended.wait(timeout=10)

    for rpc in rpcs:
        assert rpc.dismiss.call_args.args[0] is grpc.StatusCode.UNAUTHENTICATED
        calls._remove(rpc)
