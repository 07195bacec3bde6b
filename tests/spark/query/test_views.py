"""Views in Spark SQL: queries under a name, with the columns and the rights that tables have."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable

import adbc_driver_flightsql.dbapi as adbc
import pyarrow as pa
import pytest

import sparkport
from sparkport.catalog import (
    Call,
    Catalog,
    CreateSchemaOptions,
    CreateTableOptions,
    DropSchemaOptions,
    DropTableOptions,
    HasTableKind,
    ScanOptions,
    SqlCatalog,
    SqlStatement,
    TableKind,
)
from sparkport.errors import (
    AlreadyExistsError,
    InvalidRequestError,
    NotFoundError,
    NotImplementedByServerError,
    PermissionDeniedError,
    PreconditionError,
    SchemaNotEmptyError,
    UnsupportedOperationError,
)
from sparkport.spark.catalog.catalog import SparkCatalog
from sparkport.spark.catalog.schema import SparkSchema
from tests.access_views import view

Run = Callable[..., list[tuple[object, ...]]]

ROWS = pa.table({"n": pa.array([1, 2, 3], pa.uint32()), "text": ["a", "b", None]})


_numbers = itertools.count(1)


@pytest.fixture
def schema(catalog: SparkCatalog) -> SparkSchema:
    """Return an empty schema of the test's own."""
    return catalog.create_schema(Call(), f"views_{next(_numbers)}", CreateSchemaOptions())


@pytest.fixture
def run(catalog: SparkCatalog, schema: SparkSchema) -> Run:
    """Return what runs a statement in a schema with the table `t`, and returns its rows."""
    table = schema.create_table(Call(), "t", ROWS.schema, CreateTableOptions())
    table.insert(Call(), ROWS.to_reader())

    def statement(sql: str, lake: Catalog = catalog) -> list[tuple[object, ...]]:
        assert isinstance(lake, SqlCatalog)
        made = SqlStatement(sql, "lake", schema.name)
        described = lake.describe_sql(Call(), made, None)
        if described.arrow_schema is None:
            lake.update_sql(Call(), made, None)
            return []
        with lake.query_sql(Call(), made, None) as reader:
            rows = reader.read_all()
        assert rows.schema.types == described.arrow_schema.types
        return list(zip(*(column.to_pylist() for column in rows.columns), strict=True))

    return statement


def test_a_view_is_read_like_a_table(catalog: SparkCatalog, schema: SparkSchema, run: Run) -> None:
    """In Spark SQL and by scans, with exact types, comments, aliases, and other views inside."""
    run(
        "CREATE VIEW v (number COMMENT 'it''s one', `a b`) COMMENT 'all' AS SELECT n, upper(text) FROM t -- c"
    )
    run(f"CREATE VIEW w AS WITH t AS (SELECT 9 AS n) SELECT v.number, t.n FROM {schema.name}.v, t")
    found = schema.table(Call(), "V")
    assert found is not None
    with found.scan(Call(), ScanOptions(columns=("a b", "number"))) as reader:
        scanned = reader.read_all()

    assert run("SELECT * FROM v ORDER BY number") == [(1, "A"), (2, "B"), (3, None)]
    assert run("SELECT V.number FROM v WHERE `a b` = 'B'") == [(2,)]
    assert run("SELECT x.number FROM v x JOIN t ON x.number = t.n AND t.text = 'a'") == [(1,)]
    assert run("WITH t AS (SELECT 7 AS n) SELECT sum(number), max(t.n) FROM v, t") == [(6, 7)]
    assert sorted(run("SELECT * FROM w")) == [(1, 9), (2, 9), (3, 9)]
    assert isinstance(found, HasTableKind)
    assert found.table_kind is TableKind.VIEW
    assert found.comment == "all"
    assert found.arrow_schema is not None
    assert found.arrow_schema.types == [pa.uint32(), pa.string()]
    assert found.arrow_schema.field("number").metadata == {b"comment": b"it's one"}
    assert sorted(scanned.to_pylist(), key=str) == [
        {"number": 1, "a b": "A"},
        {"number": 2, "a b": "B"},
        {"number": 3, "a b": None},
    ]
    assert {table.name for table in schema.tables(Call())} == {"t", "v", "w"}
    assert run("SHOW VIEWS") == [(schema.name, "v", False), (schema.name, "w", False)]
    assert run("SHOW COLUMNS IN v") == [("number",), ("a b",)]
    assert run("DESCRIBE v")[0] == ("number", "uint32", "it's one")
    restarted = SparkCatalog(catalog.engine).schema(Call(), schema.name)
    assert restarted is not None
    assert restarted.table(Call(), "w") is not None


def test_a_view_keeps_its_columns(schema: SparkSchema, run: Run) -> None:
    """Columns that its tables get later are not in it; without those that it needs it says so."""
    run("CREATE VIEW v AS SELECT * FROM t")
    run("ALTER TABLE t ADD COLUMNS (more INT)")
    run("CREATE TABLE gone AS SELECT 1 AS n")
    run("CREATE VIEW of_gone AS SELECT * FROM gone")
    run("DROP TABLE gone")
    found = schema.table(Call(), "of_gone")
    assert found is not None

    assert sorted(run("SELECT * FROM v"), key=str) == [(1, "a"), (2, "b"), (3, None)]
    with pytest.raises(PreconditionError, match=r"view '.*of_gone' cannot be read: table '.*gone' not found"):
        run("SELECT * FROM of_gone")
    with pytest.raises(PreconditionError, match="gone' not found"):
        found.scan(Call(), ScanOptions())
    run("ALTER TABLE t DROP COLUMN text")
    with pytest.raises(NotFoundError, match="text"):
        run("SELECT * FROM v")


def test_views_are_replaced_renamed_and_dropped(catalog: SparkCatalog, schema: SparkSchema, run: Run) -> None:
    """By CREATE OR REPLACE, ALTER and DROP; clients learn of each by the version of the catalog."""
    versions = [catalog.catalog_version(Call()).version]
    for sql in (
        "CREATE VIEW IF NOT EXISTS v COMMENT 'kept' AS SELECT 1 AS one",
        "CREATE OR REPLACE VIEW v COMMENT 'kept' AS SELECT 2 AS two, 3 AS three",
        "ALTER VIEW v AS SELECT 4 AS four",
        "ALTER VIEW v RENAME TO `an other`",
    ):
        run(sql)
        versions.append(catalog.catalog_version(Call()).version)
    run("CREATE VIEW IF NOT EXISTS `AN OTHER` AS SELECT 5 AS five")
    ((text,),) = run("SHOW CREATE TABLE `an other`")

    assert versions == sorted(set(versions))
    assert run("SELECT * FROM `an other`") == [(4,)]
    assert str(text).endswith(".`an other` (`four`) COMMENT 'kept' AS\nSELECT 4 AS four")
    with pytest.raises(NotFoundError):
        run("SELECT * FROM v")
    with pytest.raises(AlreadyExistsError, match="view"):
        run("CREATE TABLE `an other` (a INT)")
    with pytest.raises(AlreadyExistsError, match="table"):
        run("CREATE OR REPLACE VIEW t AS SELECT 1 AS one")
    with pytest.raises(AlreadyExistsError):
        run("CREATE VIEW `an other` AS SELECT 1 AS one")
    with pytest.raises(AlreadyExistsError, match="view"):
        run("ALTER TABLE t RENAME TO `An Other`")
    with pytest.raises(SchemaNotEmptyError):
        catalog.drop_schema(Call(), schema.name, DropSchemaOptions())
    with pytest.raises(UnsupportedOperationError, match="DROP VIEW"):
        schema.drop_table(Call(), "an other", DropTableOptions())
    run("DROP VIEW `an other`")
    run("DROP VIEW IF EXISTS `an other`")
    with pytest.raises(NotFoundError):
        run("DROP VIEW `an other`")
    assert [table.name for table in schema.tables(Call())] == ["t"]


_REFUSED: tuple[tuple[str, type[Exception], str], ...] = (
    ("CREATE VIEW v AS SELECT 1 AS a, 2 AS A", InvalidRequestError, "two columns named"),
    ("CREATE VIEW v (a) AS SELECT 1, 2", InvalidRequestError, "names 1 columns"),
    ("CREATE VIEW v AS SELECT n FROM t WHERE n = ?", PreconditionError, "Parameter markers"),
    ("ALTER VIEW u AS SELECT n FROM t WHERE n = ?", InvalidRequestError, "no parameters"),
    ("CREATE VIEW v AS SELECT * FROM missing", NotFoundError, "missing"),
    ("CREATE VIEW v AS SELECT reflect('java.lang.System', 'exit')", PermissionDeniedError, "reflect"),
    ("CREATE VIEW v AS DELETE FROM t", InvalidRequestError, "DELETE"),
    ("CREATE OR REPLACE VIEW u AS SELECT * FROM u", InvalidRequestError, "read itself"),
    ("ALTER VIEW u AS SELECT * FROM over_u", InvalidRequestError, "read itself"),
    ("CREATE TEMPORARY VIEW v AS SELECT 1 AS a", NotImplementedByServerError, "temporary"),
    ("CREATE VIEW v TBLPROPERTIES ('a' = 'b') AS SELECT 1 AS a", NotImplementedByServerError, "TBLPROP"),
    ("ALTER VIEW u SET TBLPROPERTIES ('a' = 'b')", NotImplementedByServerError, "RENAME TO"),
    ("ALTER VIEW t AS SELECT 1 AS a", UnsupportedOperationError, "for views"),
    ("DROP VIEW t", UnsupportedOperationError, "for views"),
    ("SELECT * FROM u VERSION AS OF 0", InvalidRequestError, "time travel"),
    ("TABLE u", InvalidRequestError, "SELECT"),
    ("INSERT INTO u VALUES (1)", UnsupportedOperationError, "view"),
    ("UPDATE u SET n = 1", UnsupportedOperationError, "view"),
    ("ALTER TABLE u ADD COLUMNS (x INT)", UnsupportedOperationError, "view"),
    ("SHOW TBLPROPERTIES u", UnsupportedOperationError, "view"),
)


def test_what_a_view_cannot_be_is_refused(schema: SparkSchema, run: Run) -> None:
    """Nothing is left of it."""
    run("CREATE VIEW u AS SELECT n FROM t")
    run("CREATE VIEW over_u AS SELECT * FROM u")
    for sql, error, words in _REFUSED:
        with pytest.raises(error, match=words):
            run(sql)

    assert {table.name for table in schema.tables(Call())} == {"t", "u", "over_u"}
    assert len(run("SELECT * FROM over_u")) == 3


def test_a_view_shows_nobody_more_than_its_tables(
    catalog: SparkCatalog, schema: SparkSchema, run: Run
) -> None:
    """It is read with the rights of who reads it, in SQL and by scans, and made with those of its maker."""
    run("CREATE VIEW v AS SELECT text FROM t")
    run("CREATE VIEW over_v AS SELECT * FROM v")
    path = f"lake.{schema.name}"
    both = view(catalog, _SQL + _grant("select", f"{path}.v", f"{path}.t"))
    only_view = view(catalog, _SQL + _grant("select create drop", f"{path}.v", f"{path}.over_v"))
    mask = f"""[[mask]]\nfor = "*"\ncolumns = "{path}.v.text"\nvalue = "'hidden'"\n"""
    masked = view(catalog, _SQL + _grant("select", f"{path}.*") + mask)
    row_filter = f"""[[filter]]\nfor = "*"\ntables = "{path}.t"\nrows = "n > 1"\n"""
    filtered = view(catalog, _SQL + _grant("select", f"{path}.*") + row_filter)

    assert len(run("SELECT * FROM v", both)) == 3
    assert len(_scanned(both, schema.name, "v")) == 3
    for name in ("v", "over_v"):
        assert sorted(run(f"SELECT * FROM {name}", filtered), key=str) == [("b",), (None,)]
        assert len(_scanned(filtered, schema.name, name)) == 2
        with pytest.raises((PermissionDeniedError, PreconditionError)):
            run(f"SELECT * FROM {name}", only_view)
        with pytest.raises((PermissionDeniedError, PreconditionError)):
            _scanned(only_view, schema.name, name)
    for sql in ("SELECT * FROM v", "SELECT * FROM over_v"):
        with pytest.raises(PermissionDeniedError):
            run(sql, masked)
    with pytest.raises(PermissionDeniedError):
        _scanned(masked, schema.name, "v")
    with pytest.raises((PermissionDeniedError, NotFoundError)):
        run("CREATE OR REPLACE VIEW v AS SELECT n FROM t", only_view)
    with pytest.raises(PermissionDeniedError):
        run("DROP VIEW v", both)
    with pytest.raises(PermissionDeniedError):
        run("CREATE VIEW new AS SELECT 1 AS a", both)
    assert len(run("SELECT * FROM v")) == 3


def test_drivers_see_views(catalog: SparkCatalog, schema: SparkSchema, run: Run) -> None:
    """GetTables lists them as VIEW with their columns, and a transaction reads its own rows through them."""
    run("CREATE VIEW v AS SELECT count(*) AS rows FROM t")
    with (
        sparkport.Server({"lake": catalog}, port=0, token="t", default_catalog="lake") as server,
        adbc.connect(
            server.location.replace("grpc://", "grpc+tcp://"), db_kwargs={"username": "u", "password": "t"}
        ) as connection,
    ):
        objects = connection.adbc_get_objects(
            depth="tables", db_schema_filter=schema.name, table_types_filter=["VIEW"]
        ).read_all()
        with connection.cursor() as cursor:
            cursor.execute(f"INSERT INTO {schema.name}.t VALUES (4, 'd')")
            cursor.execute(f"SELECT * FROM {schema.name}.v")
            within = cursor.fetchall()
        connection.rollback()
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {schema.name}.v")
            after = cursor.fetchall()

    schemas = objects.to_pylist()[0]["catalog_db_schemas"]
    (listed,) = (each for each in schemas if each["db_schema_name"] == schema.name)
    assert [(table["table_name"], table["table_type"]) for table in listed["db_schema_tables"]] == [
        ("v", "VIEW")
    ]
    assert (within, after) == ([(4,)], [(3,)])


_SQL = """
[[grant]]
to = "*"
allow = "sql"
catalogs = "lake"
"""


def _grant(allow: str, *tables: str) -> str:
    return f"""
[[grant]]
to = "*"
allow = {json.dumps(allow.split())}
tables = {json.dumps(tables)}

"""


def _scanned(seen: Catalog, schema: str, name: str) -> pa.Table:
    within = seen.schema(Call(), schema)
    assert within is not None
    found = within.table(Call(), name)
    assert found is not None
    with found.scan(Call(), ScanOptions()) as reader:
        return reader.read_all()
