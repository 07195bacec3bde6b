from __future__ import annotations

from sparkport import Server
from sparkport.memory import MemoryCatalog

from .client import DuckDB, Step, secret


def test_a_scoped_secret_is_enough_to_attach_and_read(duckdb: DuckDB, server: Server) -> None:
    """With a secret for the location, every form of ATTACH works, and the alias is free."""
    location = server.location
    outcomes = duckdb.run(
        [secret(server)],
        f"ATTACH 'lake' (TYPE airport, LOCATION '{location}')",
        "CREATE SCHEMA lake.s",
        "CREATE TABLE lake.s.t AS SELECT 42 AS v",
        f"ATTACH 'lake' AS other (TYPE airport, LOCATION '{location}')",
        "SELECT v FROM other.s.t",
        f"ATTACH '{location}/lake' AS by_url (TYPE airport)",
        "SELECT v FROM by_url.s.t",
        f"ATTACH '' AS unnamed (TYPE airport, LOCATION '{location}')",
        "SELECT v FROM unnamed.s.t",
        f"ATTACH 'LAKE' AS upper (TYPE airport, LOCATION '{location}')",
        "SELECT v FROM upper.s.t",
        "INSERT INTO upper.s.t VALUES (43)",
        "SELECT v FROM unnamed.s.t ORDER BY v",
        "DETACH other",
        f"ATTACH 'lake' AS other (TYPE airport, LOCATION '{location}')",
        "SELECT v FROM other.t ORDER BY v",
    )

    assert [outcome.error for outcome in outcomes] == [None] * len(outcomes)
    assert [outcomes[i].rows for i in (4, 6, 8, 10)] == [[[42]]] * 4
    assert outcomes[12].rows == [[42], [43]]
    assert outcomes[15].rows == [[42], [43]]


def test_named_secret_in_the_attach_statement(duckdb: DuckDB, server: Server) -> None:
    """The SECRET option picks a secret by its name."""
    made = secret(server).replace("SECRET", "SECRET mine", 1)
    outcomes = duckdb.run(
        [made],
        f"ATTACH 'lake' AS db (TYPE airport, LOCATION '{server.location}', SECRET mine)",
        "CREATE SCHEMA db.s",
        "SELECT schema_name FROM duckdb_schemas() WHERE database_name = 'db'",
    )

    assert [outcome.error for outcome in outcomes] == [None, None, None]
    assert outcomes[2].rows == [["s"], ["sparkport"]]


def test_token_in_the_attach_statement_lists_but_needs_a_secret_to_scan(
    duckdb: DuckDB, server: Server
) -> None:
    """The client sends the ATTACH token to the catalog only; a scan then says what is missing."""
    duckdb.ask(server, "CREATE SCHEMA db.s", "CREATE TABLE db.s.t AS SELECT 1 AS v")

    attach = f"(TYPE airport, LOCATION '{server.location}', AUTH_TOKEN '{server.token}')"
    attached, described, scanned = duckdb.run(
        [],
        f"ATTACH 'lake' AS db {attach}",
        "SELECT column_name FROM duckdb_columns() WHERE database_name = 'db'",
        "SELECT v FROM db.s.t",
    )

    assert attached.error is None
    assert described.rows == [["v"]]
    assert scanned.error is not None
    assert "CREATE SECRET (TYPE airport" in scanned.error
    assert scanned.milliseconds < 1000


def test_wrong_or_missing_token_is_refused_at_once(duckdb: DuckDB, server: Server) -> None:
    """A client that may not in learns why without waiting."""
    place = f"TYPE airport, LOCATION '{server.location}'"
    wrong, missing = duckdb.run(
        [],
        f"ATTACH 'lake' AS a ({place}, AUTH_TOKEN 'nonsense')",
        f"ATTACH 'lake' AS b ({place})",
    )

    assert "the token is not valid" in (wrong.error or "")
    assert "A token is needed" in (missing.error or "")
    assert max(wrong.milliseconds, missing.milliseconds) < 1000


def test_unknown_catalog_names_the_ones_there_are(duckdb: DuckDB, server: Server) -> None:
    """A misspelt catalog is answered with the right spelling."""
    (outcome,) = duckdb.run(
        [secret(server)], f"ATTACH 'lkae' AS db (TYPE airport, LOCATION '{server.location}')"
    )

    assert "catalog 'lkae' not found" in (outcome.error or "")
    assert "'lake'" in (outcome.error or "")
    assert outcome.milliseconds < 1000


def test_two_catalogs_of_one_server_stay_apart(duckdb: DuckDB) -> None:
    """Equal names in two catalogs of a server are different tables."""
    with Server({"one": MemoryCatalog(), "two": MemoryCatalog()}, port=0, grace_seconds=1.0) as server:
        place = f"(TYPE airport, LOCATION '{server.location}')"
        outcomes = duckdb.run(
            [secret(server)],
            f"ATTACH 'one' {place}",
            f"ATTACH 'two' {place}",
            "CREATE SCHEMA one.s",
            "CREATE SCHEMA two.s",
            "CREATE TABLE one.s.t AS SELECT 1 AS v",
            "CREATE TABLE two.s.t AS SELECT 'a' AS w",
            "SELECT v, w FROM one.s.t, two.s.t",
            f"SELECT name FROM airport_databases('{server.location}') ORDER BY name",
        )

    assert [outcome.error for outcome in outcomes] == [None] * 8
    assert outcomes[6].rows == [[1, "a"]]
    assert outcomes[7].rows == [["one"], ["two"]]


def test_catalogs_come_and_go_while_the_server_runs(duckdb: DuckDB, server: Server) -> None:
    """A catalog added at run time can be attached; a dropped one answers no more."""
    server.catalogs.add("late", MemoryCatalog())
    place = f"(TYPE airport, LOCATION '{server.location}')"
    made = duckdb.run(
        [secret(server)],
        f"ATTACH 'late' {place}",
        "CREATE SCHEMA late.s",
        "CREATE TABLE late.s.t AS SELECT 1 AS v",
        "SELECT v FROM late.s.t",
    )
    server.catalogs.drop("late")
    (refused,) = duckdb.run([secret(server)], f"ATTACH 'late' {place}")

    assert [outcome.error for outcome in made] == [None] * 4
    assert made[3].rows == [[1]]
    assert "catalog 'late' not found" in (refused.error or "")


def test_flight_functions_read_tables_by_descriptor(duckdb: DuckDB, server: Server) -> None:
    """The extension's own functions see the same tables and catalogs."""
    location = server.location
    rows = duckdb.ask(
        server,
        "CREATE SCHEMA db.s",
        "CREATE TABLE db.s.t AS SELECT range AS v FROM range(3)",
        f"SELECT * FROM airport_databases('{location}')",
        f"SELECT v FROM airport_take_flight('{location}', ['lake', 's', 't']) ORDER BY v",
        f"SELECT v FROM airport_take_flight('{location}', ['s', 't']) WHERE v > 1",
        f"SELECT count(*) FROM airport_take_flight('{location}', 's.t')",
        f"SELECT v FROM airport_take_flight('{location}', 's.t', at_unit := 'VERSION', at_value := '0')",
    )

    assert rows[2] == [["lake", None]]
    assert rows[3] == [[0], [1], [2]]
    assert rows[4] == [[2]]
    assert rows[5] == [[3]]
    assert rows[6] == []


def test_unknown_action_is_refused_by_name(duckdb: DuckDB, server: Server) -> None:
    """An action that the server does not know is named in the error."""
    (outcome,) = duckdb.attempt(server, f"CALL airport_action('{server.location}', 'brew_coffee')")

    assert "unknown action 'brew_coffee'" in (outcome.error or "")
    assert outcome.milliseconds < 1000


def test_two_duckdbs_see_each_others_rows(duckdb: DuckDB, server: Server) -> None:
    """Rows are shared at once, new tables after attaching again."""
    rows = duckdb.ask(
        server,
        "CREATE SCHEMA db.s",
        "CREATE TABLE db.s.t (v INTEGER)",
        Step("INSERT INTO db.s.t VALUES (1)", "other"),
        "SELECT v FROM db.s.t",
        Step("DELETE FROM db.s.t", "other"),
        "SELECT v FROM db.s.t",
    )

    assert rows[3] == [[1]]
    assert rows[5] == []
