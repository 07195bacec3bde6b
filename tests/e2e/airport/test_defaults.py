from __future__ import annotations

import pyarrow as pa

from sparkport import Server
from sparkport.catalog.call import Call
from sparkport.catalog.ddl import CreateSchemaOptions, CreateTableOptions
from sparkport.memory import MemoryCatalog

from .client import DuckDB, Step

DEFAULTS = [
    ("DATE", "current_date", "v = current_date"),
    ("TIMESTAMP", "now()", "v > TIMESTAMP '2020-01-01'"),
    ("TIMESTAMP", "'2024-01-02'", "v = TIMESTAMP '2024-01-02'"),
    ("INTERVAL", "'1 day'", "v = INTERVAL 1 DAY"),
    ("INTEGER", "1.5", "v = 2"),
    ("DOUBLE", "'NaN'", "isnan(v)"),
    ("VARCHAR", "'it''s'", "v = 'it''s'"),
    ("VARCHAR", "uuid()", "length(v) = 36"),
    ("BOOLEAN", "'yes'", "v"),
    ("INTEGER[]", "[]", "v = []"),
    ("STRUCT(a INTEGER)", "{'a': 1}", "v.a = 1"),
    ("MAP(VARCHAR, INTEGER)", "MAP {'a': 1}", "v['a'] = 1"),
    ("ENUM('a', 'b')", "'b'", "v = 'b'"),
    ("BIGINT", "NULL", "v IS NULL"),
]


def test_defaults_of_every_kind(duckdb: DuckDB, server: Server) -> None:
    """A default may be whatever DuckDB can cast to the column, and others see it, too."""
    made = [
        sql
        for index, (kind, default, _) in enumerate(DEFAULTS)
        for sql in (
            f"CREATE TABLE db.s.t{index} (k INTEGER, v {kind})",
            f"ALTER TABLE db.s.t{index} ALTER v SET DEFAULT {default}",
        )
    ]
    used = [
        Step(f"INSERT INTO db.s.t{index} (k) VALUES (1) RETURNING {check}", "other")
        for index, (_, _, check) in enumerate(DEFAULTS)
    ]
    rows = duckdb.ask(server, "CREATE SCHEMA db.s", *made, *used)

    assert rows[-len(used) :] == [[[True]]] * len(used)


def test_defaults_that_cannot_be_are_refused(duckdb: DuckDB, server: Server) -> None:
    """A default is one value that fits the column."""
    outcomes = duckdb.attempt(
        server,
        "CREATE SCHEMA db.s",
        "CREATE TABLE db.s.t (a INTEGER, b INTEGER)",
        "ALTER TABLE db.s.t ALTER a SET DEFAULT 'abc'",
        "ALTER TABLE db.s.t ALTER a SET DEFAULT b + 1",
        "ALTER TABLE db.s.t ALTER a SET DEFAULT (SELECT 1)",
    )

    for outcome, message in zip(
        outcomes[2:],
        ("Could not convert string 'abc'", "must not refer to columns", "subqueries"),
        strict=True,
    ):
        assert message in (outcome.error or "")
        assert outcome.milliseconds < 1000


def test_comments_and_defaults_are_shown(duckdb: DuckDB) -> None:
    """What a catalog says of schemas, tables and columns arrives in DuckDB's own catalog."""
    catalog, call = MemoryCatalog(), Call()
    schema = catalog.create_schema(call, "s", CreateSchemaOptions(comment="about s", tags={"team": "data"}))
    field = pa.field("v", pa.int32(), metadata={"comment": "about v", "default": "40 + 2"})
    schema.create_table(
        call, "t", pa.schema([field, pa.field("w", pa.string())]), CreateTableOptions(comment="about t")
    )

    with Server({"lake": catalog}, port=0, grace_seconds=1.0) as server:
        rows = duckdb.ask(
            server,
            "SELECT comment, tags['team'] FROM duckdb_schemas() WHERE schema_name = 's'",
            "SELECT table_name, comment FROM duckdb_tables() WHERE database_name = 'db'",
            "SELECT column_name, column_default, comment FROM duckdb_columns() WHERE database_name = 'db'",
            "INSERT INTO db.s.t (w) VALUES ('x') RETURNING v",
        )

    assert rows == [
        [["about s", "data"]],
        [["t", "about t"]],
        [["v", "(40 + 2)", "about v"], ["w", None, None]],
        [[42]],
    ]
