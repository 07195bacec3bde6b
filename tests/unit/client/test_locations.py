"""Where a client connects to."""

from __future__ import annotations

import pytest

from sparkport.client import connect


@pytest.mark.parametrize(
    "location", ["grpc://127.0.0.1:1", "grpc+tcp://localhost:1", "grpc://[::1]:1", "grpc+tls://x:1"]
)
def test_location_is_not_called_before_it_is_needed(location: str) -> None:
    """Connecting does not wait for the server."""
    with connect(location) as client:
        assert client.transaction_id is None


@pytest.mark.parametrize(
    "location", ["", "127.0.0.1:1", "http://x:1", "grpc+unix://x:1", "grpc+tls://", "grpc://"]
)
def test_other_location_is_refused(location: str) -> None:
    """A location has a scheme that the client speaks, and a host."""
    with pytest.raises(ValueError, match=r"^a location is grpc://host:port or grpc\+tls://host:port, not "):
        connect(location)
