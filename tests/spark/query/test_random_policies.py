"""Random row filters and masks on Spark: scans and Spark SQL see what DuckDB makes of the rows.

`SPARKPORT_ACCESS_QUERIES` sets how many scans are tried; every third has a statement in Spark SQL.
"""

from __future__ import annotations

import os
import random
from typing import cast

import duckdb
import pyarrow as pa

from sparkport.access.conditions import parse_condition
from sparkport.catalog import Call, CreateTableOptions, ScanOptions, SqlCatalog, SqlStatement
from sparkport.catalog.lookup import find_schema, find_table
from sparkport.spark.catalog.catalog import SparkCatalog
from sparkport.spark.catalog.schema import SparkSchema
from tests.access_policies import COLUMNS, for_duckdb, random_condition, random_policy, random_row
from tests.access_views import view
from tests.behaviour.engine import FullTable, insert

_SCANS = int(os.environ.get("SPARKPORT_ACCESS_QUERIES", "12"))
ADA = Call("ada")


def test_random_policies_hold_in_scans_and_spark_sql(catalog: SparkCatalog, schema: SparkSchema) -> None:
    """Whatever the filters and masks: no row or value differs, also with filters that leave out files."""
    chance = random.Random("spark")
    made = cast("FullTable", schema.create_table(Call(), "t", COLUMNS, CreateTableOptions()))
    rows = [random_row(chance) for _ in range(40)]
    for part in (rows[:15], rows[15:]):
        insert(made, part)
    with duckdb.connect() as connection:
        connection.register("arrow", pa.Table.from_pylist(rows, COLUMNS))
        connection.execute("CREATE TABLE base AS SELECT * FROM arrow")
        for number in range(_SCANS):
            policy = random_policy(chance)
            seen = view(catalog, policy.rules(schema.name), "ada", *policy.roles)
            condition = for_duckdb(random_condition(chance), policy.roles)
            options = ScanOptions(columns=tuple(COLUMNS.names), filter=parse_condition(condition))
            table = find_table(ADA, find_schema(ADA, seen, schema.name), "t")
            found = table.scan(ADA, options).read_all()
            connection.execute(f"CREATE OR REPLACE TABLE t AS {policy.shown('base')}")
            assert _where(connection, found, condition) == _where(connection, None, condition), policy
            if number % 3 == 0:
                statement = SqlStatement(f"SELECT x.* FROM {schema.name}.t x ORDER BY x.i + 1", "lake")
                answer = cast("SqlCatalog", seen).query_sql(ADA, statement, None).read_all()
                assert _where(connection, answer, "true") == _where(connection, None, "true"), policy


def _where(connection: duckdb.DuckDBPyConnection, rows: pa.Table | None, condition: str) -> list[str]:
    """Return those of some rows, or of the table `t`, that meet a condition, in any fixed order."""
    if rows is not None:
        connection.register("arrow", rows)
        connection.execute("CREATE OR REPLACE TABLE found AS SELECT * FROM arrow")
    found = connection.execute(
        f"SELECT * FROM {'t' if rows is None else 'found'} WHERE {condition}"
    ).fetchall()
    return sorted(map(repr, found))
