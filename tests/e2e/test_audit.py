"""The audit log: a line for each call, before its answer, and no work without it where it is required."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sparkport
from sparkport.app.authentication.tokens import TokenFile
from sparkport.catalog import Call, CreateSchemaOptions, CreateTableOptions
from sparkport.errors import ConfigError, PermissionDeniedError, UnauthenticatedError, UnavailableError
from sparkport.flight.audit import AuditLog
from sparkport.memory import MemoryCatalog
from tests.behaviour.engine import insert
from tests.flight_client import Flight, path_descriptor
from tests.sql_client import query

_ACCESS = """
[roles]
reader = []
[[grant]]
to = "reader"
allow = ["select", "sql"]
catalogs = "db1"
[[filter]]
for = "reader"
tables = "db1.s.t"
rows = "id > 1"
"""


@pytest.fixture
def audit(tmp_path: Path) -> Path:
    """Return the file of the log."""
    return tmp_path / "audit.log"


@pytest.fixture
def server(tmp_path: Path, audit: Path, catalog: MemoryCatalog) -> Iterator[sparkport.Server]:
    """Serve a table to callers with grants."""
    (tmp_path / "access.toml").write_text(_ACCESS)
    schema = catalog.create_schema(Call(), "s", CreateSchemaOptions())
    table: Any = schema.create_table(
        Call(), "t", pa.schema([("id", pa.int64()), ("name", pa.string())]), CreateTableOptions()
    )
    insert(table, [{"id": number, "name": "x"} for number in (1, 2, 3)])
    with sparkport.Server(
        {"db1": catalog},
        port=0,
        tokens=_tokens(tmp_path),
        access=tmp_path / "access.toml",
        audit=audit,
        audit_required=True,
        grace_seconds=0.2,
    ) as running:
        yield running


def _tokens(folder: Path) -> Path:
    tokens = TokenFile(folder / "tokens.json")
    (folder / "ada").write_text(tokens.create("ada", None, ["reader"]))
    return tokens.path


def _lines(audit: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in audit.read_text().splitlines()]


def test_reads_changes_and_refusals_have_their_lines(
    server: sparkport.Server, audit: Path, tmp_path: Path
) -> None:
    """Who, from where, what, which tables and columns, policies, rows, outcome; and no token."""
    token = (tmp_path / "ada").read_text()
    with Flight(server.location, token) as airport, Flight(server.location, token, airport=False) as plain:
        ticket = airport.scan(path_descriptor("db1", "s", "t"), [1])[0]
        airport.get(ticket)
        scan = _lines(audit)[-2:]
        query(plain, "SELECT count(*) AS n FROM s.t")
        statement = _lines(audit)[-1]
    with sparkport.connect(server.location, token=token) as client:
        with pytest.raises(PermissionDeniedError):
            client.create_schema("more")
        refused = _lines(audit)[-1]
    with sparkport.connect(server.location, token="guessed") as client:
        with pytest.raises(UnauthenticatedError):
            client.tables()
        stranger = _lines(audit)[-1]

    assert [line["event"] for line in scan] == ["begin", "end"]
    assert {
        key: scan[1][key] for key in ("principal", "roles", "way_in", "method", "outcome", "rows_out")
    } == {
        "principal": "ada",
        "roles": ["reader"],
        "way_in": "token",
        "method": "DoGet",
        "outcome": "OK",
        "rows_out": 2,
    }
    assert scan[1]["tables"] == [{"table": "s.t", "policies": ["filter at line 8"]}]
    assert scan[1]["columns"] == ["name"]
    assert scan[1]["peer"].startswith("ipv4:127.0.0.1:")
    assert statement["sql"] == "SELECT count(*) AS n FROM s.t"
    assert statement["tables"] == [{"table": "s.t", "policies": ["filter at line 8"]}]
    assert (refused["action"], refused["outcome"]) == ("CreateSchema", "PERMISSION_DENIED")
    assert (stranger.get("principal"), stranger["outcome"]) == (None, "UNAUTHENTICATED")
    assert token not in audit.read_text()
    assert "guessed" not in audit.read_text()


def test_nothing_is_answered_that_cannot_be_audited(
    server: sparkport.Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While lines cannot be written, calls fail; afterwards they work again."""
    token = (tmp_path / "ada").read_text()
    with sparkport.connect(server.location, token=token) as client:
        before = client.scan("s", "t").read_all().num_rows
        with monkeypatch.context() as broken:
            broken.setattr("sparkport.flight.audit.os.write", _full_disk)
            for _ in range(2):
                with pytest.raises(UnavailableError, match="audit log"):
                    client.scan("s", "t").read_all()
        after = client.scan("s", "t").read_all().num_rows

    assert before == after == 2


def _full_disk(descriptor: int, data: bytes) -> int:
    del descriptor, data
    raise OSError(28, "No space left on device")


def test_settings_that_make_no_sense_are_refused(catalog: MemoryCatalog, tmp_path: Path) -> None:
    """A log that cannot be opened, or is required without a place, is a mistake."""
    with pytest.raises(ConfigError, match="cannot be written"):
        AuditLog(str(tmp_path / "missing" / "audit.log"))
    with pytest.raises(ConfigError, match="--audit"):
        sparkport.Server(catalog, port=0, audit_required=True)
