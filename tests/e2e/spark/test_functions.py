"""The functions of the Spark engine, called by DuckDB with the Airport extension."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from tests.e2e.airport.client import DuckDB, Extension

from .attached import Attached
from .lake import SMALL, LakeServer, local_table

APP = '''
import pyarrow.compute as pc
import sparkport

app = sparkport.App()

@app.spark_function(schema="own")
def triple(number: int) -> int:
    """Three times a number."""
    return pc.multiply(number, 3)
'''
CONFIG = f"""
app = "shop:app"

[conf]
spark.driver.memory = "{SMALL["spark.driver.memory"]}"
spark.driver.extraJavaOptions = "{SMALL["spark.driver.extraJavaOptions"]}"
spark.databricks.delta.properties.defaults.enableChangeDataFeed = "true"
"""

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, extension: Extension) -> Iterator[LakeServer]:
    """Return a server with `query` switched on, and a table of another program's in two files."""
    del extension  # without it no server is needed
    folder = tmp_path_factory.mktemp("lake")
    (folder / "shop.py").write_text(APP)
    (folder / "sparkport.toml").write_text(CONFIG)
    for numbers in ([1, 2], [3]):
        local_table(folder / "warehouse" / "shop.db" / "old", pa.table({"n": pa.array(numbers, pa.int64())}))
    with LakeServer(folder, "--config", "sparkport.toml") as running:
        yield running


@pytest.fixture
def duckdb(extension: Extension, server: LakeServer, tmp_path: Path) -> Attached:
    """Return DuckDB with the server attached."""
    return Attached(DuckDB(extension, tmp_path), server)


def test_functions_are_listed_beside_the_tables(duckdb: Attached) -> None:
    """The schema has functions and no tables."""
    (functions, tables) = duckdb.ask(
        "SELECT DISTINCT function_name FROM duckdb_functions()"
        " WHERE database_name = 'db' AND schema_name = 'sparkport' ORDER BY ALL",
        "SELECT count(*) FROM (SHOW ALL TABLES) WHERE schema = 'sparkport'",
    )

    names = [
        "cancel",
        "detail",
        "dropped",
        "files",
        "history",
        "optimize",
        "query",
        "statements",
        "table_changes",
        "undrop",
        "vacuum",
    ]
    assert functions == [[name] for name in names]
    assert tables == [[0]]


def test_dropped_table_is_listed_and_brought_back(duckdb: Attached) -> None:
    """DROP TABLE in DuckDB is undone by a function; after ATTACH the table is there again."""
    _, _, _, listed, elsewhere, back, left = duckdb.ask(
        "CREATE TABLE db.shop.short (n BIGINT)",
        "INSERT INTO db.shop.short VALUES (1), (2)",
        "DROP TABLE db.shop.short",
        'SELECT schema, "table", version, size_in_bytes > 0, expires_at - dropped_at'
        " FROM db.sparkport.dropped()",
        "SELECT count(*) FROM db.sparkport.dropped(schema := 'other')",
        "SELECT schema, \"table\" FROM db.sparkport.undrop('shop.short')",
        "SELECT count(*) FROM db.sparkport.dropped(schema := 'shop')",
    )
    (rows,) = duckdb.ask("SELECT sum(n) FROM db.shop.short")

    assert [row[:4] for row in listed] == [["shop", "short", 1, True]]
    assert elsewhere == [[0]]
    assert back == [["shop", "short"]]
    assert left == [[0]]
    assert rows == [[3]]


def test_tables_tell_about_themselves(duckdb: Attached) -> None:
    """Each function is a table to DuckDB, to be filtered and counted like others."""
    history, detail, files, before = duckdb.ask(
        "SELECT version, operation FROM db.sparkport.history('shop.old') ORDER BY version",
        "SELECT format, name, location, version, num_files FROM db.sparkport.detail('shop.old')",
        "SELECT count(*), sum(rows), max(min_values) FROM db.sparkport.files('shop.old')",
        "SELECT sum(rows) FROM db.sparkport.files('\"shop\".`old`', version := 0)",
    )

    assert [version for version, _ in history] == [0, 1]
    assert detail == [["delta", "shop.old", "shop.db/old", 1, 2]]
    assert files == [[2, 3, '{"n": 3}']]
    assert before == [[2]]


def test_upkeep_runs_once(duckdb: Attached, server: LakeServer) -> None:
    """Binding a call runs nothing, and reading it makes one version, which leaves the rows as they are."""
    optimized, vacuumed, by_name, versions, rows = duckdb.ask(
        "SELECT files_added, files_removed FROM db.sparkport.optimize('shop.old') WHERE state = 'finished'",
        "SELECT state FROM db.sparkport.vacuum('shop.old', 200) ORDER BY reported_at DESC LIMIT 1",
        "SELECT files_removed FROM db.sparkport.vacuum('shop.old', hours := 200) WHERE state = 'finished'",
        "SELECT operation, count(*) FROM db.sparkport.history('shop.old')"
        " WHERE operation <> 'WRITE' AND operation NOT LIKE 'CREATE%' GROUP BY ALL ORDER BY ALL",
        "SELECT list(n ORDER BY n) FROM db.shop.old",
    )
    refused = duckdb.refused("FROM db.sparkport.vacuum('shop.old', 1)")

    assert optimized == [[1, 2]]
    assert vacuumed == [["finished"]]
    assert by_name == [[0]]
    assert versions == [["OPTIMIZE", 1], ["VACUUM END", 2], ["VACUUM START", 2]]
    assert rows == [[[1, 2, 3]]]
    assert "delta.deletedFileRetentionDuration" in refused
    assert str(server.warehouse) not in refused


def test_changes_made_by_duckdb_are_in_the_feed(duckdb: Attached) -> None:
    """INSERT, UPDATE and DELETE are there with their kinds, in the types of the table."""
    *_, changes, bound = duckdb.ask(
        "CREATE TABLE db.shop.new (k UINTEGER, t VARCHAR)",
        "INSERT INTO db.shop.new VALUES (1, 'a'), (2, 'b')",
        "UPDATE db.shop.new SET t = 'c' WHERE k = 1",
        "DELETE FROM db.shop.new WHERE k = 2",
        "SELECT k, t, _change_type, typeof(k) FROM db.sparkport.table_changes('shop.new', 1) ORDER BY"
        " _commit_version, _change_type DESC, k",
        "SELECT DISTINCT _commit_version FROM db.sparkport.table_changes('shop.new', 1, 1)",
    )
    missing = duckdb.refused("FROM db.sparkport.table_changes('shop.old', 0)")

    assert changes == [
        [1, "a", "insert", "UINTEGER"],
        [2, "b", "insert", "UINTEGER"],
        [1, "a", "update_preimage", "UINTEGER"],
        [1, "c", "update_postimage", "UINTEGER"],
        [2, "b", "delete", "UINTEGER"],
    ]
    assert bound == [[1]]
    assert "delta.enableChangeDataFeed" in missing


def test_queries_and_functions_of_both_engines_meet(duckdb: Attached) -> None:
    """DuckDB joins what Spark SQL gives, and a function of the user's is the same in both."""
    joined, described, here, there = duckdb.ask(
        "SELECT o.n, q.m FROM db.shop.old o"
        " JOIN db.sparkport.query('SELECT max(n) AS m FROM shop.old') q ON o.n = q.m",
        "DESCRIBE FROM db.sparkport.query('SELECT n, n / 2 AS half FROM shop.old')",
        "SELECT db.own.triple(n) FROM db.shop.old ORDER BY ALL",
        "FROM db.sparkport.query('SELECT triple(n) AS t FROM shop.old ORDER BY t')",
    )

    assert joined == [[3, 3]]
    assert [row[:2] for row in described] == [["n", "BIGINT"], ["half", "DOUBLE"]]
    assert here == there == [[3], [6], [9]]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("FROM db.sparkport.query('DROP TABLE shop.old')", "one statement that only reads"),
        ("FROM db.sparkport.query('SELECT reflect(''a'', ''b'')')", "does not allow the function 'reflect'"),
        ("FROM db.sparkport.query('SELECT * FROM text.`/etc/passwd`')", "schema 'text' not found"),
        ("FROM db.sparkport.history('shop.odl')", "Did you mean 'old'"),
        ("DROP SCHEMA db.sparkport", "does not support DROP"),
    ],
)
def test_a_refusal_is_a_sentence(duckdb: Attached, statement: str, message: str) -> None:
    """DuckDB shows what is wrong, and no trace of Python or Java."""
    refused = duckdb.refused(statement)

    assert message in refused
    assert "Traceback" not in refused
    assert "org.apache" not in refused
