"""The JDBC driver of Flight SQL against the server, run by Java."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import sparkport
from sparkport.catalog import Call, CreateSchemaOptions
from sparkport.errors import UnavailableError
from sparkport.memory import MemoryCatalog
from sparkport.spark.session.delta_jars import Jar, delta_jars
from sparkport.spark.session.java_home import find_java
from sparkport.spark.session.settings import SparkSettings
from tests.certificates import Authority
from tests.conftest import TOKEN
from tests.requirements import missing

_DRIVER = Jar(
    "org.apache.arrow",
    "flight-sql-jdbc-driver",
    "18.3.0",
    "3f418b46c880e263558c5de669bdbede2c5d4375527ced116fb29f795b03704c",
)
_CLIENT = Path(__file__).with_name("JdbcClient.java")
_NO_COMPILER = ("ClassNotFoundException", "module jdk.compiler not found")


def _driver(folder: Path) -> Path:
    """Return the jar of the driver."""
    settings = SparkSettings(str(folder))
    try:
        (jar,) = delta_jars(settings.jars_folder, ivy_settings=settings.ivy_settings, jars=(_DRIVER,))
    except UnavailableError as error:
        missing("jdbc", str(error))
    return Path(jar)


@pytest.mark.slow
def test_the_driver_does_what_tools_need(
    server: sparkport.Server, catalog: MemoryCatalog, tmp_path: Path
) -> None:
    """Statements, batches, look-ups with parameters, metadata and cancellation work."""
    catalog.create_schema(Call(), "main", CreateSchemaOptions())
    _use(server, tmp_path)


@pytest.mark.slow
def test_the_driver_does_the_same_over_tls(catalog: MemoryCatalog, tmp_path: Path) -> None:
    """An encrypted connection with a certificate that the driver is told to trust changes nothing."""
    catalog.create_schema(Call(), "main", CreateSchemaOptions())
    authority = Authority(tmp_path)
    cert, key = authority.sign("server")
    with sparkport.Server(
        {"db1": catalog}, port=0, token=TOKEN, default_catalog="db1", tls_cert=cert, tls_key=key
    ) as server:
        _use(server, tmp_path, str(authority.ca))


def _use(server: sparkport.Server, tmp_path: Path, *roots: str) -> None:
    """Run the client and compare its answers."""
    java = find_java().path / "bin" / "java"
    command = [
        *(str(java), "--add-opens=java.base/java.nio=ALL-UNNAMED", "-cp", str(_driver(tmp_path))),
        *(str(_CLIENT), server.location.partition("://")[2], TOKEN, *roots),
    ]
    client = subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, env=os.environ | {"TZ": "UTC"}
    )
    if any(reason in client.stderr for reason in _NO_COMPILER):
        missing("jdbc", "this Java runs no source files")

    assert client.returncode == 0, client.stderr
    answers = dict(line.partition("=")[::2] for line in client.stdout.splitlines())
    assert answers == {
        "create returns rows": "false",
        "create count": "0",
        "insert": "1",
        "prepared insert": "1",
        "batch": "[3]",
        "rows": "1,a,1.50,2024-01-01 00:00:00.0,2024-02-29;2,b,2.25,null,null;",
        "first look-up": "b;",
        "second look-up": "a;",
        "update": "3",
        "error names the key": "true",
        "product": "sparkport",
        "quote": '"',
        "has transactions": "true",
        "table": "j",
        "columns": "id:-5 name:12 price:3 moment:93 day:91 ",
        "key": "id",
        "schemas": "main,db1;sparkport,db1;",
        "catalogs": "db1;",
        "cancelled": "true",
    }
