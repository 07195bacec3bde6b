"""Random row filters, masks and queries: a caller sees what DuckDB makes of the filtered and masked rows.

`SPARKPORT_ACCESS_QUERIES` sets how many are tried.
"""

from __future__ import annotations

import os
import random
from typing import cast

import duckdb
import pyarrow as pa
import pytest

from sparkport.access.conditions import parse_condition
from sparkport.catalog import Call, CreateSchemaOptions, CreateTableOptions, ScanOptions, SqlStatement
from sparkport.catalog.lookup import find_schema, find_table
from sparkport.catalog.rowid import without_rowid
from sparkport.memory import MemoryCatalog
from sparkport.sql import CatalogSql
from tests.access_views import view
from tests.behaviour.engine import FullTable, insert

_QUERIES = int(os.environ.get("SPARKPORT_ACCESS_QUERIES", "180"))
_PER_POLICY = 12
_PER_SEED = 60
ADA = Call("ada")
_COLUMNS = pa.schema(
    [("i", pa.int64()), ("j", pa.int32()), ("s", pa.string()), ("d", pa.float64()), ("b", pa.bool_())]
)
_MASKS = {
    "i": ["NULL", "0", "i % 2", "CASE WHEN has_role('boss') THEN i ELSE -1 END"],
    "j": ["NULL", "j + 1", "i % 7"],
    "s": ["'***'", "left(s, 1)", "upper(s) || current_principal()", "NULL"],
    "d": ["round(d)", "NULL"],
    "b": ["NOT b", "false"],
}


def _row(random: random.Random) -> dict[str, object]:
    values: dict[str, list[object]] = {
        "i": [None, -1, 0, 1, 2, 3, 1 << 40],
        "j": [None, -5, 0, 5],
        "s": [None, "", "a", "ada", "B", "ä", "a%"],
        "d": [None, 0.0, -1.5, 2.0, float("nan"), float("inf")],
        "b": [None, True, False],
    }
    return {name: random.choice(options) for name, options in values.items()}


def _condition(random: random.Random, depth: int = 2) -> str:
    if depth and random.random() < 0.6:
        parts = [_condition(random, depth - 1) for _ in range(random.randint(1, 3))]
        text = f" {random.choice(['AND', 'OR'])} ".join(f"({part})" for part in parts)
        return f"NOT ({text})" if random.random() < 0.25 else text
    compared = random.choice(["=", "<>", "<", "<=", ">", ">="])
    return random.choice(
        [
            f"i {compared} {random.randint(-2, 4)}",
            f"i {compared} j",
            f"j {compared} {random.choice([-5, 0, 5, 1 << 33])}",
            f"s {compared} {random.choice(['current_principal()', repr('a'), repr('B')])}",
            f"d {compared} {random.choice(['0', '1.5', 'i'])}",
            "s LIKE 'a%'",
            "i BETWEEN 0 AND 2",
            "i IN (1, 2, -1)",
            "s NOT IN ('a', 'B')",
            "length(s) > 1",
            "coalesce(b, true)",
            "b",
            f"{random.choice(['i', 's', 'b', 'd'])} IS {random.choice(['', 'NOT '])}NULL",
            f"has_role('{random.choice(['boss', 'nobody'])}')",
            "s IS DISTINCT FROM 'a'",
        ]
    )


def _for_duckdb(expression: str, roles: set[str]) -> str:
    text = expression.replace("current_principal()", "'ada'")
    for role in ("boss", "nobody"):
        text = text.replace(f"has_role('{role}')", str(role in roles).lower())
    return text


@pytest.mark.parametrize("seed", range(-(-_QUERIES // _PER_SEED)))
def test_random_queries_see_the_filtered_and_masked_rows(seed: int) -> None:
    """Whatever columns and filters a scan has, and whatever a query does with its rows."""
    chance = random.Random(f"{seed}")
    catalog = MemoryCatalog()
    schema = catalog.create_schema(Call(), "s", CreateSchemaOptions())
    made = schema.create_table(Call(), "t", _COLUMNS, CreateTableOptions())
    rows = [_row(chance) for _ in range(40)]
    insert(cast("FullTable", made), rows)
    base = pa.Table.from_pylist(rows, _COLUMNS)
    for _ in range(_PER_SEED // _PER_POLICY):
        roles = {"boss"} if chance.random() < 0.5 else set()
        filters = [_condition(chance) for _ in range(chance.randint(0, 2))]
        masks = {name: chance.choice(options) for name, options in _MASKS.items() if chance.random() < 0.3}
        rules = '[roles]\nboss = []\n[[grant]]\nto = "*"\nallow = ["select", "sql"]\ncatalogs = "lake"\n'
        rules += "".join(f'[[filter]]\nfor="*"\ntables="lake.s.t"\nrows="""{one}"""\n' for one in filters)
        for name, mask in masks.items():
            rules += f'[[mask]]\nfor="*"\ncolumns="lake.s.t.{name}"\nvalue="""{mask}"""\n'
        seen = view(catalog, rules, "ada", *roles)
        table = find_table(ADA, find_schema(ADA, seen, "s"), "t")
        shown = [
            f"CAST(({_for_duckdb(masks.get(field.name, field.name), roles)}) AS {kind}) AS {field.name}"
            for field, kind in zip(
                _COLUMNS, ("BIGINT", "INTEGER", "VARCHAR", "DOUBLE", "BOOLEAN"), strict=True
            )
        ]
        where = " AND ".join(f"({_for_duckdb(one, roles)})" for one in filters) or "true"
        with duckdb.connect() as connection:
            # Tables of DuckDB: on those of Arrow it lets Arrow filter, which takes NaN for no number.
            connection.register("arrow", base)
            connection.execute("CREATE TABLE base AS SELECT * FROM arrow")
            connection.execute(f"CREATE TABLE t AS SELECT {', '.join(shown)} FROM base WHERE {where}")
            for number in range(_PER_POLICY):
                names = chance.sample(_COLUMNS.names, chance.randint(1, len(_COLUMNS)))
                condition = _for_duckdb(_condition(chance), roles)
                query = f"SELECT {', '.join(names)} FROM {{}} WHERE {condition}"
                used = set(names) | {name for name in _COLUMNS.names if name in condition}
                options = ScanOptions(columns=tuple(used), filter=parse_condition(condition))
                scanned = table.scan(ADA, options).read_all()
                connection.register("arrow", scanned)
                connection.execute("CREATE OR REPLACE TABLE scanned AS SELECT * FROM arrow")
                expected = sorted(connection.execute(query.format("t")).fetchall(), key=repr)

                found = sorted(connection.execute(query.format("scanned")).fetchall(), key=repr)
                assert repr(found) == repr(expected), (rules, query)
                if number == 0:
                    statement = SqlStatement(query.format("s.t"), "lake")
                    answer = CatalogSql(seen).query_sql(ADA, statement, None).read_all()
                    listed = sorted((tuple(row.values()) for row in answer.to_pylist()), key=repr)
                    assert repr(listed) == repr(expected), (rules, query)
        assert without_rowid(table.arrow_schema or _COLUMNS).names == _COLUMNS.names
