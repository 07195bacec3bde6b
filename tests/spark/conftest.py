"""Clusters, for tests that need another Spark than an embedded one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests import clusters


@pytest.fixture(scope="module")
def standalone_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of a master with two workers, each a process of its own."""
    with clusters.standalone_cluster(tmp_path_factory.mktemp("cluster")) as address:
        yield address


@pytest.fixture(scope="module")
def connect_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of a Spark Connect server with Delta."""
    with clusters.connect_server(tmp_path_factory.mktemp("connect")) as address:
        yield address
