from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sparkport.errors import UnavailableError
from sparkport.spark.session.delta_jars import Jar, delta_jars
from sparkport.spark.session.settings import SparkSettings
from tests.requirements import missing

_ICEBERG = Jar(
    "org.apache.iceberg",
    "iceberg-spark-runtime-4.1_2.13",
    "1.12.0",
    "3123c3798af642dd537230923548e013ef41cc28b6626e5225808cf5670a0f82",
)
_CLIENT = Path(__file__).with_name("iceberg_client.py")


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what a process with Iceberg on its class path found out."""
    folder = tmp_path_factory.mktemp("iceberg")
    settings = SparkSettings(str(folder))
    try:
        (jar,) = delta_jars(settings.jars_folder, ivy_settings=settings.ivy_settings, jars=(_ICEBERG,))
    except UnavailableError as error:
        missing("iceberg", str(error))
    client = subprocess.run(
        [sys.executable, str(_CLIENT), str(folder), str(jar)],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        env={**os.environ, "PYTHONWARNINGS": "ignore::ResourceWarning"},
    )
    assert client.returncode == 0, client.stderr
    found: dict[str, Any] = json.loads(client.stdout)
    return found


@pytest.mark.timeout(240)
def test_nested_namespaces_tables_and_views_are_listed(answers: dict[str, Any]) -> None:
    """Namespaces in namespaces are schemas of their own, and Iceberg's views stand beside tables."""
    assert answers["schemas"] == ["a", "`p.q`", "x-y", "a.b"]
    assert answers["tables"] == ["plain view", "t"]
    assert answers["columns"] == [["i", "int32", False, "the i"], ["s", "string", True, ""]]
    assert answers["comments"] == ["of t", "of the view"]
    assert answers["view rows"] == [{"j": 2}, {"j": 3}]
    assert answers["views"] == ["plain view"]


@pytest.mark.timeout(240)
def test_a_ticket_reads_one_snapshot(answers: dict[str, Any]) -> None:
    """Rows that are added after a scan was planned are not in it."""
    assert answers["pinned"] == [1, 2]
    assert answers["newest"] == [1, 2, 3]
    assert answers["filtered"] == [{"s": "b"}]


@pytest.mark.timeout(240)
def test_time_travel_goes_by_snapshot_tag_and_time(answers: dict[str, Any]) -> None:
    """Each of them leads to the rows and the columns of then."""
    assert answers["by version"] == answers["by tag"] == answers["by time"] == [1, 2]
    assert answers["columns of then"] == ["i", "s"]
    assert answers["too early"] == "NotFoundError: version at timestamp '2000-01-01T00:00:00' not found"
    assert answers["no such version"] == "NotFoundError: version '12345' not found"
    assert answers["no such tag"] == "NotFoundError: version 'no tag' not found"
    assert answers["no such snapshot"] == "NotFoundError: snapshot '12345' not found"


@pytest.mark.timeout(240)
def test_columns_altered_after_the_last_snapshot_are_there(answers: dict[str, Any]) -> None:
    """The newest state has the newest columns, though no snapshot has; a write ends plans made before it."""
    assert answers["altered columns"] == ["i", "s", "n"]
    assert answers["altered rows"] == [{"i": 3, "n": None}]
    assert answers["altered and written"] == (
        "ConflictError: conflict on table 'a.b.t': it was changed after the scan was planned;"
        " run the statement again"
    )


@pytest.mark.timeout(240)
def test_an_empty_table_has_a_state_too(answers: dict[str, Any]) -> None:
    """A scan planned before the first row reads none."""
    assert answers["empty"] == []
    assert answers["no longer empty"] == [9]


@pytest.mark.timeout(240)
def test_the_version_rises_with_the_columns(answers: dict[str, Any]) -> None:
    """What another server does to a table is seen."""
    assert answers["version rises"] is True
