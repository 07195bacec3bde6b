"""Histories of concurrent transactions on the in-memory engine, in both dialects at once."""

from __future__ import annotations

import os
import random

import pytest

import sparkport
from sparkport.client import connect
from sparkport.memory import MemoryCatalog
from tests.histories.checker import anomalies
from tests.histories.recorder import Recorder, final, prepare

pytestmark = pytest.mark.timeout(600)

SEED = int(os.environ.get("SPARKPORT_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 31)
HISTORIES = int(os.environ.get("SPARKPORT_HISTORIES", "1"))
"""How many histories of 500 transactions are checked with each of five seeds."""


@pytest.mark.parametrize("number", range(5))
def test_history_is_snapshot_isolation(number: int) -> None:
    """Concurrent transactions on lists have no anomaly that snapshot isolation forbids."""
    seed = SEED + number
    with (
        sparkport.Server(MemoryCatalog(), port=0, token="t") as server,
        connect(server.location, token="t") as client,
    ):
        prepare(client)
        recorder = Recorder(server.location, "t", seed)
        for _ in range(HISTORIES):
            recorder.run(460, 4, sql_count=40, sql_clients=2)
        found = anomalies(recorder.history, final(client))
    outcomes = [one.outcome for one in recorder.history]

    assert found == [], f"seed {seed}"
    assert len(outcomes) == 500 * HISTORIES
    assert outcomes.count("committed") >= 50 * HISTORIES
    assert outcomes.count("unknown") == 0
