"""Rows that tasks on the server's own machine leave in files: whoever reads them late holds no task."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from sparkport.spark.leftovers import discard, owned, sweep

_PREFIX = "sparkport-spool-"


@contextmanager
def spool_folder() -> Iterator[Path]:
    """Make a folder that only the server's user can open, for as long as somebody reads."""
    folder = Path(tempfile.mkdtemp(prefix=owned(_PREFIX)))
    try:
        yield folder
    finally:
        discard(folder)


def unspooled(path: Path) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file, which is mapped into memory and gone afterwards."""
    with pa.memory_map(str(path)) as source:
        path.unlink()
        yield from pa.ipc.open_stream(source)


def sweep_spools() -> None:
    """Remove what servers have left behind that are gone."""
    sweep(tempfile.gettempdir(), _PREFIX)
