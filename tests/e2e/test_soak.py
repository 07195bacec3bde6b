"""Many clients at once, for long: `SPARKPORT_SOAK` says for how many seconds."""

from __future__ import annotations

import pytest

from .serving import Process
from .soak import ARGUMENTS, SECONDS, check_soak

TOKEN = "soak-token"


@pytest.mark.slow
@pytest.mark.timeout(SECONDS * 2 + 240)
def test_nothing_is_left_of_many_clients(capsys: pytest.CaptureFixture[str]) -> None:
    """Reads, writes, transactions, cancellations and broken connections: no error, and nothing is kept."""
    with Process("serve", "--port", "0", "--token", TOKEN, *ARGUMENTS) as server:
        check_soak(server, TOKEN, capsys)
