"""DuckDB attaches over an encrypted connection."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkport import Server
from sparkport.memory import MemoryCatalog
from tests.certificates import Authority

from .client import DuckDB


def test_attach_over_tls(duckdb: DuckDB, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB reads and writes over TLS if gRPC's list of authorities has that of the server."""
    authority = Authority(tmp_path)
    cert, key = authority.sign("server")
    monkeypatch.setenv("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", str(authority.ca))
    with Server({"lake": MemoryCatalog()}, port=0, grace_seconds=1.0, tls_cert=cert, tls_key=key) as server:
        rows = duckdb.ask(
            server,
            "CREATE SCHEMA db.s",
            "CREATE TABLE db.s.t AS SELECT range AS id FROM range(1000)",
            "SELECT count(*), sum(id) FROM db.s.t",
        )

    assert rows[-1] == [[1000, 499500]]


def test_unknown_authority_is_not_trusted(duckdb: DuckDB, tmp_path: Path) -> None:
    """Without the authority in gRPC's list DuckDB does not attach."""
    cert, key = Authority(tmp_path).sign("server")
    with Server({"lake": MemoryCatalog()}, port=0, grace_seconds=1.0, tls_cert=cert, tls_key=key) as server:
        secret = f"CREATE SECRET (TYPE airport, auth_token '{server.token}', SCOPE '{server.location}')"
        attach = f"ATTACH 'lake' AS db (TYPE airport, LOCATION '{server.location}')"
        (outcome, _) = duckdb.run([secret], attach, "SELECT 1")

    assert outcome.error is not None
