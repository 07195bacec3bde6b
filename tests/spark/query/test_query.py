"""What the function `query` runs, and what it refuses."""

from __future__ import annotations

import uuid
from decimal import Decimal

import pyarrow as pa
import pytest

from sparkport.catalog import Call, CreateTableOptions, DropTableOptions
from sparkport.catalog.functions import UnlistedFunction
from sparkport.errors import (
    InvalidRequestError,
    NotFoundError,
    PermissionDeniedError,
    PreconditionError,
    SparkportError,
)
from sparkport.spark.catalog.catalog import SparkCatalog
from sparkport.spark.catalog.schema import SparkSchema
from sparkport.spark.functions.catalog_functions import FunctionFlags
from tests.spark.functions.calling import columns, rows, table

IDS = [uuid.UUID(int=1), uuid.UUID(int=2)]


@pytest.fixture(scope="module", autouse=True)
def things(schema: SparkSchema) -> str:
    """Make a table with types that Spark does not have."""
    rows = pa.table({"n": pa.array([1, 2], pa.uint64()), "id": pa.array(IDS, pa.uuid()), "t": ["x", "y"]})
    made = schema.create_table(Call(), "Things", rows.schema, CreateTableOptions())
    made.insert(Call(), rows.to_reader())
    schema.create_table(Call(), "odd-name", rows.schema, CreateTableOptions())
    return f"{schema.name}.Things"


ALLOWED = [
    "SELECT t FROM {s}.Things WHERE n = 1",
    "SELECT t FROM spark_catalog.{s}.things WHERE things.n = 1",
    "SELECT t FROM {s}.things VERSION AS OF 1 WHERE n = 1;",
    "WITH a AS (SELECT * FROM {s}.things) SELECT t FROM a WHERE n = (SELECT min(n) FROM a)",
    "SELECT t FROM {s}.things x WHERE EXISTS (WITH y AS (SELECT 1 AS one) SELECT 1 FROM y WHERE one = x.n)",
    "SELECT first_value(t) OVER w AS t FROM {s}.things WINDOW w AS (ORDER BY n) LIMIT 1",
    "SELECT /*+ BROADCAST(things) */ t FROM {s}.things ORDER BY n LIMIT 1",
    "SELECT c AS t FROM {s}.things LATERAL VIEW explode(array('x')) e AS c WHERE n = 1",
    "SELECT u.t FROM {s}.things, LATERAL (SELECT t) u WHERE n = 1",
    "SELECT t FROM (SELECT 'x' AS t UNION ALL SELECT t FROM {s}.things WHERE n > 5)",
    "SELECT t FROM VALUES ('x') AS v(t)",
    "SELECT if(id = 0, 'x', 'y') AS t FROM range(1)",
    "FROM {s}.things |> WHERE n = 1 |> SELECT t",
    "SELECT upper(lower('X')) || '' AS T",
    "SELECT 'x' AS t, '${{env:HOME}}' AS kept",
    "SELECT t FROM {s}.things GROUP BY GROUPING SETS ((t)) HAVING t = 'x'",
    "SELECT transform(array('x'), v -> v)[0] AS t",
]

NO_QUERY = [
    "SET spark.sql.ansi.enabled = false",
    "RESET",
    "ADD JAR '/tmp/a.jar'",
    "ADD FILE '/etc/passwd'",
    "INSERT INTO {s}.things SELECT * FROM {s}.things",
    "INSERT OVERWRITE DIRECTORY '/tmp/out' USING csv SELECT 1",
    "CREATE TABLE x AS SELECT 1 AS a",
    "CREATE TEMPORARY VIEW v AS SELECT 1 AS a",
    "CREATE TEMPORARY FUNCTION f AS 'a.B' USING JAR '/tmp/a.jar'",
    "CREATE FUNCTION f() RETURNS INT RETURN 1",
    "DECLARE VARIABLE v INT DEFAULT 1",
    "DROP TABLE {s}.things",
    "DELETE FROM {s}.things",
    "VACUUM {s}.things",
    "DESCRIBE HISTORY {s}.things",
    "SHOW TABLES",
    "EXPLAIN SELECT 1",
    "CACHE TABLE {s}.things",
    "REFRESH TABLE {s}.things",
    "USE {s}",
    "CALL system.f()",
    "EXECUTE IMMEDIATE 'SELECT 1'",
    "BEGIN SELECT 1; END",
    "FROM {s}.things INSERT INTO {s}.things SELECT *",
    "SELECT TRANSFORM(t) USING 'cat /etc/passwd' AS (t STRING) FROM {s}.things",
    "SELECT 1; SELECT 2",
    "SELECT",
    "",
]

NOT_ALLOWED = [
    "SELECT reflect('java.lang.System', 'getProperty', 'user.home')",
    "SELECT java_method('java.lang.System', 'exit', 1)",
    "SELECT try_reflect('java.lang.System', 'exit', 1)",
    "SELECT system.builtin.reflect('java.lang.System', 'exit', 1)",
    "SELECT * FROM VALUES (reflect('java.lang.System', 'exit', 1))",
    "SELECT 1 WHERE 1 IN (SELECT reflect('java.lang.System', 'exit', 1))",
    "WITH a AS (SELECT reflect('java.lang.System', 'exit', 1)) SELECT 1 AS one",
    "SELECT CASE WHEN true THEN 1 ELSE reflect('java.lang.System', 'exit', 1) END",
    "SELECT sum(n) OVER w FROM {s}.things WINDOW w AS (ORDER BY reflect('java.lang.System', 'exit', 1))",
    "SELECT * FROM {s}.things LATERAL VIEW explode(array(reflect('java.lang.System', 'exit', 1))) e",
    "SELECT * FROM {s}.things TIMESTAMP AS OF reflect('java.lang.System', 'exit', 1)",
    "SELECT /*+ REPARTITION(reflect('java.lang.System', 'exit', 1)) */ 1",
    "SELECT * FROM {s}.things PIVOT (max(reflect('java.lang.System', 'exit', 1)) FOR t IN ('x'))",
    "SELECT * EXCEPT (n) FROM {s}.things ORDER BY reflect('java.lang.System', 'exit', 1)",
    "SELECT * FROM range(reflect('java.lang.System', 'exit', 1))",
    "SELECT transform(array(1), x -> reflect('java.lang.System', 'exit', 1))",
    "SELECT 1 LIMIT reflect('java.lang.System', 'exit', 1)",
    "SELECT IDENTIFIER('re' || 'flect')('java.lang.System', 'exit', 1)",
    "SELECT * FROM IDENTIFIER('{s}.things')",
    "SELECT from_protobuf(t, 'a', '/etc/passwd') FROM {s}.things",
    "SELECT from_avro(t, '\"string\"') FROM {s}.things",
    "SELECT * FROM table_changes_by_path('/tmp/x', 0)",
    "SELECT * FROM table_changes('{s}.things', 0)",
    "SELECT * FROM STREAM {s}.things",
    "SELECT * FROM {s}.things WITH (`fs.s3a.endpoint` = 'http://evil')",
    "SELECT input_file_name() FROM {s}.things",
    "SELECT _metadata.file_path FROM {s}.things",
    "SELECT t FROM {s}.things WHERE _metadata.file_name LIKE 'a%'",
    "SELECT t.x FROM (SELECT _metadata AS x FROM {s}.things) t",
    "SELECT current_user()",
    "SELECT current_user",
    "SELECT session_user()",
]

NOT_FOUND = [
    "SELECT * FROM text.`/etc/passwd`",
    "SELECT * FROM csv.`file:///etc/passwd`",
    "SELECT * FROM delta.`/tmp`",
    "SELECT * FROM parquet.`s3a://bucket/key`",
    "SELECT * FROM binaryFile.`/etc`",
    "SELECT * FROM jdbc.`x`",
    "SELECT (SELECT max(value) FROM text.`/etc/passwd`) AS v",
    "WITH a AS (SELECT * FROM json.`/etc/passwd`) SELECT * FROM a",
    "SELECT * FROM other_catalog.{s}.things",
    "SELECT * FROM global_temp.things",
    "SELECT * FROM {s}.thing",
    "SELECT * FROM things",
    "TABLE {s}.`things, x`",
]


@pytest.mark.parametrize("sql", ALLOWED)
def test_queries_run(catalog: SparkCatalog, schema: SparkSchema, sql: str) -> None:
    """All that reads tables of the warehouse, by schema and name, is Spark's to answer."""
    found = rows(catalog, "query", sql.format(s=schema.name))

    assert [str(next(iter(row.values()))).lower() for row in found] == ["x"]
    assert found[0].get("kept", "${env:HOME}") == "${env:HOME}"


@pytest.mark.parametrize(
    ("sql", "error"),
    [
        *((sql, InvalidRequestError) for sql in NO_QUERY),
        *((sql, PermissionDeniedError) for sql in NOT_ALLOWED),
        *((sql, NotFoundError) for sql in NOT_FOUND),
    ],
)
def test_all_else_is_refused(
    catalog: SparkCatalog, schema: SparkSchema, sql: str, error: type[SparkportError]
) -> None:
    """Other statements, other files and ways out of SQL are refused before anything runs."""
    with pytest.raises(error) as raised:
        columns(catalog, "query", sql.format(s=schema.name))

    assert "org.apache" not in str(raised.value)
    assert str(catalog.engine.warehouse.root) not in str(raised.value)


def test_columns_that_are_passed_on_keep_their_types(catalog: SparkCatalog, things: str) -> None:
    """What is computed has Spark's type; the row id stays hidden in a *."""
    found = table(
        catalog, "query", f"SELECT *, n + 1 AS more, max(id) OVER () AS last FROM {things} ORDER BY n"
    )

    assert found.schema.names == ["n", "id", "t", "more", "last"]
    assert [field.type for field in found.schema][:3] == [pa.uint64(), pa.uuid(), pa.string()]
    assert found["id"].to_pylist() == IDS
    assert found["more"].to_pylist() == [Decimal(2), Decimal(3)]
    assert found["last"].to_pylist() == [str(IDS[1])] * 2


def test_a_new_table_under_an_old_name_is_read(catalog: SparkCatalog, schema: SparkSchema) -> None:
    """A query reads what is there now, also where a table was dropped and another made."""
    name = f"{schema.name}.coming"
    for column in ("a", "b"):
        made = schema.create_table(Call(), "coming", pa.schema([(column, pa.int64())]), CreateTableOptions())
        made.insert(Call(), pa.table({column: [1]}).to_reader())
        assert rows(catalog, "query", f"SELECT * FROM {name}") == [{column: 1}]
        schema.drop_table(Call(), "coming", DropTableOptions())
        with pytest.raises(NotFoundError):
            columns(catalog, "query", f"SELECT * FROM {name}")


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT 1 AS a, 2 AS A", "two columns named 'A'"),
        ("SELECT _sparkport_rowid FROM {s}.things", "no columns that can be shown"),
        ("SELECT nothing FROM {s}.things", "nothing"),
        ("SELECT :p FROM {s}.things", "NamedParameter"),
    ],
)
def test_a_query_that_cannot_be_shown_is_explained(
    catalog: SparkCatalog, schema: SparkSchema, sql: str, message: str
) -> None:
    """Columns are known before the query runs, and each by one name."""
    with pytest.raises(SparkportError, match=message):
        columns(catalog, "query", sql.format(s=schema.name))


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("array()", "[]"),
        ("map()", "{}"),
        ("array(map())", "[{}]"),
        ("struct(array() AS a, 1 AS b)", "{[], 1}"),
        ("map('k', array())", "{k -> []}"),
        ("array(interval 3 month)", "[INTERVAL '3' MONTH]"),
        ("struct(interval 14 month AS m)", "{INTERVAL '14' MONTH}"),
    ],
)
def test_what_arrow_has_no_values_for_is_text(catalog: SparkCatalog, value: str, shown: str) -> None:
    """Lists of nothing in particular, and months inside of others, come as Spark writes them."""
    assert rows(catalog, "query", f"SELECT {value} AS v") == [{"v": shown}]


def test_an_error_of_the_running_query_is_sparks(catalog: SparkCatalog) -> None:
    """What only running it brings out has a code and a sentence too."""
    with pytest.raises(InvalidRequestError, match=r"[Dd]ivision by zero"):
        rows(catalog, "query", "SELECT 1 / id AS a FROM range(1)")


def test_the_session_of_the_tables_is_left_alone(
    catalog: SparkCatalog, schema: SparkSchema, things: str
) -> None:
    """Queries have a catalog of their own: no name of theirs is known to the rest of the server."""
    session = catalog.engine.host.session(Call())
    before = session.sql("SHOW DATABASES").collect()
    rows(catalog, "query", f"SELECT t FROM {things}")
    after = session.sql("SHOW DATABASES").collect()

    assert after == before
    assert schema.name not in [row[0] for row in after]


def test_query_can_be_switched_off(catalog: SparkCatalog) -> None:
    """It is not listed then, and a call says why; without functions there is no schema."""
    off = SparkCatalog(catalog.engine, FunctionFlags(query=False))
    hidden = next(one for one in off.functions if one.name == "query")

    assert isinstance(hidden, UnlistedFunction)
    with pytest.raises(PreconditionError, match="--no-sql"):
        columns(off, "query", "SELECT 1")
    assert SparkCatalog(catalog.engine).schema(Call(), "sparkport") is None
