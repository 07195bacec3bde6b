from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable

import pytest

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.mark.timeout(300)
def test_a_standalone_cluster_runs_the_work(standalone_cluster: str, start_client: Start) -> None:
    """A master's address is enough: the executors get Delta's jars from the driver."""
    conf = {
        "spark.pyspark.python": sys.executable,
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    client = start_client("query", master=standalone_cluster, conf=conf)
    output, errors = client.communicate(timeout=250)

    assert client.returncode == 0, errors
    assert json.loads(output) == {
        "total": 45,
        "mapped": 4,
        "stored": 3,
        "zone": "UTC",
        "refused": "NotFoundError: table 'nowhere' not found",
        "unreadable": "RejectedStatementError: Syntax error at or near 'selec' (line 1, position 1)",
        "is_connect": False,
        "is_embedded": False,
    }


@pytest.mark.timeout(300)
def test_a_spark_connect_server_runs_the_work(connect_server: str, start_client: Start) -> None:
    """With a remote address neither Java nor jars are used on this side, and errors read the same."""
    client = start_client("query", remote=connect_server)
    output, errors = client.communicate(timeout=250)

    assert client.returncode == 0, errors
    assert json.loads(output) == {
        "total": 45,
        "mapped": 4,
        "stored": 3,
        "zone": "UTC",
        "refused": "NotFoundError: table 'nowhere' not found",
        "unreadable": "RejectedStatementError: Syntax error at or near 'selec' (line 1, position 1)",
        "is_connect": True,
        "is_embedded": False,
    }
