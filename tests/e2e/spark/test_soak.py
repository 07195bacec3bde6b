"""Many clients at once on Spark, for long: `SPARKPORT_SOAK` says for how many seconds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.soak import ARGUMENTS, SECONDS, check_soak

from .lake import TOKEN, LakeServer

SOME_IN_TASKS = ("--local-scan-bytes", "100000")


@pytest.mark.slow
@pytest.mark.timeout(SECONDS * 2 + 300)
def test_nothing_is_left_of_many_clients_on_spark(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As in memory; and no job, no staged row and no file of a scan is left."""
    with LakeServer(tmp_path, *SOME_IN_TASKS, *ARGUMENTS, "--trash-hours", "0") as server:
        check_soak(server, TOKEN, capsys)
        assert server.spools() == []
