from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa

from sparkport import Server
from sparkport.toolkit.builder import CatalogBuilder
from sparkport.toolkit.static import StaticCatalog

from .client import DuckDB

PRICE = Decimal("1.50")
DAY = dt.date(2024, 1, 2)

# Arrow columns of two rows, a value and a null, with the text and the type that DuckDB shows.
COLUMNS: dict[str, tuple[pa.Array, str, str]] = {
    "dictionary": (pa.array(["a", None]).dictionary_encode(), "a", "VARCHAR"),
    "dictionary of numbers": (pa.array([7, None]).dictionary_encode(), "7", "BIGINT"),
    "run ends": (pa.RunEndEncodedArray.from_arrays(pa.array([1, 2]), pa.array(["x", None])), "x", "VARCHAR"),
    "float16": (pa.array([1.5, None], pa.float32()).cast(pa.float16()), "1.5", "FLOAT"),
    "decimal32": (pa.array([PRICE, None], pa.decimal32(5, 2)), "1.50", "DECIMAL(5,2)"),
    "decimal64": (pa.array([PRICE, None], pa.decimal64(15, 2)), "1.50", "DECIMAL(15,2)"),
    "decimal256": (pa.array([PRICE, None], pa.decimal256(38, 2)), "1.50", "DECIMAL(38,2)"),
    "large text": (pa.array(["a", None], pa.large_string()), "a", "VARCHAR"),
    "text view": (pa.array(["longer than twelve", None], pa.string_view()), "longer than twelve", "VARCHAR"),
    "large bytes": (pa.array([b"a", None], pa.large_binary()), "a", "BLOB"),
    "fixed bytes": (pa.array([b"ab", None], pa.binary(2)), "ab", "BLOB"),
    "date64": (pa.array([DAY, None], pa.date64()), "2024-01-02", "DATE"),
    "time32": (pa.array([dt.time(1, 2, 3), None], pa.time32("s")), "01:02:03", "TIME"),
    "time in ns": (pa.array([1000, None], pa.time64("ns")), "00:00:00.000001", "TIME"),
    "zoned": (
        pa.array([1, None], pa.timestamp("s", tz="Europe/Rome")),
        "1970-01-01 00:00:01+00",
        "TIMESTAMP WITH TIME ZONE",
    ),
    "duration": (pa.array([1, None], pa.duration("ms")), "00:00:00.001", "INTERVAL"),
    "large list": (pa.array([[1, None], None], pa.large_list(pa.int8())), "[1, NULL]", "TINYINT[]"),
    "list view": (pa.array([[1, None], None], pa.list_view(pa.int8())), "[1, NULL]", "TINYINT[]"),
}


def _catalog() -> StaticCatalog:
    builder = CatalogBuilder().schema("s", comment="Tables of our own")
    for name, (column, _, _) in COLUMNS.items():
        builder.table(name, pa.table({"k": [1, 2], "v": column}))
    wide = pa.decimal256(50, 2)
    builder.table("too wide for DuckDB", pa.table({"k": [1], "v": pa.array([PRICE], wide)}))
    required = pa.schema(
        [pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.string(), nullable=False)]
    )
    builder.table("required", pa.table([[1, 2], ["a", "b"]], schema=required))
    return builder.build()


def test_every_arrow_type_is_shown_as_the_nearest_of_duckdb(duckdb: DuckDB) -> None:
    """Types that DuckDB lacks are converted, and a table that cannot be is left out alone."""
    with Server({"lake": _catalog()}, port=0, grace_seconds=1.0) as server:
        rows = duckdb.ask(
            server,
            "SET TimeZone = 'UTC'",
            *(f'SELECT v::VARCHAR, typeof(v) FROM db.s."{name}" ORDER BY k' for name in COLUMNS),
            "SELECT count(*) FROM duckdb_tables() WHERE database_name = 'db'",
            "SELECT k FROM db.s.required WHERE v = 'b'",
            "SELECT v FROM db.s.required ORDER BY v DESC LIMIT 1",
        )

    expected = [[[text, kind], [None, kind]] for _, text, kind in COLUMNS.values()]
    assert rows[1:] == [*expected, [[len(COLUMNS) + 1]], [[2]], [["b"]]]


def test_read_only_tables_say_what_they_do_not_do(duckdb: DuckDB) -> None:
    """Writing to a catalog that cannot be written to is refused by name, at once."""
    with Server({"lake": _catalog()}, port=0, grace_seconds=1.0) as server:
        outcomes = duckdb.attempt(
            server,
            "INSERT INTO db.s.required VALUES (1, 'x')",
            "CREATE TABLE db.s.t (v INTEGER)",
            "DROP TABLE db.s.required",
            "ALTER TABLE db.s.required ADD COLUMN w INTEGER",
            "CREATE SCHEMA db.t",
            "DROP SCHEMA db.s",
            "SELECT count(*) FROM db.s.required",
        )

    expected = [
        "table 'required' does not support INSERT operations",
        "schema 's' does not support CREATE TABLE",
        "schema 's' does not support DROP TABLE",
        "table 'required' does not support ALTER TABLE",
        "catalog 'lake' does not support CREATE SCHEMA",
        "catalog 'lake' does not support DROP SCHEMA",
    ]
    for outcome, message in zip(outcomes, expected, strict=False):
        assert message in (outcome.error or "")
        assert outcome.milliseconds < 1000
    assert outcomes[-1].rows == [[2]]


def test_a_catalog_of_many_tables_and_columns_is_attached_soon(duckdb: DuckDB) -> None:
    """Two thousand tables and a table of two thousand columns are no burden."""
    builder = CatalogBuilder().schema("s")
    columns = pa.table({f"c{index}": [index] for index in range(2000)})
    builder.table("wide", columns)
    for index in range(2000):
        builder.table(f"t{index}", pa.table({"a": [index], "b": ["x"]}))
    with Server({"lake": builder.build()}, port=0, grace_seconds=1.0) as server:
        rows = duckdb.ask(
            server,
            "SELECT count(*) FROM duckdb_tables() WHERE database_name = 'db'",
            "SELECT a FROM db.s.t1999",
            "SELECT c1999, c0, c1000 FROM db.s.wide WHERE c5 = 5",
            "SELECT count(*) FROM (FROM db.s.wide)",
        )

    assert rows == [[[2001]], [[1999]], [[1999, 0, 1000]], [[1]]]
