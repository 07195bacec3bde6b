from __future__ import annotations

from sparkport import Server

from .client import DuckDB, Outcome, Step


def _errors(outcomes: list[Outcome]) -> list[str | None]:
    """Return the errors without the place that the client puts before each."""
    return [_message(outcome.error) for outcome in outcomes]


def _message(error: str | None) -> str | None:
    return None if error is None else error.split(": reading result ")[-1].split("\n")[0].strip()


def test_schemas_are_made_replaced_and_dropped(duckdb: DuckDB, server: Server) -> None:
    """Every form of CREATE and DROP SCHEMA does what DuckDB says it does."""
    outcomes = duckdb.attempt(
        server,
        "CREATE SCHEMA db.s",
        "CREATE SCHEMA db.S",
        "CREATE SCHEMA IF NOT EXISTS db.s",
        "CREATE OR REPLACE SCHEMA db.s",
        "CREATE TABLE db.s.t (v INTEGER)",
        "DROP SCHEMA db.s",
        "DROP TABLE db.s.t",
        "DROP SCHEMA db.S",
        "DROP SCHEMA IF EXISTS db.s",
        "DROP SCHEMA db.s",
    )

    assert _errors(outcomes) == [
        None,
        "schema 'S' already exists",
        "schema 's' already exists",  # the client does not say IF NOT EXISTS
        None,
        None,
        (
            f"IO Error: Airport @ {server.location}/: schema 's' contains tables (1 table: 't');"
            " drop them first or use cascade"
        ),
        None,
        None,
        None,
        f"IO Error: Airport @ {server.location}/: schema 's' not found",
    ]
    assert max(outcome.milliseconds for outcome in outcomes) < 1000


def test_tables_are_made_and_dropped(duckdb: DuckDB, server: Server) -> None:
    """Every form of CREATE and DROP TABLE does what DuckDB says it does."""
    outcomes = duckdb.attempt(
        server,
        "CREATE SCHEMA db.s",
        "CREATE TABLE db.s.t (v INTEGER)",
        "CREATE TABLE db.s.T (w INTEGER)",
        "CREATE TABLE IF NOT EXISTS db.s.t (w INTEGER)",
        "CREATE TABLE db.s.copied AS SELECT range AS n, 'row ' || range AS label FROM range(5000)",
        "SELECT count(*), sum(n), max(label) FROM db.s.copied",
        "CREATE TABLE db.s.again AS FROM db.s.copied WHERE n < 3",
        "FROM db.s.again",
        "CREATE TABLE IF NOT EXISTS db.s.again AS SELECT 1",
        "CREATE TABLE db.s.empty AS FROM db.s.copied LIMIT 0",
        "SELECT count(*) FROM db.s.empty",
        "DROP TABLE db.s.T",
        "DROP TABLE db.s.t",
        "DROP TABLE IF EXISTS db.s.t",
        "SHOW ALL TABLES",
    )

    assert _errors(outcomes) == [
        None,
        None,
        "table 's.T' already exists",
        *[None] * 9,
        "Catalog Error: Table with name t does not exist!",
        None,
        None,
    ]
    assert outcomes[5].rows == [[5000, 12497500, "row 999"]]
    assert outcomes[7].rows == [[0, "row 0"], [1, "row 1"], [2, "row 2"]]
    assert outcomes[10].rows == [[0]]
    assert outcomes[14].rows == [
        ["db", "s", name, ["n", "label"], ["BIGINT", "VARCHAR"], False]
        for name in ("again", "copied", "empty")
    ]


def test_every_alteration_of_a_column(duckdb: DuckDB, server: Server) -> None:
    """Columns are added, dropped, renamed and converted, and the rows follow."""
    outcomes = duckdb.attempt(
        server,
        "CREATE SCHEMA db.s",
        "CREATE TABLE db.s.t AS SELECT 1 AS a, 'x' AS b",
        "ALTER TABLE db.s.t ADD COLUMN c INTEGER",
        "ALTER TABLE db.s.t ADD COLUMN C INTEGER",
        "ALTER TABLE db.s.t ADD COLUMN IF NOT EXISTS c INTEGER",
        "FROM db.s.t",
        "ALTER TABLE db.s.t RENAME COLUMN A TO first",
        "ALTER TABLE db.s.t RENAME COLUMN nothing TO something",
        "ALTER TABLE db.s.t RENAME COLUMN b TO C",
        "ALTER TABLE db.s.t ALTER first TYPE VARCHAR",
        "ALTER TABLE db.s.t ALTER b TYPE INTEGER",
        "ALTER TABLE db.s.t ALTER b TYPE INTEGER USING length(b) + 10",
        "FROM db.s.t",
        "ALTER TABLE db.s.t DROP COLUMN c",
        "ALTER TABLE db.s.t DROP COLUMN c",
        "ALTER TABLE db.s.t DROP COLUMN IF EXISTS c",
        "ALTER TABLE db.s.t ALTER first SET DEFAULT 'none'",
        "INSERT INTO db.s.t (b) VALUES (1)",
        "ALTER TABLE db.s.t ALTER b SET NOT NULL",
        "INSERT INTO db.s.t VALUES ('y', NULL)",
        "UPDATE db.s.t SET b = NULL",
        "ALTER TABLE db.s.t ALTER b DROP NOT NULL",
        "INSERT INTO db.s.t VALUES ('y', NULL)",
        "ALTER TABLE db.s.t ALTER b SET NOT NULL",
        "FROM db.s.t",
        "ALTER TABLE db.s.t RENAME TO u",
        "SELECT count(*) FROM db.s.u",
        "ALTER TABLE IF EXISTS db.s.nothing RENAME TO v",
    )

    not_null = "NOT NULL constraint of table 't' failed in column 'b'"
    assert _errors(outcomes) == [
        *[None] * 3,
        "column 'C' already exists",
        *[None] * 3,
        "column 'nothing' not found",
        "column 'C' already exists",
        None,
        (
            "expression 'CAST(b AS INTEGER)' failed: Conversion Error: Could not convert string 'x' to INT32"
            " when casting from source column b"
        ),
        *[None] * 3,
        "column 'c' not found",
        *[None] * 4,
        "Constraint Error: NOT NULL constraint failed: t.b",
        f"Constraint Error: {not_null}",
        None,
        None,
        not_null,
        *[None] * 4,
    ]
    assert outcomes[5].rows == [[1, "x", None]]
    assert outcomes[12].rows == [["1", 11, None]]
    assert outcomes[24].rows == [["1", 11], ["none", 1], ["y", None]]
    assert outcomes[26].rows == [[3]]
    assert max(outcome.milliseconds for outcome in outcomes) < 1000


def test_every_alteration_of_a_struct(duckdb: DuckDB, server: Server) -> None:
    """Fields of structs are renamed and dropped; a new one, whose name is lost on the way, is refused."""
    outcomes = duckdb.attempt(
        server,
        "CREATE SCHEMA db.s",
        "CREATE TABLE db.s.t (st STRUCT(a INTEGER, b VARCHAR))",
        "INSERT INTO db.s.t VALUES ({'a': 1, 'b': 'x'}), (NULL)",
        "ALTER TABLE db.s.t ADD COLUMN st.c INTEGER",
        "ALTER TABLE db.s.t RENAME COLUMN st.b TO text",
        "ALTER TABLE db.s.t DROP COLUMN st.a",
        "FROM db.s.t",
        "ALTER TABLE db.s.t DROP COLUMN st.nothing",
    )

    errors = _errors(outcomes)
    assert "change the column's type instead" in (errors.pop(3) or "")
    assert errors == [None] * 6 + ["field 'st.nothing' not found"]
    assert outcomes[6].rows == [[{"text": "x"}], [None]]


def test_constraints_are_shown_and_enforced(duckdb: DuckDB, server: Server) -> None:
    """NOT NULL, CHECK, UNIQUE and PRIMARY KEY fail with DuckDB's Constraint Error."""
    outcomes = duckdb.attempt(
        server,
        "CREATE SCHEMA db.s",
        "CREATE TABLE db.s.t (a INTEGER PRIMARY KEY, b VARCHAR UNIQUE, c DOUBLE CHECK (c > 0),"
        " d INTEGER NOT NULL, UNIQUE (c, d))",
        "SELECT constraint_type, constraint_text FROM duckdb_constraints() WHERE database_name = 'db'"
        " ORDER BY ALL",
        "INSERT INTO db.s.t VALUES (1, 'x', 1.5, 2), (2, 'y', 2.5, 2)",
        "INSERT INTO db.s.t VALUES (1, 'z', 9, 3)",
        "INSERT INTO db.s.t VALUES (3, 'x', 9, 3)",
        "INSERT INTO db.s.t VALUES (3, 'z', 1.5, 2)",
        "INSERT INTO db.s.t VALUES (3, 'z', -1, 2)",
        "INSERT INTO db.s.t VALUES (3, 'z', 1, NULL)",
        "UPDATE db.s.t SET a = 1",
        "UPDATE db.s.t SET b = 'same'",
        "UPDATE db.s.t SET c = -c WHERE a = 1",
        "UPDATE db.s.t SET d = NULL",
        "UPDATE db.s.t SET a = a + 1",
        "INSERT INTO db.s.t SELECT 100 + range, NULL, NULL, 1 FROM range(3000)",
        "INSERT INTO db.s.t SELECT 200 + range, NULL, NULL, 1 FROM range(3000)",
        "SELECT count(*), min(a), max(a) FROM db.s.t",
        "CREATE TABLE db.s.days (d DATE CHECK (d > '2000-01-01'), p DECIMAL(4, 2), n INTEGER)",
        "INSERT INTO db.s.days VALUES ('2020-01-01', 1.5, NULL)",
        "UPDATE db.s.days SET d = '1999-01-01'",
    )

    assert outcomes[2].rows == [
        ["CHECK", "CHECK((c > 0))"],
        ["NOT NULL", "NOT NULL"],
        ["NOT NULL", "NOT NULL"],
    ]
    failing = [index for index, outcome in enumerate(outcomes) if outcome.error is not None]
    assert failing == [4, 5, 6, 7, 8, 9, 10, 11, 12, 15, 19]
    assert {outcomes[index].kind for index in failing} == {"ConstraintException"}
    assert (
        outcomes[4].error == "Constraint Error: PRIMARY KEY constraint of table 't' failed in column 'a': a=1"
    )
    assert outcomes[16].rows == [[3002, 2, 3099]]
    assert (outcomes[19].error or "").endswith("failed: d=1999-01-01, p=1.50, n=NULL")
    assert max(outcome.milliseconds for outcome in outcomes) < 1000


def test_a_table_altered_by_another_client_says_so(duckdb: DuckDB, server: Server) -> None:
    """A client that has cached other columns gets an error, never a wrong row, until it attaches again."""
    use = [
        Step(sql, "other")
        for sql in (
            "FROM db.s.t",
            "SELECT count(*) FROM db.s.t WHERE v = 1",
            "INSERT INTO db.s.t VALUES (1, 'x')",
            "UPDATE db.s.t SET v = 2",
            "DELETE FROM db.s.t",
        )
    ]
    attach = f"ATTACH 'lake' AS db (TYPE airport, LOCATION '{server.location}')"
    outcomes = duckdb.attempt(
        server,
        "CREATE SCHEMA db.s",
        "CREATE TABLE db.s.t AS SELECT 1 AS v, 'a' AS w",
        Step("SELECT count(*) FROM db.s.t", "other"),
        "ALTER TABLE db.s.t ALTER v TYPE BIGINT",
        *use,
        Step("DETACH db", "other"),
        Step(attach, "other"),
        *use[:1],
        "DROP TABLE db.s.t",
        *use,
    )

    assert [outcome.rows for outcome in outcomes[:4]] == [[], [[1]], [[1]], []]
    for outcome in outcomes[4:9]:
        assert "the columns of table 's.t' have changed since it was attached" in (outcome.error or "")
        assert outcome.milliseconds < 1000
    assert outcomes[11].rows == [[1, "a"]]
    for outcome in outcomes[13:]:
        assert "table 's.t' not found" in (outcome.error or "")
        assert outcome.milliseconds < 1000
