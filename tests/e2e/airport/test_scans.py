from __future__ import annotations

import time

from sparkport import Server

from .client import DuckDB, Step, attached
from .test_types import PLAIN_TYPES

BIG = 5_000_000


def test_queries_give_what_local_tables_give(duckdb: DuckDB, server: Server) -> None:
    """Joins, aggregates, windows and set operations over server tables match those over local ones."""
    queries = [
        "SELECT name, count(*), sum(amount) FROM {0}.c JOIN {0}.o ON c.id = o.c GROUP BY ALL ORDER BY ALL",
        "SELECT c.name FROM {0}.c LEFT JOIN {0}.o ON c.id = o.c WHERE o.c IS NULL ORDER BY ALL",
        "SELECT count(*) FROM {0}.o WHERE c IN (SELECT id FROM {0}.c WHERE name LIKE 'n1%')",
        "SELECT count(*) FROM {0}.c SEMI JOIN {0}.o ON c.id = o.c",
        "SELECT id, sum(amount) OVER (PARTITION BY c ORDER BY id) s FROM {0}.o QUALIFY s > 500 ORDER BY ALL",
        "SELECT id FROM {0}.c UNION SELECT c FROM {0}.o ORDER BY ALL",
        "SELECT id FROM {0}.c EXCEPT SELECT c FROM {0}.o ORDER BY ALL",
        "SELECT DISTINCT c % 3 FROM {0}.o ORDER BY ALL",
        "SELECT * FROM {0}.o ORDER BY amount DESC, id LIMIT 5 OFFSET 3",
        "SELECT count(*), count(c), min(amount), max(id), avg(amount) FROM {0}.o",
        "WITH t AS (SELECT * FROM {0}.o WHERE amount > 10) SELECT count(*) FROM t a, t b WHERE a.id = b.id",
        "SELECT id, id, id + 1 FROM {0}.c ORDER BY 1 LIMIT 2",
        "SELECT count(*) FROM {0}.o WHERE amount > (SELECT avg(amount) FROM {0}.o)",
    ]
    setup = [
        sql.format(schema)
        for schema in ("db.s", "memory.s")
        for sql in (
            "CREATE SCHEMA {0}",
            "CREATE TABLE {0}.c AS SELECT range AS id, 'n' || range AS name FROM range(30)",
            "CREATE TABLE {0}.o AS SELECT range id, range * 7 % 25 c, range % 97 / 2 amount FROM range(5000)",
        )
    ]
    remote = [query.format("db.s") for query in queries]
    local = [query.format("memory.s") for query in queries]
    rows = duckdb.ask(server, *setup, *remote, *local)[len(setup) :]

    assert rows[: len(queries)] == rows[len(queries) :]


def test_a_large_table_is_read_in_parts_and_in_order(duckdb: DuckDB, server: Server) -> None:
    """Several endpoints add up to the table; a plain SELECT keeps its order; LIMIT stops early."""
    rows = duckdb.ask(
        server,
        "CREATE SCHEMA db.s",
        f"CREATE TABLE db.s.t AS SELECT range AS id, range % 1000 AS v FROM range({BIG})",
        "SELECT count(*), sum(id), min(id), max(id), count(DISTINCT v) FROM db.s.t",
        "CREATE TEMP TABLE copied AS FROM db.s.t",
        "SELECT count(*) FILTER (id <> rowid), count(*) FROM copied",
        "SELECT count(*) FROM db.s.t WHERE v = 7 AND id > 4000000",
        f"SELECT id FROM db.s.t WHERE id = {BIG - 1}",
    )
    limited = duckdb.attempt(server, "SELECT id FROM db.s.t LIMIT 3", "FROM db.s.t LIMIT 1 OFFSET 2500000")

    assert rows[2] == [[BIG, BIG * (BIG - 1) // 2, 0, BIG - 1, 1000]]
    assert rows[4] == [[0, BIG]]
    assert rows[5:] == [[[1000]], [[BIG - 1]]]
    assert limited[0].rows == [[0], [1], [2]]
    assert limited[0].milliseconds < 500
    assert limited[1].rows == [[2500000, 0]]


def test_an_interrupted_scan_leaves_the_connection_usable(duckdb: DuckDB, server: Server) -> None:
    """Ctrl-C in the middle of a scan ends it soon, and the next query works."""
    outcomes = duckdb.attempt(
        server,
        "CREATE SCHEMA db.s",
        "CREATE TABLE db.s.t AS SELECT range AS id FROM range(1000000)",
        Step("SELECT count(*) FROM db.s.t a, db.s.t b WHERE a.id + b.id < 0", interrupt_after=0.5),
        "SELECT count(*) FROM db.s.t",
    )

    assert outcomes[2].kind == "InterruptException"
    assert outcomes[2].milliseconds < 5000
    assert outcomes[3].rows == [[1000000]]


def test_an_interrupted_write_leaves_the_connection_usable(duckdb: DuckDB, server: Server) -> None:
    """Ctrl-C in the middle of an INSERT ends it soon, and the next statements work."""
    outcomes = duckdb.attempt(
        server,
        "CREATE SCHEMA db.s",
        "CREATE TABLE db.s.t (id BIGINT)",
        Step("INSERT INTO db.s.t SELECT range FROM range(1000000000)", interrupt_after=0.5),
        "DROP TABLE db.s.t",
        "CREATE TABLE db.s.t AS SELECT 1",
        "FROM db.s.t",
    )

    assert outcomes[2].kind == "InterruptException"
    assert outcomes[2].milliseconds < 5000
    assert outcomes[5].rows == [[1]]


def test_a_client_killed_while_writing_leaves_nothing(duckdb: DuckDB, server: Server) -> None:
    """The rows of a client that vanished in mid-INSERT are not committed."""
    duckdb.ask(server, "CREATE SCHEMA db.s", "CREATE TABLE db.s.t (id BIGINT)")
    victim = duckdb.start(attached(server), "INSERT INTO db.s.t SELECT range FROM range(1000000000)")
    assert victim.stdout is not None
    assert victim.stdout.readline() == '{"begun": 0}\n'
    time.sleep(0.5)
    victim.kill()
    victim.communicate()

    assert duckdb.ask(server, "SELECT count(*) FROM db.s.t", "FROM db.s.t AT (VERSION => 0)") == [[[0]], []]
    time.sleep(0.5)
    assert duckdb.ask(server, "SELECT count(*) FROM db.s.t") == [[[0]]]


def test_errors_of_every_kind_come_at_once_and_are_clean(duckdb: DuckDB, server: Server) -> None:
    """No error waits for retries, shows a traceback or names a file of the server."""
    location = server.location
    outcomes = duckdb.attempt(
        server,
        "CREATE SCHEMA db.s",
        "CREATE TABLE db.s.t (v INTEGER PRIMARY KEY, w TIME CHECK (w < '13:00'))",
        "INSERT INTO db.s.t VALUES (1, NULL)",
        "CREATE SCHEMA db.s",
        "DROP SCHEMA db.nothing",
        "CREATE TABLE db.s.t (v INTEGER)",
        "ALTER TABLE db.s.t DROP COLUMN v",
        "ALTER TABLE db.s.t ALTER v TYPE DATE",
        "ALTER TABLE db.s.t RENAME COLUMN v TO w",
        "INSERT INTO db.s.t VALUES (1, NULL)",
        "UPDATE db.s.t SET w = '14:00'",
        "UPDATE db.s.t SET v = NULL",
        "FROM db.s.t AT (VERSION => 7)",
        f"FROM airport_take_flight('{location}', ['lake', 's', 'nothing'])",
        f"FROM airport_take_flight('{location}', ['one'])",
        f"FROM airport_take_flight('{location}', '{{\"schema\": 1}}')",
        f"CALL airport_action('{location}', 'create_table', 'nonsense')",
        f"CALL airport_action('{location}', 'endpoints')",
        f"CALL airport_action('{location}', 'list_schemas')",
        f"ATTACH 'nothing' AS n (TYPE airport, LOCATION '{location}')",
        "FROM db.s.t",
    )

    assert [outcome.error for outcome in outcomes[:3]] == [None, None, None]
    for outcome in outcomes[3:-1]:
        assert outcome.error is not None
        assert outcome.milliseconds < 1000, outcome.error
        assert not any(word in outcome.error for word in ("Traceback", ".py", "Internal", "INTERNAL"))
    assert outcomes[-1].rows == [[1, None]]


def test_the_end_of_a_day_is_a_time(duckdb: DuckDB, server: Server) -> None:
    """DuckDB's TIME 24:00:00, which Arrow's own validation refuses, is stored and read back."""
    outcomes = duckdb.attempt(
        server,
        "CREATE SCHEMA db.s",
        "CREATE TABLE db.s.t (v TIME)",
        "INSERT INTO db.s.t VALUES ('12:00'), ('24:00')",
        "SELECT v::VARCHAR FROM db.s.t ORDER BY v",
        "SELECT count(*) FROM db.s.t WHERE v = TIME '24:00:00'",
        "SELECT count(*) FROM db.s.t WHERE v > TIME '23:59:59'",
    )

    assert [outcome.error for outcome in outcomes] == [None] * len(outcomes)
    assert outcomes[3].rows == [["12:00:00"], ["24:00:00"]]
    assert outcomes[4].rows == outcomes[5].rows == [[1]]


def test_rows_are_counted_whatever_the_columns(duckdb: DuckDB, server: Server) -> None:
    """A query that refers to no column gets rows without values, and joins and exports those."""
    columns = ", ".join(f"NULL::{kind} AS c{index}" for index, kind in enumerate(PLAIN_TYPES))
    rows = duckdb.ask(
        server,
        "CREATE SCHEMA db.s",
        f"CREATE TABLE db.s.t AS SELECT {columns} FROM range(300_000)",
        "CREATE TABLE db.s.small AS SELECT range AS id FROM range(3)",
        "SELECT count(*) FROM db.s.t",
        "SELECT sum(x) FROM (SELECT 1 AS x FROM db.s.t)",
        "SELECT count(*) FROM db.s.t, db.s.small",
        "SELECT id, (SELECT count(*) FROM db.s.t) FROM db.s.small WHERE EXISTS (FROM db.s.t) ORDER BY id",
        "SELECT count(*) FROM (SELECT 1 FROM db.s.t LIMIT 70_000)",
        "SELECT count(DISTINCT rowid) FROM db.s.t",
        "DELETE FROM db.s.small USING (SELECT 1 FROM db.s.t LIMIT 1)",
        "SELECT count(*) FROM db.s.small",
    )[3:]

    assert rows == [
        [[300_000]],
        [[300_000]],
        [[900_000]],
        [[0, 300_000], [1, 300_000], [2, 300_000]],
        [[70_000]],
        [[300_000]],
        [[3]],
        [[0]],
    ]
