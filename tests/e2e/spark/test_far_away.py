"""Spark on other machines: a standalone cluster, and a Spark Connect server.

Neither has sparkport; both read the warehouse's folder themselves.
"""

from __future__ import annotations

import datetime as dt
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pytest

from tests import clusters
from tests.flight_client import path_descriptor, table_of

from .lake import IN_TASKS, LakeServer, SlowScan, filtered, in_order, large_looking_table

STATEMENTS = Path(__file__).with_name("statements.py")

# What Spark's Python workers import, and nothing else of this environment.
WORKER_PACKAGES = ("pyarrow", "numpy", "numpy.libs", "pandas", "pandas.libs", "pytz", "dateutil", "six.py")

RETENTION = "delta.logRetentionDuration"

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a Python that has what Spark's workers need, and has no sparkport."""
    folder = tmp_path_factory.mktemp("python")
    site = folder / "site"
    site.mkdir()
    spec = find_spec("pyarrow")
    assert spec is not None
    assert spec.origin is not None
    installed = Path(spec.origin).parent.parent
    for name in WORKER_PACKAGES:
        if (installed / name).exists():
            (site / name).symlink_to(installed / name)
    launcher = folder / "python"
    real = os.path.realpath(sys.executable)
    launcher.write_text(f'#!/bin/sh\nPYTHONPATH="{site}:$PYTHONPATH" exec {real} -S "$@"\n')
    launcher.chmod(0o700)
    return str(launcher)


@pytest.fixture(scope="module")
def connect_address(tmp_path_factory: pytest.TempPathFactory, bare_python: str) -> Iterator[str]:
    """Return the address of a Spark Connect server."""
    with clusters.connect_server(tmp_path_factory.mktemp("connect"), bare_python) as address:
        yield address


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory, connect_address: str, slow_root: Path) -> Path:
    """Return a folder with tables that plain Spark has made."""
    folder = tmp_path_factory.mktemp("made") / "warehouse"
    mapped = f"delta.`{folder}/plain.db/mapped`"
    padded = f"delta.`{folder}/plain.db/padded`"
    properties = "'delta.columnMapping.mode' = 'name', 'delta.enableDeletionVectors' = 'true'"
    statements = [
        f"CREATE TABLE {mapped} (text STRING, n INT) USING delta TBLPROPERTIES ({properties})",
        f"INSERT INTO {mapped} SELECT 't' || id, id FROM range(0, 1000, 1, 2)",
        f"ALTER TABLE {mapped} RENAME COLUMN n TO number",
        f"DELETE FROM {mapped} WHERE number % 10 <> 0",
        f"CREATE TABLE {padded} (text STRING, code CHAR(4)) USING delta",
        f"INSERT INTO {padded} VALUES ('a', 'x'), ('b', 'yz')",
    ]
    done = subprocess.run(
        [sys.executable, str(STATEMENTS), connect_address, *statements],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    shutil.copytree(slow_root, folder / "plain.db" / "slow")
    large_looking_table(folder / "plain.db" / "large")
    return folder


@pytest.fixture(scope="module", params=["cluster", "connect"])
def server(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    warehouse: Path,
    bare_python: str,
) -> Iterator[LakeServer]:
    """Return a server whose Spark is elsewhere."""
    folder = tmp_path_factory.mktemp(request.param)
    shutil.copytree(warehouse, folder / "warehouse")
    own = f"spark.databricks.delta.properties.defaults.{RETENTION.removeprefix('delta.')}=interval 3 days"
    arguments = [*IN_TASKS, "--conf", own]
    with ExitStack() as running:
        if request.param == "connect":
            arguments += ["--remote", request.getfixturevalue("connect_address")]
        else:
            cluster = clusters.standalone_cluster(tmp_path_factory.mktemp("processes"))
            arguments += ["--master", running.enter_context(cluster)]
            conf = {
                "spark.pyspark.python": bare_python,
                "spark.executor.memory": "512m",
                "spark.executor.extraJavaOptions": clusters.FAST_START,
                "spark.driver.host": "127.0.0.1",
                "spark.driver.bindAddress": "127.0.0.1",
            }
            for key, value in conf.items():
                arguments += ["--conf", f"{key}={value}"]
        server = running.enter_context(LakeServer(folder, *arguments))
        yield server
        server.terminate()
        assert server.finished() == 0, server.text


def test_the_workers_have_no_sparkport(bare_python: str) -> None:
    """What follows is read by a Python that could not import sparkport."""
    command = [bare_python, "-c", "import pyarrow, sparkport"]
    env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)

    assert "No module named 'sparkport'" in done.stderr


def test_a_table_is_made_filled_and_read(server: LakeServer) -> None:
    """CREATE TABLE, INSERT and a scan work as on the server's own machine, with types Spark has not."""
    rows = pa.table(
        {
            "name": pa.array(["one", None, "three"], pa.string()),
            "big": pa.array([2**64 - 1, 0, None], pa.uint64()),
            "price": pa.array([Decimal("1.50"), Decimal("-2.25"), None], pa.decimal128(10, 2)),
            "day": pa.array([dt.date(2026, 1, 31), None, dt.date(1, 1, 1)], pa.date32()),
            "tags": pa.array([["x", None], [], None], pa.list_(pa.string())),
        }
    )
    with server.client() as client:
        client.create_schema("made")
        client.create_table("made", "things", rows.schema)
        first = client.insert("made", "things", rows)
        second = client.insert("made", "things", rows.slice(0, 1), returning=True)
        found = client.scan("made", "things").read_all()

    assert (first.affected_rows, second.affected_rows) == (3, 1)
    assert second.returning is not None
    assert second.returning.select(rows.column_names).to_pylist() == rows.slice(0, 1).to_pylist()
    assert found.schema.names == [*rows.column_names, "rowid"]
    assert in_order(found) == in_order(pa.concat_tables([rows, rows.slice(0, 1)]))
    assert len(set(found["rowid"].to_pylist())) == 4


def test_a_setting_reaches_the_session(server: LakeServer) -> None:
    """Entries of --conf are in force for what the server asks of Spark."""
    with server.client() as client:
        client.create_schema("kept")
        client.create_table("kept", "t", pa.schema({"n": pa.int32()}))
    log = next((server.warehouse / "kept.db" / "t" / "_delta_log").glob("*.json")).read_text()

    assert f'"{RETENTION}":"interval 3 days"' in log


def test_deleted_rows_and_renamed_columns_are_read_rightly(server: LakeServer) -> None:
    """Deletion vectors and the names of old files are resolved before the tasks begin."""
    found = server.rows("plain", "mapped")

    assert sorted(row["number"] for row in found) == list(range(0, 1000, 10))
    assert {row["text"] for row in found} == {f"t{number}" for number in range(0, 1000, 10)}


def test_a_filter_is_applied_by_the_tasks(server: LakeServer) -> None:
    """Rows that do not match do not travel."""
    with server.flight() as flight:
        found = filtered(flight, "plain", "mapped", 2, "t30")

    assert in_order(found.select([0, 1])) == [{"text": "t30", "number": 30}]


def test_what_arrow_does_not_read_is_read_by_spark_sql(server: LakeServer) -> None:
    """CHAR columns are padded as Spark pads them."""
    assert server.rows("plain", "padded") == [
        {"text": "a", "code": "x   "},
        {"text": "b", "code": "yz  "},
    ]


def test_a_large_scan_has_several_endpoints(server: LakeServer) -> None:
    """Each endpoint has some of the files, and together they have all rows."""
    with server.flight() as flight:
        tickets = flight.scan(path_descriptor("lakehouse", "plain", "large"), [0])
        parts = [table_of(flight.get(ticket))["text"].to_pylist() for ticket in tickets]

    assert len(parts) == 3
    assert all(parts)
    assert sorted(text for part in parts for text in part) == ["aaa", "bbb", "ccc", "ddd"]


def test_cancelled_scans_free_the_executors(server: LakeServer) -> None:
    """Two scans that would keep all cores busy for minutes are stopped when their clients go away."""
    server.rows("plain", "mapped")
    with server.flight() as flight:
        scans = [SlowScan(flight, "plain", "slow") for _ in range(2)]
        time.sleep(4)
        for scan in scans:
            scan.cancel()
        begun = time.monotonic()
        found = server.rows("plain", "mapped")
        seconds = time.monotonic() - begun

    assert len(found) == 100
    assert seconds < 30
