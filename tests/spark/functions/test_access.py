"""Functions of tables and Spark SQL keep what a caller may not see or do, whatever names they are given."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
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


_FILTERED = '[[filter]]\nfor = "*"\ntables = "lake.{}.open_part"\nrows = "id <> 2 OR name IS NULL"\n'
_MASK = "CASE WHEN id = 3 THEN NULL ELSE '*' END"
_MASKED = f'[[mask]]\nfor = "*"\ncolumns = "lake.{{}}.open_part.name"\nvalue = "{_MASK}"\n'
_HIDDEN = '[[grant]]\nto = "*"\ndeny = "browse"\ncolumns = "lake.{}.open_part.name"\n'


@pytest.fixture(scope="module")
def part(schema: SparkSchema) -> FullTable:
    """Make a table that callers see in part, which no test changes."""
    columns = pa.schema([("id", pa.int64()), ("name", pa.string())])
    made = cast("FullTable", schema.create_table(Call(), "open_part", columns, CreateTableOptions()))
    insert(made, [{"id": 1, "name": "open_part 1"}, {"id": 2, "name": "open_part 2"}])
    return made


@pytest.mark.parametrize("path", ["plain", "query"])
def test_spark_sql_sees_what_the_caller_sees(
    catalog: SparkCatalog, schema: SparkSchema, part: FullTable, path: str
) -> None:
    """Spark computes with the rows, values and columns that row filters, masks and grants leave."""
    table = f"{schema.name}.open_part"
    select = f"SELECT * FROM {table}" if path == "plain" else f"SELECT t.* FROM {table} t ORDER BY id + 0"

    def found(policy: str, text: str = select) -> list[dict[str, Any]]:
        seen = _view(catalog, schema, "select", policy.format(schema.name))
        return sorted(_run(seen, text).to_pylist(), key=lambda row: row.get("id", 0))

    filtered, masked = found(_FILTERED), found(_MASKED)
    hidden = found(_HIDDEN)

    assert len(part.scan(Call(), ScanOptions()).read_all()) == 2
    assert filtered == [{"id": 1, "name": "open_part 1"}]
    assert masked == [{"id": 1, "name": "*"}, {"id": 2, "name": "*"}]
    assert hidden == [{"id": 1}, {"id": 2}]


def test_spark_sql_finds_nothing_out_about_what_is_kept_from_the_caller(
    catalog: SparkCatalog, schema: SparkSchema, part: FullTable
) -> None:
    """Whatever a statement computes, it computes it with what the caller sees, and no files stay behind."""
    table = f"{schema.name}.open_part"
    policies = (_FILTERED + _MASKED).format(schema.name, schema.name)
    seen = _view(catalog, schema, "select", policies)
    staging = Path(catalog.engine.staging)
    before = set(staging.glob("*/"))  # of transactions of other tests
    probes = {
        f"SELECT count(*) AS n FROM {table}": [{"n": 1}],
        f"SELECT max(id) AS n, min(name) AS m FROM {table}": [{"n": 1, "m": "*"}],
        f"SELECT id FROM {table} WHERE name LIKE 'open%'": [],
        f"SELECT id FROM {table} WHERE id = 2": [],
        f"SELECT a.id FROM {table} a JOIN {table} b ON a.name = b.name WHERE b.id > 1": [],
        f"SELECT 1 AS n WHERE EXISTS (SELECT 1 FROM {table} WHERE id = 2)": [],
        f"WITH t AS (SELECT * FROM {table}) SELECT id FROM t UNION ALL SELECT id FROM {table}": [{"id": 1}]
        * 2,
        f"SELECT id FROM {table} WHERE 10 / (id - 2) < 0 AND name = '*'": [{"id": 1}],
    }
    found = {text: _run(seen, text).to_pylist() for text in probes}
    query = _functions(seen)["query"]
    (text, *_) = probes
    by_function = query.execute(ADA, [text], ScanOptions()).read_all().to_pylist()
    plan = str(_run(seen, f"EXPLAIN SELECT * FROM {table} WHERE id > 0").to_pylist())
    described = _run(seen, f"DESCRIBE {table}").column("col_name").to_pylist()
    with pytest.raises(PermissionDeniedError, match="newest version alone"):
        _run(seen, f"SELECT id FROM {table} VERSION AS OF 0")

    assert found == probes
    assert by_function == probes[text]
    assert str(catalog.engine.warehouse.root) not in plan
    assert described == ["id", "name"]
    assert set(staging.glob("*/")) - before == set()
    assert len(rows(part)) == 2


def test_every_kind_of_column_is_the_same_to_spark_under_a_row_filter(
    catalog: SparkCatalog, schema: SparkSchema
) -> None:
    """What a filter leaves has the same values and types in Spark SQL, whatever the columns."""
    arrays = {
        "a b.c": pa.array([1, None], pa.int8()),
        "ü${x}": pa.array(["x", None]),
        "d": pa.array([Decimal("1.50"), None], pa.decimal128(12, 2)),
        "u": pa.array([2**64 - 1, None], pa.uint64()),
        "t": pa.array([dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC), None], pa.timestamp("us", "UTC")),
        "l": pa.array([1_767_312_000_000_000, None], pa.timestamp("us")),
        "f": pa.array([float("nan"), None], pa.float64()),
        "b": pa.array([b"\0", None], pa.binary()),
        "s": pa.array(
            [{"x y": 1, "z": ["q"]}, None], pa.struct([("x y", pa.int32()), ("z", pa.list_(pa.string()))])
        ),
        "m": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
    }
    data = pa.table({"k": pa.array([1, 2], pa.int64()), **arrays})
    data = data.cast(data.schema.set(0, pa.field("k", pa.int64(), nullable=False)))
    made = cast("FullTable", schema.create_table(Call(), "open_kinds", data.schema, CreateTableOptions()))
    made.insert(Call(), data.to_reader())
    policy = '[[filter]]\nfor = "*"\ntables = "lake.{}.open_kinds"\nrows = "current_principal() = \'ada\'"\n'
    text = f"SELECT t.*, u + 1 AS more FROM {schema.name}.open_kinds t ORDER BY d"
    whole = _run(_view(catalog, schema, "select"), text)
    part = _run(_view(catalog, schema, "select", policy.format(schema.name)), text)

    assert part.schema.equals(whole.schema)
    assert str(part.to_pylist()) == str(whole.to_pylist())


_CHANGES: list[tuple[str, list[dict[str, Any]] | str]] = [
    ("DELETE FROM {}", [{"id": 2, "name": "b"}]),
    ("TRUNCATE TABLE {}", [{"id": 2, "name": "b"}]),
    ("DELETE FROM {} WHERE id = 2", _BOTH := [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]),
    ("DELETE FROM {0} WHERE id < (SELECT count(*) FROM {0})", _BOTH),
    ("UPDATE {} SET name = concat(name, '!')", [{"id": 1, "name": "a!"}, {"id": 2, "name": "b"}]),
    ("INSERT INTO {0} SELECT id + 2, name FROM {0}", [*_BOTH, {"id": 3, "name": "a"}]),
    ("INSERT INTO {} VALUES (2, 'mine')", "does not satisfy the row filter"),
    ("UPDATE {} SET id = 2", "does not satisfy the row filter"),
    (
        "MERGE INTO {} t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE",
        "row filter or mask",
    ),
    ("INSERT OVERWRITE {} VALUES (1, 'x')", "row filter or mask"),
]


@pytest.mark.parametrize(("statement", "expected"), _CHANGES)
def test_changes_in_spark_sql_are_of_rows_that_the_caller_sees(
    catalog: SparkCatalog, schema: SparkSchema, statement: str, expected: list[dict[str, Any]] | str
) -> None:
    """Rows that a filter leaves out are not there, neither to be changed nor to be read; new rows pass it."""
    columns = pa.schema([("id", pa.int64()), ("name", pa.string())])
    name = f"open_changed_{_CHANGES.index((statement, expected))}"
    made = cast("FullTable", schema.create_table(Call(), name, columns, CreateTableOptions()))
    insert(made, _BOTH)
    policy = f'[[filter]]\nfor = "*"\ntables = "lake.{schema.name}.*"\nrows = "id <> 2"\n'
    seen = _view(catalog, schema, "select insert update delete", policy)
    text = statement.format(f"{schema.name}.{name}")
    if isinstance(expected, str):
        with pytest.raises(PermissionDeniedError, match=expected):
            _run(seen, text)
        expected = _BOTH
    else:
        _run(seen, text)

    assert sorted(rows(made), key=str) == expected


def test_changes_in_spark_sql_keep_masks_and_privileges(
    catalog: SparkCatalog, schema: SparkSchema, part: FullTable
) -> None:
    """A masked column is neither set nor compared by its values, and each change needs its privilege."""
    table = f"{schema.name}.open_part"
    masked, filtered = _MASKED.format(schema.name), _FILTERED.format(schema.name)
    before = part.snapshot(Call(), None).time_point
    with pytest.raises(PermissionDeniedError, match="masked"):
        _run(_view(catalog, schema, "select update", masked), f"UPDATE {table} SET name = 'x'")
    _run(_view(catalog, schema, "select delete", masked), f"DELETE FROM {table} WHERE name LIKE 'open%'")
    for text, privileges in {
        f"UPDATE {table} SET id = 1": "select insert delete",
        f"DELETE FROM {table}": "select insert update",
        f"INSERT INTO {table} VALUES (1, 'x')": "select update delete",
    }.items():
        with pytest.raises(PermissionDeniedError, match="may not"):
            _run(_view(catalog, schema, privileges, filtered), text)
    with pytest.raises(NotFoundError) as hidden:
        _run(
            _view(catalog, schema, "select update", _HIDDEN.format(schema.name)),
            f"UPDATE {table} SET name = 'x'",
        )

    assert "open_part" not in str(hidden.value)
    assert part.snapshot(Call(), None).time_point == before


def test_functions_of_partly_seen_tables_are_refused(
    catalog: SparkCatalog, schema: SparkSchema, part: FullTable
) -> None:
    """They would tell of rows and values that are kept from the caller."""
    table = f"{schema.name}.open_part"
    for policy in (_FILTERED, _MASKED):
        functions = _functions(_view(catalog, schema, "select alter", policy.format(schema.name)))
        for name in ("history", "files", "table_changes", "detail", "optimize", "vacuum"):
            with pytest.raises(PermissionDeniedError, match="row filter or mask applies"):
                functions[name].execute(ADA, _arguments(functions[name], table), ScanOptions())

    assert len(rows(part)) == 2


def _run(seen: DynamicCatalog, text: str) -> pa.Table:
    """Run a statement as a client does: describe it first."""
    assert isinstance(seen, SqlCatalog)
    statement = SqlStatement(text, "lake")
    if seen.describe_sql(ADA, statement, None).arrow_schema is None:
        seen.update_sql(ADA, statement, None)
        return pa.table({})
    return seen.query_sql(ADA, statement, None).read_all()
