"""Tables for servers of the Spark engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from .lake import slow_table


@pytest.fixture(scope="session")
def slow_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a table that takes minutes to read."""
    root = tmp_path_factory.mktemp("slow") / "slow"
    slow_table(root)
    return root
