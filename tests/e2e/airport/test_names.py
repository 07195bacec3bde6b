from __future__ import annotations

from sparkport import Server

from .client import DuckDB, Step

NAMES = [
    "with space",
    'with "quotes"',
    "with 'apostrophe'",
    "dot.ted",
    "slash/ed",
    "back\\slash",
    "percent%20",
    "select",
    "Gr\u00fc\u00dfe",
    "\u65e5\u672c\u8a9e",
    "\U0001f986\U0001f680",
    "new\nline",
    "{json}",
    "UPPER and lower",
    "x" * 300,
    " leading",
    "$1;--",
]


def test_names_may_be_anything(duckdb: DuckDB, server: Server) -> None:
    """Schemas, tables and columns with any name can be made, filled, changed, found again and dropped."""
    quoted = ['"' + name.replace('"', '""') + '"' for name in NAMES]
    life = [
        sql.format(n=name)
        for name in quoted
        for sql in (
            "CREATE SCHEMA db.{n}",
            "CREATE TABLE db.{n}.{n} ({n} INTEGER, other VARCHAR)",
            "INSERT INTO db.{n}.{n} VALUES (1, 'a'), (2, 'b')",
            "UPDATE db.{n}.{n} SET {n} = 10 + {n} WHERE {n} = 2",
            "DELETE FROM db.{n}.{n} WHERE {n} = 1",
            "ALTER TABLE db.{n}.{n} ADD COLUMN more INTEGER",
        )
    ]
    seen = [
        Step(sql.format(n=name), "other")
        for name in quoted
        for sql in (
            "SELECT {n}, other FROM db.{n}.{n} WHERE {n} > 5",
            "SELECT count(*) FROM db.{n}.{n} AT (VERSION => 1)",
            "DROP TABLE db.{n}.{n}",
            "DROP SCHEMA db.{n}",
        )
    ]
    rows = duckdb.ask(server, *life, *seen)[len(life) :]

    for index, name in enumerate(NAMES):
        assert rows[index * 4 : index * 4 + 2] == [[[12, "b"]], [[2]]], name


def test_names_are_found_in_any_case(duckdb: DuckDB, server: Server) -> None:
    """Letter case is kept and never decides."""
    rows = duckdb.ask(
        server,
        "CREATE SCHEMA db.Shop",
        'CREATE TABLE db.SHOP."Order Lines" ("Line No" INTEGER, Amount DOUBLE)',
        'INSERT INTO db.shop."order lines" (AMOUNT, "LINE NO") VALUES (1.5, 1)',
        Step('UPDATE DB.sHOP."ORDER LINES" SET amount = AMOUNT + 1 WHERE "line no" = 1', "other"),
        Step('ALTER TABLE db.shop."ORDER lines" RENAME COLUMN aMOUNT TO Total', "other"),
        Step('SELECT * FROM db.shop."ORDER lines"', "other"),
        "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = 'db'",
    )

    assert rows[5] == [[1, 2.5]]
    assert rows[6] == [["Shop", "Order Lines"]]
