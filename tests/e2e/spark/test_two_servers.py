"""Two server processes on one warehouse: they know of each other, and share the trash."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest

from .lake import LakeServer, kill, local_table, wait_until

pytestmark = pytest.mark.timeout(300)

WARNING = "another server uses this warehouse"
STOCK = pa.table({"item": ["pencil", "ruler"], "pieces": pa.array([10, 3], pa.int64())})


def test_servers_on_one_folder_are_told_of_each_other(tmp_path: Path) -> None:
    """Both log a warning, a server that was killed counts no more, and the trash is kept for its time."""
    with LakeServer(tmp_path / "first", "--log-format", "json") as first:
        warehouse = first.warehouse
        local_table(warehouse / "shop.db" / "stock", STOCK)
        assert first.location
        leases = warehouse / "_sparkport" / "servers"
        wait_until(lambda: len(list(leases.glob("*.lock"))) == 1, "there is no lease")
        with LakeServer(tmp_path / "second", address=str(warehouse)) as second:
            second.await_log(WARNING)
            first.await_log(WARNING)
            with first.client() as client:
                client.drop_table("shop", "stock")
            dropped = list((warehouse / "_sparkport" / "trash").iterdir())
            kill(second.process.pid)
            second.finished()
        with LakeServer(tmp_path / "third", address=str(warehouse)) as third:
            third.await_log(WARNING)
            kept = list((warehouse / "_sparkport" / "trash").iterdir())
            times = third.text.count(WARNING)

        assert first.text.count(WARNING) in {1, 2}  # the third one counts as well, if it was seen
        assert re.search(
            r'"event": "another server .*"level": "warning"|"level": "warning".*another', first.text
        )
        assert times == 1  # of the first alone
        assert len(dropped) == 1
        assert kept == dropped


@pytest.mark.parametrize("hours", ["-1", "nan", "inf", "1e9", "soon"])
def test_hours_that_make_no_sense_are_refused(tmp_path: Path, hours: str) -> None:
    """The server says so with one line and does not start."""
    with LakeServer(tmp_path, "--trash-hours", hours) as server:
        assert server.finished() == 2
        assert "trash" in server.text


def test_tables_are_deleted_at_once_without_hours(tmp_path: Path) -> None:
    """The environment sets it as well as the flag."""
    with LakeServer(tmp_path, env={"SPARKPORT_TRASH_HOURS": "0"}) as server, server.client() as client:
        local_table(server.warehouse / "shop.db" / "stock", STOCK)
        client.drop_table("shop", "stock")

        assert list((server.warehouse / "_sparkport" / "trash").iterdir()) == []
