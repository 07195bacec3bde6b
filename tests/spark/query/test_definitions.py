"""DDL, SHOW and DESCRIBE in Spark SQL: what they make is like what other clients make."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from sparkport.catalog import Call, SqlStatement
from sparkport.catalog.tables import TableConstraints
from sparkport.errors import (
    AlreadyExistsError,
    ConstraintViolationError,
    InvalidRequestError,
    NotFoundError,
    NotImplementedByServerError,
    SparkportError,
)
from sparkport.spark.catalog.catalog import SparkCatalog
from sparkport.spark.catalog.schema import SparkSchema

Run = Callable[[str], int]


@pytest.fixture
def run(catalog: SparkCatalog) -> Run:
    """Return what runs a statement without rows."""

    def definition(sql: str) -> int:
        statement = SqlStatement(sql, "lake")
        assert catalog.describe_sql(Call(), statement, None).arrow_schema is None
        return catalog.update_sql(Call(), statement, None)

    return definition


def _rows(catalog: SparkCatalog, sql: str) -> list[tuple[object, ...]]:
    statement = SqlStatement(sql, "lake")
    columns = catalog.describe_sql(Call(), statement, None).arrow_schema
    with catalog.query_sql(Call(), statement, None) as reader:
        table = reader.read_all()
    assert table.schema.equals(columns)
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def test_a_created_table_has_all_that_was_declared(
    catalog: SparkCatalog, schema: SparkSchema, run: Run
) -> None:
    """Types, NOT NULL, DEFAULT, comments and constraints of CREATE TABLE hold, and DESCRIBE tells them."""
    name = f"{schema.name}.declared"
    run(
        f"CREATE TABLE {name} (id INT NOT NULL COMMENT 'the key', price DECIMAL(9, 2) DEFAULT 1.5,"
        " `a b` STRING, at TIMESTAMP, CHECK (price >= 0), PRIMARY KEY (id)) COMMENT 'things'"
    )
    run(f"CREATE TABLE IF NOT EXISTS {name} (x INT)")
    with pytest.raises(AlreadyExistsError):
        run(f"CREATE TABLE {name} (x INT)")
    assert run(f"INSERT INTO {name} (id) VALUES (1)") == 1
    for broken in ("(1, 1)", "(2, -1)", "(NULL, 1)"):
        with pytest.raises(ConstraintViolationError):
            run(f"INSERT INTO {name} (id, price) VALUES {broken}")
    table = schema.delta_table(Call(), "declared")

    assert table is not None
    assert table.arrow_schema.types[:4] == [
        pa.int32(),
        pa.decimal128(9, 2),
        pa.string(),
        pa.timestamp("us", "UTC"),
    ]
    assert len(table.arrow_schema) == 5  # the row id
    assert isinstance(table.constraints, TableConstraints)
    assert table.constraints.primary_key == ("id",)
    assert _rows(catalog, f"SELECT id, CAST(price AS STRING) AS p FROM {name}") == [(1, "1.50")]
    described = _rows(catalog, f"DESCRIBE TABLE {name}")
    assert described[0] == ("id", "int32 not null", "the key")
    assert described[1][1] == "decimal128(9, 2) default 1.5"
    assert ("# Comment", "things", None) in described
    assert ("# Primary Key", "id", None) in described
    assert any(row[0] == "# Check" for row in described)


def test_tables_are_altered_listed_and_dropped(catalog: SparkCatalog, schema: SparkSchema, run: Run) -> None:
    """ALTER TABLE adds, renames, retypes and drops columns; CREATE TABLE AS counts its rows."""
    name = f"{schema.name}.altered"
    assert run(f"CREATE TABLE {name} COMMENT 'x' AS SELECT 1 AS a, 'b' AS b UNION ALL SELECT 2, 'c'") == 2
    for change in (
        "ADD COLUMNS (c INT DEFAULT 7)",
        "RENAME COLUMN b TO d",
        "ALTER COLUMN a TYPE BIGINT",
        "ALTER COLUMN a SET NOT NULL",
        "ALTER COLUMN d SET DEFAULT 'new'",
        "DROP COLUMN c",
        "ADD CONSTRAINT positive CHECK (a > 0)",
        "RENAME TO renamed",
    ):
        run(f"ALTER TABLE {name} {change}" if "." not in change else change)
    name = f"{schema.name}.renamed"
    run(f"INSERT INTO {name} (a) VALUES (3)")
    with pytest.raises(ConstraintViolationError):
        run(f"UPDATE {name} SET a = -a")
    run(f"OPTIMIZE {name}")
    run(f"VACUUM {name} RETAIN 200 HOURS")

    assert _rows(catalog, f"SELECT * FROM {name} ORDER BY a") == [(1, "b"), (2, "c"), (3, "new")]
    assert _rows(catalog, f"SELECT * FROM {name} VERSION AS OF 1 ORDER BY a") == [(1, "b"), (2, "c")]
    assert _rows(catalog, f"SHOW COLUMNS IN {name}") == [("a",), ("d",)]
    assert (schema.name, "renamed", False) in _rows(catalog, f"SHOW TABLES IN {schema.name}")
    assert _rows(catalog, f"SHOW TABLES IN {schema.name} LIKE 'RENA*'") == [(schema.name, "renamed", False)]
    run(f"DROP TABLE {name}")
    run(f"DROP TABLE IF EXISTS {name}")
    with pytest.raises(NotFoundError):
        run(f"DROP TABLE {name}")


def test_a_table_is_made_again_from_its_own_statement(
    catalog: SparkCatalog, schema: SparkSchema, run: Run
) -> None:
    """SHOW CREATE TABLE tells columns, constraints, comments and partitions in SQL that this server takes."""
    name = f"{schema.name}.`the original`"
    run(
        f"CREATE TABLE {name} (id BIGINT NOT NULL COMMENT 'it''s the key', price DECIMAL(9, 2) DEFAULT 1.5,"
        " `a``b` STRUCT<x: INT, `y z`: ARRAY<MAP<STRING, DATE>>>, day DATE, CHECK (price >= 0),"
        " PRIMARY KEY (id), UNIQUE (price, day)) PARTITIONED BY (day) COMMENT 'what\\'s \"in\" it'"
    )
    ((text,),) = _rows(catalog, f"SHOW CREATE TABLE {name}")
    run(str(text).replace("the original", "the copy"))
    original, copy = schema.delta_table(Call(), "the original"), schema.delta_table(Call(), "the copy")

    assert original is not None
    assert copy is not None
    assert copy.arrow_schema.equals(original.arrow_schema, check_metadata=True)
    assert copy.constraints == original.constraints
    assert copy.comment == original.comment == 'what\'s "in" it'
    assert copy.versions.header().metadata.partition_columns == ("day",)


def test_tables_tell_what_they_are(catalog: SparkCatalog, schema: SparkSchema, run: Run) -> None:
    """Properties, single columns, the columns of queries, history and details are rows."""
    name = f"{schema.name}.telling"
    run(f"CREATE TABLE {name} (a INT NOT NULL COMMENT 'first', b STRING)")
    key = "delta.columnMapping.mode"

    assert (key, "name") in _rows(catalog, f"SHOW TBLPROPERTIES {name}")
    assert _rows(catalog, f"SHOW TBLPROPERTIES {name} ({key})") == [(key, "name")]
    assert _rows(catalog, f"SHOW TBLPROPERTIES {name} ('{key}')") == [(key, "name")]
    with pytest.raises(NotFoundError, match="columnMapping"):
        _rows(catalog, f"SHOW TBLPROPERTIES {name} (delta.columnMapping.mod)")
    assert _rows(catalog, f"DESCRIBE {name} A") == [
        ("col_name", "a"),
        ("data_type", "int32 not null"),
        ("comment", "first"),
    ]
    with pytest.raises(NotFoundError, match="'c'"):
        _rows(catalog, f"DESCRIBE {name} c")
    assert _rows(catalog, f"DESCRIBE QUERY SELECT a, b || 'x' AS c FROM {name}") == [
        ("a", "int32", None),
        ("c", "string", None),
    ]
    assert [row[4] for row in _rows(catalog, f"DESCRIBE HISTORY {name}")] == ["CREATE TABLE"]
    assert _rows(catalog, f"DESCRIBE DETAIL {name}")[0][2] == name
    assert _rows(catalog, "SHOW CURRENT NAMESPACE") == [("lake", "default")]


def test_comments_are_changed(catalog: SparkCatalog, schema: SparkSchema, run: Run) -> None:
    """COMMENT ON TABLE and ALTER COLUMN COMMENT change what DESCRIBE shows, and nothing else."""
    name = f"{schema.name}.commented"
    run(f"CREATE TABLE {name} (a INT COMMENT 'old' DEFAULT 3) COMMENT 'before'")
    run(f"INSERT INTO {name} VALUES (1), (DEFAULT), (5)")
    run(f"COMMENT ON TABLE {name} IS 'it''s new'")
    run(f"ALTER TABLE {name} ALTER COLUMN a COMMENT 'newer'")

    assert _rows(catalog, f"DESCRIBE {name}")[0] == ("a", "int32 default 3", "newer")
    assert ("# Comment", "it's new", None) in _rows(catalog, f"DESCRIBE {name}")
    assert sorted(_rows(catalog, f"SELECT a FROM {name}")) == [(1,), (3,), (5,)]


def test_a_partitioned_table_is_like_others(catalog: SparkCatalog, schema: SparkSchema, run: Run) -> None:
    """Rows are inserted, changed, moved to another partition and read as everywhere."""
    name = f"{schema.name}.partitioned"
    run(f"CREATE TABLE {name} (a INT PRIMARY KEY, day DATE, `p q` STRING) PARTITIONED BY (day, `P Q`)")
    run(
        f"INSERT INTO {name} VALUES (1, DATE '2024-01-01', 'x'), (2, DATE '2024-01-02', NULL), (3, NULL, 'y')"
    )
    run(f"UPDATE {name} SET day = DATE '2024-01-02' WHERE a = 1")
    run(f"DELETE FROM {name} WHERE `p q` = 'y'")
    with pytest.raises(ConstraintViolationError):
        run(f"INSERT INTO {name} VALUES (1, NULL, NULL)")
    copied = run(f"CREATE TABLE {name}_2 PARTITIONED BY (day) AS SELECT a, day FROM {name}")
    table = schema.delta_table(Call(), "partitioned")

    assert table is not None
    assert table.versions.header().metadata.partition_columns == ("day", "p q")
    assert copied == 2
    found = _rows(catalog, f"SELECT a, `p q` FROM {name} WHERE day = DATE '2024-01-02'")
    assert sorted(found, key=str) == [(1, "x"), (2, None)]


def test_a_table_is_replaced_by_a_query(catalog: SparkCatalog, schema: SparkSchema, run: Run) -> None:
    """CREATE OR REPLACE TABLE AS may read the table that it replaces; if it fails, that one stays."""
    name = f"{schema.name}.replaced"
    assert run(f"CREATE OR REPLACE TABLE {name} AS SELECT 1 AS a") == 1
    assert run(f"CREATE OR REPLACE TABLE {name} AS SELECT a + 1 AS b FROM {name} UNION ALL SELECT 5") == 2
    with pytest.raises(InvalidRequestError):
        run(f"CREATE OR REPLACE TABLE {name} AS SELECT 1 / (b - b) AS c FROM {name}")

    assert sorted(_rows(catalog, f"SELECT b FROM {name}")) == [(2,), (5,)]
    assert [row[1] for row in _rows(catalog, f"SHOW TABLES IN {schema.name} LIKE 'replaced*'")] == [
        "replaced"
    ]


def test_schemas_are_created_and_dropped(catalog: SparkCatalog, run: Run) -> None:
    """CREATE and DROP SCHEMA are the catalog's own; CASCADE drops the tables too."""
    run("CREATE SCHEMA made_by_sql")
    run("CREATE SCHEMA IF NOT EXISTS made_by_sql")
    run("CREATE TABLE made_by_sql.t (a INT)")
    assert ("made_by_sql",) in _rows(catalog, "SHOW SCHEMAS LIKE 'made*'")
    with pytest.raises(SparkportError):
        run("DROP SCHEMA made_by_sql")
    run("DROP SCHEMA made_by_sql CASCADE")

    assert _rows(catalog, "SHOW DATABASES LIKE 'made_by_sql'") == []


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE {0}.refused (a INT) LOCATION '/tmp/x'",
        "CREATE TABLE {0}.refused USING parquet AS SELECT 1 AS a",
        "CREATE TABLE {0}.refused (a INT) TBLPROPERTIES ('delta.appendOnly' = 'true')",
        "CREATE TABLE {0}.refused (a INT) PARTITIONED BY (a)",
        "CREATE TABLE {0}.refused (a INT, b INT) PARTITIONED BY (c)",
        "CREATE TABLE {0}.refused (a INT, b TIMESTAMP) PARTITIONED BY (days(b))",
        "CREATE TABLE {0}.refused (a INT, b ARRAY<INT>) PARTITIONED BY (b)",
        "CREATE TABLE {0}.refused (a INT) PARTITIONED BY (b INT)",
        "CREATE TABLE {0}.refused (a INT, b INT) CLUSTER BY (c)",
        "CREATE TABLE {0}.refused (a INT, b INT) CLUSTER BY (a, a)",
        "CREATE TABLE {0}.refused (a INT, b INT, c INT) PARTITIONED BY (a) CLUSTER BY (b)",
        "CREATE TABLE {0}.refused (a INT, b INT GENERATED ALWAYS AS (a + 1))",
        "CREATE OR REPLACE TABLE {0}.refused AS SELECT 1 / 0 AS a",
        "CREATE VIEW {0}.refused TBLPROPERTIES ('a' = 'b') AS SELECT 1 AS a",
        "CREATE TEMPORARY VIEW refused AS SELECT 1 AS a",
        "CREATE FUNCTION {0}.refused AS 'java.lang.String'",
        "DROP VIEW {0}.refused",
        "ALTER TABLE {0}.refused SET TBLPROPERTIES ('a' = 'b')",
        "ALTER TABLE {0}.refused SET LOCATION '/tmp/x'",
        "USE {0}",
        "SET spark.sql.ansi.enabled = false",
        "SET TIME ZONE INTERVAL 1 HOUR",
        "SHOW CREATE TABLE {0}.refused",
        "DESCRIBE DETAIL {0}.refused",
        "ADD JAR '/tmp/x.jar'",
        "LOAD DATA INPATH '/etc/passwd' INTO TABLE {0}.refused",
        "CACHE TABLE {0}.refused",
        "COMMENT ON SCHEMA {0} IS 'x'",
        "RESET",
        "CREATE TABLE {0}.refused (a INT); SELECT 1",
        "CREATE TABEL {0}.refused (a INT)",
    ],
)
def test_what_is_not_offered_is_refused(catalog: SparkCatalog, schema: SparkSchema, sql: str) -> None:
    """Whatever names files, settings, classes or what the catalog cannot keep has no effect."""
    statement = SqlStatement(sql.format(schema.name), "lake")
    with pytest.raises((NotImplementedByServerError, InvalidRequestError, NotFoundError)):
        catalog.update_sql(Call(), statement, None)

    assert schema.delta_table(Call(), "refused") is None


def test_a_clustered_table_is_like_others(catalog: SparkCatalog, schema: SparkSchema, run: Run) -> None:
    """CLUSTER BY is liquid clustering of Delta: rows are inserted, changed and read as everywhere."""
    name = f"{schema.name}.clustered"
    run(f"CREATE TABLE {name} (a INT PRIMARY KEY, `b c` STRING) CLUSTER BY (`B C`, a)")
    run(f"INSERT INTO {name} VALUES (1, 'x'), (2, 'y'), (3, NULL)")
    run(f"UPDATE {name} SET `b c` = 'z' WHERE a = 1")
    run(f"DELETE FROM {name} WHERE a = 2")
    run(f"OPTIMIZE {name}")
    copied = run(f"CREATE TABLE {name}_2 CLUSTER BY (a) AS SELECT a FROM {name}")
    table = schema.delta_table(Call(), "clustered")

    assert table is not None
    assert "clustering" in table.versions.header().protocol.writer_features
    assert sorted(_rows(catalog, f"SELECT * FROM {name}"), key=str) == [(1, "z"), (3, None)]
    assert copied == 2
    with pytest.raises(ConstraintViolationError):
        run(f"INSERT INTO {name} VALUES (1, 'again')")
