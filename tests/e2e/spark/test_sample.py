"""The sample: what a newcomer finds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sparkport.app.lakehouse import Lakehouse
from sparkport.errors import ConfigError

from .lake import LakeServer, wait_until

pytestmark = pytest.mark.timeout(240)


def test_the_sample_is_there_when_the_server_says_that_it_is_ready(tmp_path: Path) -> None:
    """The first start waits for the sample; the next one has the tables. Neither waits for Spark."""
    with LakeServer(tmp_path, "--sample") as server:
        wait_until(lambda: "sparkport ready" in server.text, "the server was never ready")
        first = server.text
        server.await_log("Spark is up")
        tables = server.tables()
        customers = server.rows("sales", "customers")
        server.terminate()
        server.finished()
    with LakeServer(tmp_path, "--sample") as server:
        assert server.location
        second = server.text
        again = server.tables()

    assert first.index("loading the sample") < first.index("sample loaded")
    assert len(re.findall(r"sample loaded.* seconds=[0-9.]+", first)) == 1
    assert "Spark is up" not in first
    assert "\r" not in first
    assert tables == ["sales.customers", "sales.orders"]
    assert customers[0] == {"id": 1, "name": "Ada", "city": "London"}
    assert "Spark is up" not in second
    assert again == tables


def test_a_sample_needs_a_folder() -> None:
    """In an object store nothing is put unasked."""
    with pytest.raises(ConfigError, match="the sample needs a warehouse in a local folder"):
        Lakehouse("s3a://bucket/warehouse", sample=True)
