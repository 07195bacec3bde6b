"""DuckDB with the Airport extension against `sparkport serve`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tests.e2e.airport.client import DuckDB, Extension, Step

from .attached import Attached
from .lake import SMALL, LakeServer, local_table

CONFIG = f"""
catalog = "lakehouse"
log-level = "info"

[conf]
spark.driver.memory = "{SMALL["spark.driver.memory"]}"
spark.driver.extraJavaOptions = "{SMALL["spark.driver.extraJavaOptions"]}"
spark.databricks.delta.properties.defaults.logRetentionDuration = "interval 3 days"
"""

ORDERS = pa.table(
    {
        "id": pa.array(range(1, 1001), pa.int64()),
        "customer": pa.array([number % 10 for number in range(1, 1001)], pa.int32()),
        "product": pa.array([("pencil", "ruler", None)[number % 3] for number in range(1, 1001)]),
        "price": pa.array([number / 4 for number in range(1, 1001)], pa.float64()),
    }
)
CUSTOMERS = pa.table({"id": pa.array(range(10), pa.int32()), "name": [f"c{number}" for number in range(10)]})

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, extension: Extension) -> Iterator[LakeServer]:
    """Return a server with a small shop that another program has made; settings come from a file."""
    del extension  # without it no server is needed
    folder = tmp_path_factory.mktemp("lake")
    (folder / "sparkport.toml").write_text(CONFIG)
    shop = folder / "warehouse" / "shop.db"
    local_table(shop / "orders", ORDERS.slice(0, 400))
    local_table(shop / "orders", ORDERS.slice(400))
    local_table(shop / "customers", CUSTOMERS)
    with LakeServer(folder, "--config", "sparkport.toml") as running:
        yield running


@pytest.fixture
def duckdb(extension: Extension, server: LakeServer, tmp_path: Path) -> Attached:
    """Return DuckDB with the server attached."""
    return Attached(DuckDB(extension, tmp_path), server)


def test_tables_are_listed_with_their_columns(duckdb: Attached) -> None:
    """SHOW ALL TABLES has every table of the warehouse, whoever made it."""
    (rows,) = duckdb.ask(
        "SELECT schema, name, column_names, column_types FROM (SHOW ALL TABLES) WHERE schema = 'shop'"
    )

    assert sorted(rows) == [
        ["shop", "customers", ["id", "name"], ["INTEGER", "VARCHAR"]],
        [
            "shop",
            "orders",
            ["id", "customer", "product", "price"],
            ["BIGINT", "INTEGER", "VARCHAR", "DOUBLE"],
        ],
    ]


def test_queries_give_what_the_files_hold(duckdb: Attached) -> None:
    """Counts, filters and joins over Spark are those of the same rows anywhere."""
    count, point, nulls, likes, joined = duckdb.ask(
        "SELECT count(*) FROM db.shop.orders",
        "SELECT * FROM db.shop.orders WHERE id = 77",
        "SELECT count(*), sum(id) FROM db.shop.orders WHERE product IS NULL AND id > 900",
        "SELECT count(*) FROM db.shop.orders WHERE product LIKE 'pen%' AND price BETWEEN 10 AND 20",
        "SELECT c.name, count(*), sum(o.price) FROM db.shop.orders o JOIN db.shop.customers c"
        " ON o.customer = c.id WHERE c.id < 2 GROUP BY ALL ORDER BY ALL",
    )

    assert count == [[1000]]
    assert point == [[77, 7, None, 19.25]]
    assert nulls == [[33, 31350]]
    assert likes == [[13]]
    assert joined == [["c0", 100, 12625.0], ["c1", 100, 12400.0]]


def test_earlier_versions_are_read_by_number_and_by_time(duckdb: Attached, server: LakeServer) -> None:
    """AT names a version, or a moment for which the table's log knows the version."""
    first, newest, at_first = duckdb.ask(
        "SELECT count(*), max(id) FROM db.shop.orders AT (VERSION => 0)",
        "SELECT count(*), max(id) FROM db.shop.orders AT (VERSION => 1)",
        "SELECT count(*) FROM db.shop.orders AT (TIMESTAMP => now()::TIMESTAMP)",
    )
    later = duckdb.refused("SELECT count(*) FROM db.shop.orders AT (VERSION => 9)")

    assert first == [[400, 400]]
    assert newest == [[1000, 1000]]
    assert at_first == [[1000]]
    assert "version 9" in later
    assert "not found: versions 0 to 1 are available" in later
    assert str(server.warehouse) not in later


def test_a_table_is_made_filled_and_dropped(duckdb: Attached, server: LakeServer) -> None:
    """CREATE, INSERT with RETURNING and DROP work; settings of the file are in force for new tables."""
    steps = duckdb.ask(
        "CREATE SCHEMA db.own",
        "CREATE TABLE db.own.stock (item VARCHAR NOT NULL, pieces UINTEGER, seen TIMESTAMP)",
        "INSERT INTO db.own.stock VALUES ('pencil', 10, '2026-01-31 12:00:00') RETURNING item, pieces, seen",
        "INSERT INTO db.own.stock (item) SELECT 'ruler'",
        "FROM db.own.stock ORDER BY item",
        "SELECT count(DISTINCT rowid) FROM db.own.stock",
    )
    log = server.warehouse / "own.db" / "stock" / "_delta_log" / f"{0:020d}.json"
    written = log.read_text()
    refused = duckdb.refused("INSERT INTO db.own.stock VALUES (NULL, 1, NULL)")
    (left,) = duckdb.ask(
        "DROP TABLE db.own.stock", "SELECT count(*) FROM (SHOW ALL TABLES) WHERE schema = 'own'"
    )[1:]

    assert steps[2] == [["pencil", 10, "2026-01-31 12:00:00"]]
    assert steps[4] == [["pencil", 10, "2026-01-31 12:00:00"], ["ruler", None, None]]
    assert steps[5] == [[2]]
    assert '"delta.logRetentionDuration":"interval 3 days"' in written
    assert "NOT NULL" in refused
    assert left == [[0]]
    assert not log.exists()


def test_a_million_rows_come_and_go(duckdb: Attached) -> None:
    """CREATE TABLE AS streams its rows, and a scan streams them back."""
    made, read, point, _ = duckdb.ask(
        "CREATE TABLE db.shop.big AS SELECT range AS n, 'x' || range AS s FROM range(1000000)",
        "SELECT count(*), sum(n), max(s), count(DISTINCT s) FROM db.shop.big",
        "SELECT s FROM db.shop.big WHERE n = 777777",
        "DROP TABLE db.shop.big",
    )

    assert made == [[1000000]]
    assert read == [[1000000, 499999500000, "x999999", 1000000]]
    assert point == [["x777777"]]


def test_create_table_as_that_fails_leaves_nothing(duckdb: Attached, server: LakeServer) -> None:
    """The empty table of the first call goes when the rows of the second are refused."""
    told = duckdb.refused("CREATE TABLE db.shop.lost AS SELECT {'${user.name}': range} AS s FROM range(3)")
    (made,) = duckdb.ask("CREATE TABLE db.shop.lost AS SELECT range AS n FROM range(3)")
    (rows, _) = duckdb.ask("FROM db.shop.lost ORDER BY n", "DROP TABLE db.shop.lost")

    assert "Spark cannot read a nested field of that name; rename it" in told
    assert made == [[3]]
    assert rows == [[0], [1], [2]]
    assert not (server.warehouse / "shop.db" / "lost").exists()


def test_rows_are_changed_and_removed(duckdb: Attached) -> None:
    """UPDATE and DELETE change the rows they name, and count them."""
    _, _, updated, deleted, left = duckdb.ask(
        "CREATE TABLE db.shop.changing (id INTEGER, name VARCHAR)",
        "INSERT INTO db.shop.changing SELECT range, 'n' || range FROM range(10)",
        "UPDATE db.shop.changing SET name = 'even' WHERE id % 2 = 0",
        "DELETE FROM db.shop.changing WHERE id > 3",
        "FROM db.shop.changing ORDER BY id",
    )

    assert updated == [[5]]
    assert deleted == [[6]]
    assert left == [[0, "even"], [1, "n1"], [2, "even"], [3, "n3"]]


def test_tables_of_others_are_changed(duckdb: Attached, server: LakeServer) -> None:
    """UPDATE and DELETE on a table that another program made, and goes on to write to, find their rows.

    The rows of the table are read before the other side of the join: earlier than for other statements.
    """
    root = server.warehouse / "foreign.db" / "stock"
    local_table(root, ORDERS.slice(0, 400))
    local_table(root, ORDERS.slice(400))
    counted, _, updated, left, early = duckdb.ask(
        "SELECT count(*), count(DISTINCT rowid), max(rowid) < 0 FROM db.foreign.stock",
        "CREATE TEMP TABLE signs AS"
        " SELECT 300 + range AS id, range BETWEEN 99 AND 102 AS is_less FROM range(10000)",
        "UPDATE db.foreign.stock SET price = -price FROM signs s WHERE stock.id = s.id AND s.is_less",
        "SELECT count(*), count(DISTINCT rowid), min(rowid) >= 0, sum(price) FROM db.foreign.stock",
        "SELECT count(*), sum(price) FROM db.foreign.stock AT (VERSION => 1)",
    )
    local_table(root, pa.table({"id": pa.array([2001, 2002], pa.int64())}), schema_mode="merge")
    _, seen, deleted, _, after = duckdb.ask(
        "BEGIN",
        "SELECT count(*) FROM db.foreign.stock",
        "DELETE FROM db.foreign.stock WHERE id IN (1, 2001)",
        "COMMIT",
        "SELECT count(*), min(id), max(id), min(rowid) >= 0 FROM db.foreign.stock",
    )

    assert counted == [[1000, 1000, True]]
    assert updated == [[4]]
    assert left == [[1000, 1000, True, 125125 - 2 * 400.5]]
    assert early == [[1000, 125125.0]]
    assert seen == [[1002]]
    assert deleted == [[2]]
    assert after == [[1000, 2, 2002, True]]


def test_rows_are_changed_after_an_alter_within_a_transaction(duckdb: Attached) -> None:
    """ALTER carries no transaction id, yet the statements after it work on the altered table."""
    steps = duckdb.ask(
        "CREATE TABLE db.shop.altered (a INTEGER, c INTEGER)",
        "INSERT INTO db.shop.altered VALUES (1, 10), (2, 20)",
        "BEGIN",
        "INSERT INTO db.shop.altered VALUES (3, 30)",
        "ALTER TABLE db.shop.altered ADD COLUMN b INTEGER",
        "SELECT * FROM db.shop.altered ORDER BY a",
        "UPDATE db.shop.altered SET b = a WHERE a > 1 RETURNING *",
        "ALTER TABLE db.shop.altered RENAME COLUMN c TO d",
        "UPDATE db.shop.altered SET b = d + 1 WHERE a = 3",
        "ALTER TABLE db.shop.altered ALTER COLUMN d TYPE VARCHAR USING 'd' || d",
        "DELETE FROM db.shop.altered WHERE d = 'd10' RETURNING *",
        "ALTER TABLE db.shop.altered DROP COLUMN b",
        "UPDATE db.shop.altered SET d = upper(d) RETURNING a, d",
        "COMMIT",
        "SELECT * FROM db.shop.altered ORDER BY a",
    )

    assert steps[5] == [[1, 10, None], [2, 20, None], [3, 30, None]]
    assert sorted(steps[6]) == [[2, 20, 2], [3, 30, 3]]
    assert steps[8] == [[1]]
    assert steps[10] == [[1, "d10", None]]
    assert sorted(steps[12]) == [[2, "D20"], [3, "D30"]]
    assert steps[14] == [[2, "D20"], [3, "D30"]]


def test_a_row_that_another_changed_is_a_conflict_also_after_an_alter(duckdb: Attached) -> None:
    """An ALTER within a transaction does not make it forget what it has seen."""
    outcomes = duckdb.attempt(
        "CREATE TABLE db.shop.disputed AS SELECT range AS a FROM range(3)",
        "BEGIN",
        "SELECT count(*) FROM db.shop.disputed",
        Step("UPDATE db.shop.disputed SET a = 10 WHERE a = 1", "other"),
        "ALTER TABLE db.shop.disputed ADD COLUMN b INTEGER",
        "UPDATE db.shop.disputed SET b = 0 WHERE a = 0",
        "ROLLBACK",
        "BEGIN",
        "SELECT count(*) FROM db.shop.disputed",
        Step("UPDATE db.shop.disputed SET a = 20 WHERE a = 2", "third"),
        "ALTER TABLE db.shop.disputed ADD COLUMN c INTEGER",
        "UPDATE db.shop.disputed SET c = 2 WHERE a = 20",
    )

    assert [outcome.error is None for outcome in outcomes] == [*[True] * 11, False]
    assert "another transaction changed the same rows" in (outcomes[-1].error or "")


def test_what_others_write_appears(duckdb: Attached, server: LakeServer) -> None:
    """A table that another program makes is there for the next client, and its later rows too."""
    root = server.warehouse / "shop.db" / "news"
    local_table(root, pa.table({"line": ["one"]}))
    (before,) = duckdb.ask("FROM db.shop.news")
    local_table(root, pa.table({"line": ["two"]}))
    (after,) = duckdb.ask("FROM db.shop.news ORDER BY line")

    assert before == [["one"]]
    assert after == [["one"], ["two"]]


def test_duckdb_reads_files_itself(duckdb: Attached, server: LakeServer) -> None:
    """Whatever happened to the table; files with deleted rows are read by the server in the same scan."""
    write_deltalake(
        str(server.warehouse / "shop.db" / "parts"),
        pa.table({"id": pa.array([1, 2, 3], pa.int64()), "p": ["a", "it's", None]}),
        partition_by=["p"],
    )
    mode = "SELECT read_mode FROM db.sparkport.detail('shop.{}')"
    sums = "SELECT sum(id), min(u), sum(later), count(later), count(*) FROM db.shop.made"
    whole, parts, *_, made, before, _, changed, after, one, ids = duckdb.ask(
        mode.format("orders"),
        "SELECT id, p FROM db.shop.parts ORDER BY id",
        "CREATE TABLE db.shop.made AS SELECT range AS id, 'x' || range AS t FROM range(1000)",
        "ALTER TABLE db.shop.made RENAME COLUMN t TO u",
        "ALTER TABLE db.shop.made ADD COLUMN later INTEGER",
        "INSERT INTO db.shop.made VALUES (1000, 'x1000', 5)",
        mode.format("made"),
        sums,
        "DELETE FROM db.shop.made WHERE id < 10",
        mode.format("made"),
        sums,
        "SELECT u FROM db.shop.made WHERE id = 500",
        "SELECT count(DISTINCT rowid) FROM db.shop.made",
    )

    assert whole == made == [["direct"]]
    assert parts == [[1, "a"], [2, "it's"], [3, None]]
    assert before == [[1000 * 1001 // 2, "x0", 5, 1, 1001]]
    assert changed == [["direct, and 1 of 2 files by server: files have deletion vectors"]]
    assert after == [[1000 * 1001 // 2 - 45, "x10", 5, 1, 991]]
    assert one == [["x500"]]
    assert ids == [[991]]
