"""Functions of tables and Spark SQL keep what a caller may not see or do, whatever names they are given."""

from __future__ import annotations

from typing import Any, cast

import pyarrow as pa
import pytest

from sparkport.catalog import (
    Call,
    CreateTableOptions,
    DynamicCatalog,
    ScanOptions,
    SqlCatalog,
    SqlStatement,
    TableFunction,
)
from sparkport.catalog.functions import UnlistedFunction
from sparkport.errors import NotFoundError, PermissionDeniedError, SparkportError
from sparkport.spark.catalog.catalog import SparkCatalog
from sparkport.spark.catalog.schema import SparkSchema
from tests.access_views import view
from tests.behaviour.engine import FullTable, insert, rows

ADA = Call("ada")
_EXECUTE = '[[grant]]\nto = "*"\nallow = ["execute", "sql"]\ncatalogs = "lake"\n'


@pytest.fixture(scope="module")
def tables(schema: SparkSchema) -> dict[str, FullTable]:
    """Make a table that callers may see, and one that they may not."""
    made = {}
    for name in ("open", "secret"):
        columns = pa.schema([("id", pa.int64()), ("name", pa.string())])
        made[name] = cast("FullTable", schema.create_table(Call(), name, columns, CreateTableOptions()))
        insert(made[name], [{"id": 1, "name": f"{name} 1"}, {"id": 2, "name": f"{name} 2"}])
    return made


def _view(catalog: SparkCatalog, schema: SparkSchema, privileges: str, more: str = "") -> DynamicCatalog:
    allowed = ", ".join(f'"{word}"' for word in privileges.split())
    grant = f'[[grant]]\nto = "*"\nallow = [{allowed}]\ntables = "lake.{schema.name}.open*"\n'
    return view(catalog, _EXECUTE + grant + more)


def _functions(seen: DynamicCatalog) -> dict[str, TableFunction]:
    schema = seen.schema(ADA, "sparkport")
    assert schema is not None
    return {one.name: cast("TableFunction", one) for one in schema.table_functions(ADA)}


def _arguments(function: TableFunction, table: str) -> list[Any]:
    if function.name == "query":
        return [f"SELECT * FROM {table}"]
    if function.name == "dropped":
        return [table.partition(".")[0]]
    others = {"version": None, "from": pa.scalar(0), "to": None, "hours": 0.0}
    return [table, *(others[parameter.name] for parameter in function.signature.declared[1:])]


def _described(function: TableFunction, arguments: list[Any]) -> None:
    function.schema_for_parameters(ADA, arguments)


def _executed(function: TableFunction, arguments: list[Any]) -> None:
    function.execute(ADA, arguments, ScanOptions()).read_all()


def test_no_function_reaches_what_is_hidden(
    catalog: SparkCatalog, schema: SparkSchema, tables: dict[str, FullTable]
) -> None:
    """Each function of the engine refuses a caller who may execute it and no more: a new one has to."""
    seen = _view(catalog, schema, "browse")
    outcomes: dict[str, set[str]] = {}
    for name, function in _functions(seen).items():
        assert not isinstance(function, UnlistedFunction)
        for table in ("secret", "missing", "open"):
            arguments = _arguments(function, f"{schema.name}.{table}")
            for attempt in (_described, _executed):
                try:
                    attempt(function, arguments)
                    outcomes.setdefault(name, set()).add(f"{table}: done")
                except SparkportError as error:
                    outcomes.setdefault(name, set()).add(f"{table}: {type(error).__name__}")

    hidden = {"secret: NotFoundError", "missing: NotFoundError", "open: PermissionDeniedError"}
    refused = {f"{table}: PermissionDeniedError" for table in ("secret", "missing", "open")}
    assert outcomes == {
        **dict.fromkeys(
            ("detail", "files", "history", "table_changes", "optimize", "vacuum", "query"), hidden
        ),
        **dict.fromkeys(("dropped", "undrop"), refused),
    }
    assert len(rows(tables["secret"])) == len(rows(tables["open"]))


def test_functions_work_with_the_privileges_they_need(
    catalog: SparkCatalog, schema: SparkSchema, tables: dict[str, FullTable]
) -> None:
    """What reads needs select, and what maintains needs alter."""
    table = f"{schema.name}.{tables['open'].name}"
    reading = _functions(_view(catalog, schema, "select"))
    altering = _functions(_view(catalog, schema, "alter"))
    read = [
        reading[name].execute(ADA, _arguments(reading[name], table), ScanOptions()).read_all().num_rows
        for name in ("detail", "files", "history", "query")
    ]
    with pytest.raises(PermissionDeniedError):
        reading["optimize"].execute(ADA, [table], ScanOptions())
    with pytest.raises(PermissionDeniedError):
        altering["history"].execute(ADA, [table], ScanOptions())
    done = altering["optimize"].execute(ADA, [table], ScanOptions()).read_all()

    assert all(count > 0 for count in read)
    assert done["state"].to_pylist()[-1] == "finished"


_STATEMENTS = [
    "SELECT * FROM {}",
    "SELECT * FROM open WHERE EXISTS (SELECT 1 FROM {})",
    "WITH h AS (SELECT * FROM {}) SELECT * FROM h",
    "SELECT * FROM {} VERSION AS OF 0",
    "DESCRIBE {}",
    "SHOW COLUMNS IN {}",
    "INSERT INTO {} VALUES (9, 'x')",
    "UPDATE {} SET name = 'x'",
    "DELETE FROM {}",
    "TRUNCATE TABLE {}",
    "ALTER TABLE {} ADD COLUMN x INT",
    "OPTIMIZE {}",
    "VACUUM {}",
    "DROP TABLE {}",
]


@pytest.mark.parametrize("statement", _STATEMENTS)
def test_no_statement_of_spark_reaches_what_is_hidden(
    catalog: SparkCatalog, schema: SparkSchema, tables: dict[str, FullTable], statement: str
) -> None:
    """For a hidden table each statement says what it says for a missing one, and changes nothing."""
    seen = _view(catalog, schema, "select insert update delete alter drop create")
    texts = [statement.replace("open", f"{schema.name}.open") for _ in range(2)]
    with pytest.raises(NotFoundError) as hidden:
        _run(seen, texts[0].format(f"{schema.name}.secret"))
    with pytest.raises(NotFoundError) as missing:
        _run(seen, texts[1].format(f"{schema.name}.gone99"))

    assert str(hidden.value).replace("secret", "gone99") == str(missing.value)
    assert len(rows(tables["secret"])) == len(rows(tables["open"]))


@pytest.mark.parametrize(
    ("statement", "needed"),
    [
        ("SELECT * FROM {}", "select"),
        ("INSERT INTO {} SELECT 3, 'c'", "insert"),
        ("UPDATE {} SET name = name WHERE id = 1", "select update"),
        ("DELETE FROM {} WHERE id = 99", "select delete"),
        ("MERGE INTO {} t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE", "select delete"),
        ("CREATE TABLE {}_as AS SELECT 1 AS a", "create insert"),
        ("DROP TABLE {}_as", "drop"),
        ("DESCRIBE {}", "browse"),
    ],
)
def test_statements_of_spark_need_their_privileges(
    catalog: SparkCatalog, schema: SparkSchema, tables: dict[str, FullTable], statement: str, needed: str
) -> None:
    """With one privilege less a statement is refused, with all of them it runs."""
    text = statement.format(f"{schema.name}.{tables['open'].name}")
    for left_out in needed.split():
        fewer = [word for word in needed.split() if left_out not in {word, "browse"}]
        if fewer or left_out != "browse":
            with pytest.raises((PermissionDeniedError, NotFoundError)):
                _run(_view(catalog, schema, " ".join(["browse", *fewer])), text)
    _run(_view(catalog, schema, f"browse {needed}"), text)


def test_row_filters_and_masks_refuse_spark_sql(
    catalog: SparkCatalog, schema: SparkSchema, tables: dict[str, FullTable]
) -> None:
    """Spark's own SQL and functions do not apply them, so they are refused with the reason."""
    filtered = f'[[filter]]\nfor = "*"\ntables = "lake.{schema.name}.open"\nrows = "id = 1"\n'
    masked = f'[[mask]]\nfor = "*"\ncolumns = "lake.{schema.name}.open.name"\nvalue = "NULL"\n'
    table = f"{schema.name}.{tables['open'].name}"
    for policy in (filtered, masked):
        seen = _view(catalog, schema, "select insert update delete alter", policy)
        for text in (f"SELECT id FROM {table}", f"UPDATE {table} SET name = 'x'", f"DELETE FROM {table}"):
            with pytest.raises(PermissionDeniedError, match="row filter or mask applies"):
                _run(seen, text)
        for name in ("history", "files", "table_changes", "query"):
            function = _functions(seen)[name]
            with pytest.raises(PermissionDeniedError, match="row filter or mask applies"):
                function.execute(ADA, _arguments(function, table), ScanOptions())
    listed = _run(_view(catalog, schema, "select"), f"SHOW TABLES IN {schema.name}")

    assert [row["tableName"] for row in listed.to_pylist()] == ["open"]


def _run(seen: DynamicCatalog, text: str) -> pa.Table:
    """Run a statement as a client does: describe it first."""
    assert isinstance(seen, SqlCatalog)
    statement = SqlStatement(text, "lake")
    if seen.describe_sql(ADA, statement, None).arrow_schema is None:
        seen.update_sql(ADA, statement, None)
        return pa.table({})
    return seen.query_sql(ADA, statement, None).read_all()
