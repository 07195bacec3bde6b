from __future__ import annotations

from sparkport import Server

from .client import DuckDB, Step


def test_old_versions_stay_readable(duckdb: DuckDB, server: Server) -> None:
    """AT VERSION shows the rows and the columns of that version, filtered or not."""
    rows = duckdb.ask(
        server,
        "CREATE SCHEMA db.s",
        "CREATE TABLE db.s.t (v INTEGER)",
        "INSERT INTO db.s.t VALUES (1), (2)",
        "ALTER TABLE db.s.t ADD COLUMN w VARCHAR",
        "UPDATE db.s.t SET w = 'two', v = 200 WHERE v = 2",
        "ALTER TABLE db.s.t RENAME COLUMN v TO renamed",
        "DELETE FROM db.s.t WHERE renamed = 1",
        "FROM db.s.t AT (VERSION => 0)",
        "FROM db.s.t AT (VERSION => 1)",
        "SELECT v FROM db.s.t AT (VERSION => 1) WHERE v < 100",
        "FROM db.s.t AT (VERSION => 2)",
        "FROM db.s.t AT (VERSION => 3) ORDER BY v",
        "SELECT v FROM db.s.t AT (VERSION => 3) WHERE v > 150",
        "FROM db.s.t AT (VERSION => 5)",
        "FROM db.s.t",
        "SELECT count(*) FROM db.s.t AS a AT (VERSION => 1), db.s.t AS b AT (VERSION => 3) WHERE a.v = b.v",
    )

    assert rows[7:] == [
        [],
        [[1], [2]],
        [[1], [2]],
        [[1, None], [2, None]],
        [[1, None], [200, "two"]],
        [[200]],
        [[200, "two"]],
        [[200, "two"]],
        [[1]],
    ]


def test_old_moments_stay_readable(duckdb: DuckDB, server: Server) -> None:
    """AT TIMESTAMP shows the newest version that was there at that moment."""
    rows = duckdb.ask(
        server,
        "SET TimeZone = 'UTC'",
        "CREATE SCHEMA db.s",
        "CREATE TABLE db.s.t AS SELECT 1 AS v",
        "SET VARIABLE before = get_current_timestamp()::TIMESTAMP",
        "UPDATE db.s.t SET v = 2",
        "SELECT v FROM db.s.t AT (TIMESTAMP => getvariable('before'))",
        "SELECT v FROM db.s.t AT (TIMESTAMP => now())",
        "SELECT v FROM db.s.t AT (TIMESTAMP => TIMESTAMP '2999-01-01')",
    )

    assert rows[5:] == [[[1]], [[2]], [[2]]]


def test_times_that_never_were_are_refused_at_once(duckdb: DuckDB, server: Server) -> None:
    """A version or a moment that does not exist is named in the error."""
    outcomes = duckdb.attempt(
        server,
        "CREATE SCHEMA db.s",
        "CREATE TABLE db.s.t AS SELECT 1 AS v",
        "FROM db.s.t AT (VERSION => 99)",
        "FROM db.s.t AT (VERSION => -1)",
        "FROM db.s.t AT (VERSION => 'first')",
        "FROM db.s.t AT (TIMESTAMP => TIMESTAMP '1999-01-01')",
        "FROM db.s.t AT (TIMESTAMP => 'yesterday')",
    )

    for outcome, expected in zip(
        outcomes[2:],
        (
            "version '99' not found",
            "version '-1' not found",
            "'first' is not a version number",
            "version at timestamp '1999-01-01 00:00:00' not found",
            "'yesterday' is not a timestamp",
        ),
        strict=True,
    ):
        assert expected in (outcome.error or "")
        assert outcome.milliseconds < 1000


def test_a_transaction_reads_one_moment_of_all_tables(duckdb: DuckDB, server: Server) -> None:
    """What others commit stays out of sight until the transaction ends."""
    rows = duckdb.ask(
        server,
        "CREATE SCHEMA db.s",
        "CREATE TABLE db.s.a AS SELECT 1 AS v",
        "CREATE TABLE db.s.b AS SELECT 1 AS v",
        "BEGIN",
        "SELECT v FROM db.s.a",
        Step("UPDATE db.s.a SET v = 2", "other"),
        Step("UPDATE db.s.b SET v = 2", "other"),
        "SELECT a.v, b.v FROM db.s.a, db.s.b",
        "SELECT v FROM db.s.b WHERE v > 1",
        "COMMIT",
        "SELECT a.v, b.v FROM db.s.a, db.s.b",
    )

    assert rows[7] == [[1, 1]]
    assert rows[8] == []
    assert rows[10] == [[2, 2]]


def test_a_transaction_sees_its_own_writes(duckdb: DuckDB, server: Server) -> None:
    """Statements of a transaction build upon each other, also after its own DDL."""
    rows = duckdb.ask(
        server,
        "CREATE SCHEMA db.s",
        "CREATE TABLE db.s.t AS SELECT 1 AS v",
        "BEGIN",
        "INSERT INTO db.s.t VALUES (2)",
        "UPDATE db.s.t SET v = v * 10",
        "SELECT v FROM db.s.t ORDER BY v",
        "DELETE FROM db.s.t WHERE v = 10",
        "CREATE TABLE db.s.u (w INTEGER)",
        "INSERT INTO db.s.u SELECT v FROM db.s.t",
        "ALTER TABLE db.s.t ADD COLUMN x INTEGER",
        "UPDATE db.s.t SET x = 5",
        "SELECT t.v, t.x, u.w FROM db.s.t, db.s.u",
        "COMMIT",
        Step("SELECT t.v, t.x, u.w FROM db.s.t, db.s.u", "other"),
    )

    assert rows[5] == [[10], [20]]
    assert rows[11] == [[20, 5, 20]]
    assert rows[13] == [[20, 5, 20]]


def test_an_own_write_does_not_let_others_in(duckdb: DuckDB, server: Server) -> None:
    """After its first write a transaction still reads its snapshot, with what it wrote itself."""
    rows = duckdb.ask(
        server,
        "CREATE SCHEMA db.s",
        "CREATE TABLE db.s.t AS SELECT range::INTEGER AS v FROM range(3)",
        "BEGIN",
        "SELECT count(*) FROM db.s.t",
        Step("INSERT INTO db.s.t VALUES (400)", "other"),
        Step("DELETE FROM db.s.t WHERE v = 0", "other"),
        "INSERT INTO db.s.t VALUES (500)",
        "SELECT v FROM db.s.t ORDER BY v",
        "SELECT v FROM db.s.t WHERE v > 300",
        "UPDATE db.s.t SET v = v + 10 WHERE v = 1 RETURNING v",
        "SELECT v FROM db.s.t ORDER BY v",
        "COMMIT",
        "SELECT v FROM db.s.t ORDER BY v",
    )

    assert rows[7] == [[0], [1], [2], [500]]
    assert rows[8] == [[500]]
    assert rows[9] == [[11]]
    assert rows[10] == [[0], [2], [11], [500]]
    assert rows[12] == [[2], [11], [400], [500]]


def test_the_second_of_two_conflicting_updates_fails(duckdb: DuckDB, server: Server) -> None:
    """First committer wins on the same rows; other rows do not conflict."""
    outcomes = duckdb.attempt(
        server,
        "CREATE SCHEMA db.s",
        "CREATE TABLE db.s.t AS SELECT range AS id, 0 AS v FROM range(10)",
        "BEGIN",
        Step("BEGIN", "other"),
        Step("BEGIN", "third"),
        "SELECT count(*) FROM db.s.t",
        Step("SELECT count(*) FROM db.s.t", "other"),
        Step("SELECT count(*) FROM db.s.t", "third"),
        "UPDATE db.s.t SET v = 1 WHERE id = 1",
        Step("UPDATE db.s.t SET v = 2 WHERE id = 1", "other"),
        Step("UPDATE db.s.t SET v = 3 WHERE id = 3", "third"),
        Step("UPDATE db.s.t SET v = 3 WHERE id = 1", "third"),
        "COMMIT",
        Step("ROLLBACK", "other"),
        Step("ROLLBACK", "third"),
        "SELECT id, v FROM db.s.t WHERE v > 0 ORDER BY id",
    )

    assert [outcome.error is None for outcome in outcomes] == [*[True] * 9, False, True, False, *[True] * 4]
    for refused in (outcomes[9], outcomes[11]):
        assert "another transaction changed the same rows" in (refused.error or "")
        assert refused.milliseconds < 1000
    assert outcomes[15].rows == [[1, 1], [3, 3]]
