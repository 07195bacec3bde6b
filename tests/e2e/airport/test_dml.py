from __future__ import annotations

from sparkport import Server
from sparkport.memory import MemoryCatalog

from .client import DuckDB, Step, attached

TABLE = [
    "CREATE SCHEMA db.s",
    "CREATE TABLE db.s.t (id INTEGER, name VARCHAR, score DOUBLE, tags VARCHAR[])",
    "INSERT INTO db.s.t VALUES (1, 'a', 1.5, ['x']), (2, 'b', 2.5, []), (3, 'c', NULL, NULL)",
]


def _same_as_local(duckdb: DuckDB, server: Server, *statements: str) -> None:
    """Run statements on the server's table and on a local one, and compare what they give."""
    remote = [*TABLE, *statements]
    local = [sql.replace("db.s", "memory.s") for sql in remote]
    outcomes = duckdb.attempt(server, *remote, *local)
    ours, theirs = outcomes[: len(remote)], outcomes[len(remote) :]
    for sql, here, there in zip(remote, ours, theirs, strict=True):
        assert (here.error, sorted(map(repr, here.rows))) == (
            there.error,
            sorted(map(repr, there.rows)),
        ), sql


def test_insert_in_every_form(duckdb: DuckDB, server: Server) -> None:
    """INSERT counts, fills and returns the rows as it does for a local table."""
    _same_as_local(
        duckdb,
        server,
        "INSERT INTO db.s.t (name, id) VALUES ('d', 4)",
        "INSERT INTO db.s.t BY NAME SELECT 5 AS id, ['y', NULL] AS tags",
        "INSERT INTO db.s.t SELECT id + 10, name, score, tags FROM db.s.t WHERE id < 3",
        "INSERT INTO db.s.t SELECT * FROM db.s.t WHERE false",
        "INSERT INTO db.s.t DEFAULT VALUES",
        "INSERT INTO db.s.t (id) VALUES (6), (7) RETURNING *",
        "INSERT INTO db.s.t (score, id) VALUES (0.5, 8) RETURNING id, score * 2 AS twice, name",
        "INSERT INTO db.s.t SELECT range, 'n', range, [] FROM range(5000) RETURNING id",
        "INSERT INTO db.s.t SELECT * FROM db.s.t",
        "SELECT count(*), sum(id), count(name), count(tags) FROM db.s.t",
        "FROM db.s.t ORDER BY ALL LIMIT 20",
    )


def test_update_in_every_form(duckdb: DuckDB, server: Server) -> None:
    """UPDATE sets, counts and returns the rows as it does for a local table, whatever the column order."""
    _same_as_local(
        duckdb,
        server,
        "UPDATE db.s.t SET id = id + 10",
        "UPDATE db.s.t SET score = 9 WHERE name = 'b'",
        "UPDATE db.s.t SET score = id, name = name || '!'",
        "UPDATE db.s.t SET name = 'none' WHERE id = 99",
        "UPDATE db.s.t SET tags = ['new'] WHERE id = 12",
        "UPDATE db.s.t SET tags = NULL, id = 0 WHERE id = 11 RETURNING *",
        "UPDATE db.s.t SET id = id + 1 RETURNING *",
        "UPDATE db.s.t SET score = 7 WHERE id = 13 RETURNING id, name, score",
        "UPDATE db.s.t SET name = 'z', id = 5 WHERE id = 13 RETURNING tags, score, name, id",
        "UPDATE db.s.t SET tags = list_append(tags, 'more') RETURNING tags",
        "UPDATE db.s.t SET score = o.score * 2 FROM (SELECT id, score FROM db.s.t) o WHERE o.id = db.s.t.id",
        "UPDATE db.s.t SET name = (SELECT max(name) FROM db.s.t)",
        "UPDATE db.s.t SET score = NULL, name = NULL RETURNING *",
        "FROM db.s.t ORDER BY ALL",
    )


def test_delete_in_every_form(duckdb: DuckDB, server: Server) -> None:
    """DELETE and TRUNCATE remove, count and return the rows as they do for a local table."""
    _same_as_local(
        duckdb,
        server,
        "INSERT INTO db.s.t SELECT range, 'n' || range, range, [] FROM range(10, 20)",
        "DELETE FROM db.s.t WHERE id = 1 RETURNING *",
        "DELETE FROM db.s.t WHERE id = 1",
        "DELETE FROM db.s.t WHERE name LIKE 'n1%' AND score > 17 RETURNING name",
        "DELETE FROM db.s.t USING (SELECT 12 AS k) o WHERE id = o.k",
        "DELETE FROM db.s.t WHERE id IN (SELECT id - 1 FROM db.s.t)",
        "FROM db.s.t ORDER BY ALL",
        "TRUNCATE db.s.t",
        "SELECT count(*) FROM db.s.t",
        "INSERT INTO db.s.t VALUES (1, 'again', 1, [])",
        "DELETE FROM db.s.t",
        "FROM db.s.t",
    )


def test_statements_over_many_batches(duckdb: DuckDB, server: Server) -> None:
    """A hundred thousand rows go through each statement, with and without RETURNING."""
    rows = duckdb.ask(
        server,
        "CREATE SCHEMA db.s",
        "CREATE TABLE db.s.t (a BIGINT, b VARCHAR, c DOUBLE)",
        "INSERT INTO db.s.t SELECT range, 'name ' || range, range / 4 FROM range(100000)",
        "UPDATE db.s.t SET c = a * 2 WHERE a % 2 = 0",
        "CREATE TABLE updated (a BIGINT, b VARCHAR, c DOUBLE)",
        "SELECT count(*), sum(a), sum(c), max(b) FROM db.s.t",
        "DELETE FROM db.s.t WHERE a % 10 = 0",
        "SELECT count(*), sum(a), count(DISTINCT b) FROM db.s.t",
        "DELETE FROM db.s.t",
        "SELECT count(*) FROM db.s.t",
    )
    returned = duckdb.ask(
        server,
        "INSERT INTO db.s.t SELECT range, 'name ' || range, range FROM range(10000) RETURNING b, a",
        "UPDATE db.s.t SET c = a + 0.5, b = 'n' || a RETURNING a, c, b",
        "DELETE FROM db.s.t WHERE a >= 5000 RETURNING b, c",
        "SELECT count(*), sum(c) FROM db.s.t",
    )

    assert rows[2] == [[100000]]
    assert rows[3] == [[50000]]
    assert rows[5] == [[100000, 4999950000, 4999900000 + 625000000, "name 99999"]]
    assert rows[6] == [[10000]]
    assert rows[7] == [[90000, 4500000000, 90000]]
    assert rows[8:] == [[[90000]], [[0]]]
    assert returned[0] == [[f"name {n}", n] for n in range(10000)]
    assert sorted(returned[1]) == [[n, n + 0.5, f"n{n}"] for n in range(10000)]
    assert sorted(returned[2], key=str) == sorted(([f"n{n}", n + 0.5] for n in range(5000, 10000)), key=str)
    assert returned[3] == [[5000, 12500000.0]]


def test_wide_rows_fit(duckdb: DuckDB, server: Server) -> None:
    """The client puts 2048 rows in a message, however wide they are."""
    rows = duckdb.ask(
        server,
        "CREATE SCHEMA db.s",
        "CREATE TABLE db.s.t AS SELECT range AS id, repeat('x', 40000) AS document FROM range(2048)",
        "SELECT count(*), sum(length(document)), max(id) FROM db.s.t",
        "SELECT count(*) FROM db.s.t WHERE document = repeat('x', 40000)",
    )

    assert rows[1:] == [[[2048]], [[2048, 81920000, 2047]], [[2048]]]


def test_clients_writing_at_once_lose_nothing(duckdb: DuckDB, server: Server) -> None:
    """Inserts never conflict, and updates of different rows by different clients do not either."""
    duckdb.ask(server, "CREATE SCHEMA db.s", "CREATE TABLE db.s.t (client INTEGER, n INTEGER, v INTEGER)")
    clients = [
        duckdb.start(
            attached(server),
            *(
                sql
                for n in range(10)
                for sql in (
                    f"INSERT INTO db.s.t SELECT {client}, {n}, 0 FROM range(100)",
                    f"UPDATE db.s.t SET v = v + 1 WHERE client = {client} AND n = {n}",
                    f"DELETE FROM db.s.t WHERE client = {client} AND n = {n - 1}",
                )
            ),
        )
        for client in range(4)
    ]
    outputs = [client.communicate(timeout=60)[0] for client in clients]
    rows = duckdb.ask(server, "SELECT client, n, v, count(*) FROM db.s.t GROUP BY ALL ORDER BY ALL")

    assert [line for output in outputs for line in output.splitlines() if '"error": "' in line] == []
    assert rows == [[[client, 9, 1, 100] for client in range(4)]]


def test_prepared_statements_see_what_changed_since(duckdb: DuckDB, server: Server) -> None:
    """A prepared plan is made anew when rows have changed, by whomever."""
    rows = duckdb.ask(
        server,
        "CREATE SCHEMA db.s",
        "CREATE TABLE db.s.t AS SELECT range::INTEGER AS v FROM range(10)",
        "PREPARE high AS SELECT v FROM db.s.t WHERE v > 100",
        "PREPARE nulls AS SELECT count(*) FROM db.s.t WHERE v IS NULL",
        "PREPARE above AS SELECT v FROM db.s.t WHERE v > $1",
        "PREPARE more AS INSERT INTO db.s.t VALUES ($1)",
        "PREPARE raise AS UPDATE db.s.t SET v = v + 1000 WHERE v > 100",
        "EXECUTE high",
        "EXECUTE more(200)",
        "EXECUTE high",
        Step("INSERT INTO db.s.t VALUES (300), (NULL)", "other"),
        "EXECUTE high",
        "EXECUTE nulls",
        "EXECUTE above(250)",
        "EXECUTE raise",
        "EXECUTE raise",
        "EXECUTE high",
    )

    assert rows[7] == []
    assert rows[9] == [[200]]
    assert rows[11] == [[200], [300]]
    assert rows[12] == [[1]]
    assert rows[13] == [[300]]
    assert rows[14:] == [[[2]], [[2]], [[2200], [2300]]]


def test_prepared_statements_outlive_their_transaction(duckdb: DuckDB) -> None:
    """A plan keeps the transaction it was made in; when that has expired it is made anew."""
    with Server({"lake": MemoryCatalog(transaction_idle_seconds=1.0)}, port=0, grace_seconds=1.0) as server:
        rows = duckdb.ask(
            server,
            "CREATE SCHEMA db.s",
            "CREATE TABLE db.s.t AS SELECT 1 AS v",
            "PREPARE p AS SELECT v FROM db.s.t WHERE v > 0",
            "EXECUTE p",
            Step("EXECUTE p", pause_before=1.5),
        )

    assert rows[3] == rows[4] == [[1]]


def test_a_column_may_be_named_rowid(duckdb: DuckDB, server: Server) -> None:
    """A column of that name is an ordinary column; what the client would misread is refused."""
    outcomes = duckdb.attempt(
        server,
        "CREATE SCHEMA db.s",
        "CREATE TABLE db.s.t (rowid INTEGER, v INTEGER)",
        "INSERT INTO db.s.t VALUES (5, 6), (7, 8)",
        "UPDATE db.s.t SET v = 60 WHERE rowid = 5",
        "DELETE FROM db.s.t WHERE rowid = 7",
        "UPDATE db.s.t SET rowid = 50",
        "UPDATE db.s.t SET rowid = 51 RETURNING *",
        "FROM db.s.t",
        "DELETE FROM db.s.t WHERE rowid = 50 RETURNING *",
    )

    rows = [outcome.rows for outcome in outcomes]
    assert rows[3:6] == [[[1]], [[1]], [[1]]]
    assert "a column named 'rowid'" in (outcomes[6].error or "")
    assert rows[7:] == [[[50, 60]], [[50, 60]]]
