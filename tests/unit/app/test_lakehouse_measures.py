"""What whoever watches a server learns of its lakehouse."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from sparkport.app.lakehouse_measures import watch
from sparkport.catalog.measures import MEASURES
from sparkport.spark.read.spool import spool_folder

_NAMES = ("jvm_memory_bytes", "staging_bytes", "spool_bytes", "warehouse_free_bytes")


def test_memory_and_disk_are_measured_while_the_lakehouse_lives(tmp_path: Path) -> None:
    """Spark's memory, rows that are staged and spooled, and the room on the disk; nothing afterwards."""
    staging = tmp_path / "staging"
    (staging / "one").mkdir(parents=True)
    host = SimpleNamespace(process_id=os.getpid(), problem=lambda: "")
    engine: Any = SimpleNamespace(
        host=host, warehouse=SimpleNamespace(root=str(tmp_path)), staging=str(staging)
    )
    before = {name: MEASURES.measured(name) for name in _NAMES}
    stop = watch(engine)
    with spool_folder() as spool:
        empty = {name: MEASURES.measured(name) - before[name] for name in _NAMES}
        (staging / "one" / "rows.parquet").write_bytes(b"-" * 1000)
        (spool / "0-0").write_bytes(b"-" * 300)
        filled = {name: MEASURES.measured(name) - before[name] for name in _NAMES}
    stop()

    assert empty["jvm_memory_bytes"] > 1 << 20
    assert empty["staging_bytes"] == 0
    assert filled["staging_bytes"] == 1000
    assert filled["spool_bytes"] - empty["spool_bytes"] >= 300
    assert filled["warehouse_free_bytes"] > 0
    assert {name: MEASURES.measured(name) for name in _NAMES} == before
