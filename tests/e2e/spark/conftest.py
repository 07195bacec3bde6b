"""Tables for servers of the Spark engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.airport.client import Extension, find_extension
from tests.requirements import missing

from .lake import slow_table


@pytest.fixture(scope="session")
def slow_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a table that takes minutes to read."""
    root = tmp_path_factory.mktemp("slow") / "slow"
    slow_table(root)
    return root


@pytest.fixture(scope="module")
def extension(tmp_path_factory: pytest.TempPathFactory) -> Extension:
    """Return the Airport extension, or skip."""
    found = find_extension(tmp_path_factory.mktemp("extensions"))
    if isinstance(found, str):
        missing("airport", found)
    return found
