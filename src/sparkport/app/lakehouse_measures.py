"""What is measured and checked of a lakehouse."""

from __future__ import annotations

import os
import resource
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from sparkport.catalog.measures import MEASURES
from sparkport.spark.engine import Engine
from sparkport.spark.read.spool import SPOOL_PREFIX
from sparkport.spark.storage.filesystem import is_local

__all__ = ["watch"]

_LITTLE_BYTES = 256 << 20


def watch(engine: Engine) -> Callable[[], None]:
    """Let a lakehouse be measured and checked; return how to stop that."""
    root = engine.warehouse.root
    stops = [
        MEASURES.measure_by("jvm_memory_bytes", lambda: _process_bytes(engine.host.process_id)),
        MEASURES.measure_by("spool_bytes", _spool_bytes),
        MEASURES.check_by("spark", engine.host.problem),
    ]
    if is_local(root):
        stops += [
            MEASURES.measure_by("staging_bytes", lambda: _folder_bytes(Path(engine.staging))),
            MEASURES.measure_by("warehouse_free_bytes", lambda: _free_bytes(root)),
            MEASURES.check_by("warehouse", lambda: _unwritable(root)),
            MEASURES.check_by("disk", lambda: _full(root)),
        ]

    def stop() -> None:
        for one in stops:
            one()

    return stop


def _process_bytes(process_id: int | None) -> float:
    """Return the memory of a process, 0 if it is not there or the system does not tell."""
    try:
        pages = Path(f"/proc/{process_id}/statm").read_text(encoding="ascii").split()[1]
    except (OSError, IndexError):
        return 0.0
    return float(pages) * resource.getpagesize()


def _folder_bytes(folder: Path) -> float:
    total = 0
    for parent, _, names in os.walk(folder):  # which takes it that files go away
        for name in names:
            path = Path(parent, name)
            total += path.stat().st_size if path.exists() else 0
    return float(total)


def _spool_bytes() -> float:
    folders = Path(tempfile.gettempdir()).glob(f"{SPOOL_PREFIX}*")
    return sum(_folder_bytes(folder) for folder in folders if os.access(folder, os.R_OK))


def _free_bytes(root: str) -> float:
    return float(shutil.disk_usage(root).free) if Path(root).exists() else 0.0


def _unwritable(root: str) -> str:
    return "" if os.access(root, os.W_OK | os.X_OK) else "the warehouse cannot be written to"


def _full(root: str) -> str:
    free = _free_bytes(root)
    return "" if free >= _LITTLE_BYTES else f"only {free / (1 << 20):.0f} MiB are free for the warehouse"
