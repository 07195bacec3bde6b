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
from tests.access_policies import COLUMNS, for_duckdb, random_condition, random_policy, random_row
from tests.access_views import view
from tests.behaviour.engine import FullTable, insert

_QUERIES = int(os.environ.get("SPARKPORT_ACCESS_QUERIES", "180"))
_PER_POLICY = 12
_PER_SEED = 60
ADA = Call("ada")


@pytest.mark.parametrize("seed", range(-(-_QUERIES // _PER_SEED)))
def test_random_queries_see_the_filtered_and_masked_rows(seed: int) -> None:
    """Whatever columns and filters a scan has, and whatever a query does with its rows."""
    chance = random.Random(f"{seed}")
    catalog = MemoryCatalog()
    schema = catalog.create_schema(Call(), "s", CreateSchemaOptions())
    made = schema.create_table(Call(), "t", COLUMNS, CreateTableOptions())
    rows = [random_row(chance) for _ in range(40)]
    insert(cast("FullTable", made), rows)
    base = pa.Table.from_pylist(rows, COLUMNS)
    for _ in range(_PER_SEED // _PER_POLICY):
        policy = random_policy(chance)
        seen = view(catalog, policy.rules("s"), "ada", *policy.roles)
        table = find_table(ADA, find_schema(ADA, seen, "s"), "t")
        with duckdb.connect() as connection:
            # Tables of DuckDB: on those of Arrow it lets Arrow filter, which takes NaN for no number.
            connection.register("arrow", base)
            connection.execute("CREATE TABLE base AS SELECT * FROM arrow")
            connection.execute(f"CREATE TABLE t AS {policy.shown('base')}")
            for number in range(_PER_POLICY):
                names = chance.sample(COLUMNS.names, chance.randint(1, len(COLUMNS)))
                condition = for_duckdb(random_condition(chance), policy.roles)
                query = f"SELECT {', '.join(names)} FROM {{}} WHERE {condition}"
                used = set(names) | {name for name in COLUMNS.names if name in condition}
                options = ScanOptions(columns=tuple(used), filter=parse_condition(condition))
                scanned = table.scan(ADA, options).read_all()
                connection.register("arrow", scanned)
                connection.execute("CREATE OR REPLACE TABLE scanned AS SELECT * FROM arrow")
                expected = sorted(connection.execute(query.format("t")).fetchall(), key=repr)

                found = sorted(connection.execute(query.format("scanned")).fetchall(), key=repr)
                assert repr(found) == repr(expected), (policy, query)
                if number == 0:
                    statement = SqlStatement(query.format("s.t"), "lake")
                    answer = CatalogSql(seen).query_sql(ADA, statement, None).read_all()
                    listed = sorted((tuple(row.values()) for row in answer.to_pylist()), key=repr)
                    assert repr(listed) == repr(expected), (policy, query)
        assert without_rowid(table.arrow_schema or COLUMNS).names == COLUMNS.names
