"""A lakehouse that is served from Python, without the command line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from .lake import SMALL

pytestmark = pytest.mark.timeout(240)

_SCRIPT = """
import sys
import threading
import pyarrow as pa
import sparkport

app = sparkport.App()


@app.action("add_archive")
def add_archive(body: bytes) -> None:
    app.catalogs.add("archive", sparkport.Lakehouse("archive"))


def use(server: sparkport.Server) -> None:
    app.actions["add_archive"].run(None, b"")
    for catalog in ("lakehouse", "archive"):
        with sparkport.connect(server.location, token=server.token, catalog=catalog) as client:
            client.create_schema("s")
            client.create_table("s", "t", pa.schema([("n", pa.int64())]))
            client.insert("s", "t", pa.table({"n": [1, len(catalog)]}))
            print(catalog, client.scan("s", "t").read_all()["n"].to_pylist())
    server.stop()


lakehouse = sparkport.Lakehouse("lakehouse", master="local[2]", conf=CONF)
server = sparkport.Server(lakehouse, app=app, port=0)
threading.Timer(0.5, use, (server,)).start()
server.serve()
print("stopped")
"""


def test_server_of_a_lakehouse_starts_and_stops_spark(tmp_path: Path) -> None:
    """`serve` starts Spark and stops it at the end; an action adds a second warehouse that shares it."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore::ResourceWarning", "-c", _SCRIPT.replace("CONF", repr(SMALL))],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )

    assert done.stdout.splitlines()[-3:] == ["lakehouse [1, 9]", "archive [1, 7]", "stopped"], done.stderr
    assert "sparkport ready at grpc://127.0.0.1:" in done.stdout
    assert (tmp_path / "archive" / "s.db" / "t" / "_delta_log").is_dir()
    assert (tmp_path / "lakehouse" / "s.db" / "t" / "_delta_log").is_dir()
    assert done.returncode == 0
