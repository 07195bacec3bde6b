"""Servers that use one warehouse know of each other."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import structlog

from sparkport.spark.storage import lock_files
from sparkport.spark.warehouse.leases import Lease
from tests.unit.spark.processes import kill, running

OTHER = """
from sparkport.spark.warehouse.leases import Lease
lease = Lease(sys.argv[1])
lease.renew()
said = "nobody else"
"""


def test_both_servers_log_each_other_once(tmp_path: Path, wrapper: Sequence[str]) -> None:
    """Whoever comes second sees the first at once, which sees it when it renews; nobody sees the dead."""
    lease = Lease(str(tmp_path))
    with structlog.testing.capture_logs() as logged:
        lease.renew()
        with running(OTHER, str(tmp_path), wrapper=wrapper) as (process, seen):
            lease.renew()
            lease.renew()
            warnings = list(logged)
            kill(process, tmp_path / "_sparkport" / "servers")
        lease.renew()
    left = lease.others()
    lease.release()

    assert "another server uses this warehouse" in seen
    assert [entry["event"] for entry in warnings] == ["another server uses this warehouse"]
    assert warnings[0]["log_level"] == "warning"
    assert "UNIQUE" in warnings[0]["advice"]
    assert warnings[0]["pid"] == (1 if wrapper else process.pid)
    assert len(logged) == 1
    assert left == set()
    assert list((tmp_path / "_sparkport" / "servers").iterdir()) == []


def test_lease_of_another_machine_runs_out(tmp_path: Path) -> None:
    """Its lock cannot be seen here, so it counts for a minute, and goes after a day."""
    lease = Lease(str(tmp_path))
    lease.renew()
    folder = tmp_path / "_sparkport" / "servers"
    mine = (folder / f"{lock_files.PROCESS}.lock").stat().st_mtime
    ages = {"0" * 16: 20.0, "1" * 16: 90.0, "2" * 16: 100_000.0}
    for token, age in ages.items():
        path = folder / f"0123456789abcdef-{token}.lock"
        path.write_text("{}")
        os.utime(path, (mine - age, mine - age))
    (folder / "notes.txt").write_text("of somebody else")
    others = lease.others()
    left = {path.name for path in folder.iterdir()}
    lease.release()

    assert others == {f"0123456789abcdef-{'0' * 16}.lock"}
    assert left == {
        "notes.txt",
        f"{lock_files.PROCESS}.lock",
        f"0123456789abcdef-{'0' * 16}.lock",
        f"0123456789abcdef-{'1' * 16}.lock",
    }


def test_warehouse_that_cannot_be_written_to_has_no_lease(tmp_path: Path) -> None:
    """The server works without one, says so once, and still sees others."""
    (tmp_path / "_sparkport").write_text("a file in the way")
    lease = Lease(str(tmp_path))
    with structlog.testing.capture_logs() as logged:
        lease.renew()
        lease.renew()
    lease.release()

    assert [entry["event"] for entry in logged] == ["lease not written: other servers cannot detect this one"]
