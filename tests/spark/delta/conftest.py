"""Tables of the tests of the log's reader."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark.delta.handwritten import HandwrittenTable


@pytest.fixture
def table(tmp_path: Path) -> HandwrittenTable:
    """Return a table folder without a log."""
    return HandwrittenTable(tmp_path / "sales" / "orders")
