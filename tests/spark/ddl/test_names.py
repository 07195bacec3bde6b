"""Names that mean something to SQL, to file systems or to Delta are names like any other."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from sparkport.catalog import (
    AddColumn,
    Call,
    ChangeColumnType,
    CreateSchemaOptions,
    CreateTableOptions,
    DropSchemaOptions,
    DropTableOptions,
    RemoveColumn,
    RemoveField,
    RenameColumn,
    RenameField,
    RenameTable,
    ScanOptions,
)
from sparkport.catalog.predicates import And, Column, Comparison, ComparisonOperator, Constant
from sparkport.catalog.rowid import without_rowid
from sparkport.errors import UnsupportedOperationError
from sparkport.spark.catalog.catalog import SparkCatalog
from sparkport.spark.catalog.schema import SparkSchema
from sparkport.spark.engine import Engine
from sparkport.spark.read.mode import ReadMode
from sparkport.spark.sql_names import literal, quoted
from tests.hostile_names import NASTY, random_names
from tests.spark.ddl.tables import made, rows

COLUMNS = [
    *dict.fromkeys(
        ["`", "a.b.c", "`a`.`b`", 'it\'s "quoted" `so`', "${spark.app.name}", "${x", "t", "s", *NASTY[::3]]
    )
]
_AT_ONCE = 500
_STEP = 9


pytestmark = pytest.mark.timeout(240)


def changed(name: str, end: str) -> str:
    """Return another name, which is not longer than names may be."""
    return name[:254] + end


def test_spark_reads_five_thousand_names_as_they_are(spark: SparkSession) -> None:
    """Quoted by the one function that does it, and written as texts, they come back unchanged."""
    names = random_names(5000, seed=random.SystemRandom().randrange(1 << 31))
    for start in range(0, len(names), _AT_ONCE):
        some = names[start : start + _AT_ONCE]
        columns = ", ".join(f"{literal(name)} AS {quoted(name)}" for name in some)
        found = spark.sql(f"SELECT {columns}")

        assert found.schema.names == some
        assert list(found.collect()[0]) == some


def test_columns_and_fields_of_all_names_at_once(schema: SparkSchema, catalog: SparkCatalog) -> None:
    """They are made, filled, filtered by in both lanes, changed, altered and dropped."""
    inner = [name for name in COLUMNS if "${" not in name]
    kind = pa.struct([(name, pa.int64()) for name in inner])
    columns = pa.schema([*((name, pa.int64()) for name in COLUMNS), ("fields", kind)])
    row = {name: number for number, name in enumerate(COLUMNS)}
    fields = {name: row[name] for name in inner}
    three = [{**row, "`": key, "fields": fields} for key in (1000, 1001, 1002)]
    table = made(schema, pa.Table.from_pylist(three, columns))
    same = [
        Comparison(ComparisonOperator.EQUAL, Column(name), Constant(pa.scalar(number, pa.int64())))
        for name, number in {**row, "`": 1001}.items()
    ]
    found = table.scan(Call(), ScanOptions(filter=And(tuple(same)))).read_all()
    by_sql = SparkCatalog(Engine(catalog.engine.host, read_mode=ReadMode.SQL)).schema(Call(), schema.name)
    assert by_sql is not None
    slowly = by_sql.table(Call(), "t")
    assert slowly is not None

    assert found["`"].to_pylist() == [1001]
    assert slowly.scan(Call(), ScanOptions(filter=And(tuple(same)))).read_all() == found
    (identity,) = found["rowid"].to_pylist()
    others = {name: number + 100 for name, number in row.items()}
    update = pa.Table.from_pylist([others], pa.schema(list(columns)[:-1]))
    assert table.update(Call(), pa.array([identity]), update.to_reader()).affected_rows == 1
    assert table.delete(Call(), pa.array([identity - 1])).affected_rows == 1
    assert rows(table) == sorted([{**others, "fields": fields}, three[2]], key=repr)
    for name in COLUMNS[::_STEP]:
        table.alter(Call(), RenameColumn(name, changed(name, "*")))
    for name in COLUMNS[1::_STEP]:
        table.alter(Call(), RemoveColumn(name))
    table.alter(Call(), RenameField(("fields", "`a`.`b`"), "`; --"))
    table.alter(Call(), RemoveField(("fields", "a.b.c")))
    retyped = 'it\'s "quoted" `so`'
    expression = 'CAST("it\'s ""quoted"" `so`" AS VARCHAR)'
    table.alter(Call(), ChangeColumnType(retyped, pa.string(), expression))
    new = "`${user.name}` 'one'"
    table.alter(Call(), AddColumn(pa.field(new, pa.int64(), metadata={"default": "9"})))
    left = {
        name: changed(name, "*") if name in COLUMNS[::_STEP] else name
        for name in COLUMNS
        if name not in COLUMNS[1::_STEP]
    }
    within = ["`; --" if name == "`a`.`b`" else name for name in inner if name != "a.b.c"]
    fourth = {**dict.fromkeys(left.values(), 7), retyped: "7", "fields": dict.fromkeys(within, 8), new: 6}
    table.insert(Call(), pa.Table.from_pylist([fourth], without_rowid(table.arrow_schema)).to_reader())

    assert table.arrow_schema.names == [*left.values(), "fields", new, "rowid"]
    assert table.arrow_schema.field("fields").type.names == within
    old = {now: three[2][name] for name, now in left.items()}
    kept = {name: fields[{"`; --": "`a`.`b`"}.get(name, name)] for name in within}
    assert {**old, retyped: str(row[retyped]), "fields": kept, new: 9} in rows(table)
    assert fourth in rows(table)


def test_names_that_spark_cannot_keep_apart_are_refused(schema: SparkSchema) -> None:
    """Hadoop replaces ${user.name} within staged fields, and Delta has a `_metadata`: no row is harmed."""
    kind = pa.struct([("${user.name}", pa.int64())])
    with pytest.raises(UnsupportedOperationError) as field:
        made(schema, pa.table({"s": pa.array([{"${user.name}": 1}], kind)}))
    table = made(schema, pa.table({"_Metadata": [1]}), name="m")
    with pytest.raises(UnsupportedOperationError) as column:
        table.delete(Call(), pa.array([0]))

    assert str(field.value) == (
        "field '${user.name}' does not support writing: Spark cannot read a nested field of that name;"
        " rename it"
    )
    assert str(column.value) == (
        "table 'm' does not support DELETE: Delta takes its column '_metadata' for one of its own"
    )
    assert rows(table) == [{"_Metadata": 1}]


def test_schemas_and_tables_of_all_names_beside_each_other(catalog: SparkCatalog) -> None:
    """Each has a life of its own, from CREATE SCHEMA to DROP SCHEMA, while the others have theirs."""
    call = Call()

    def begin(name: str) -> None:
        schema = catalog.create_schema(call, changed(name, "\u2020"), CreateSchemaOptions(comment=name))
        table = made(schema, pa.table({"n": [1, 2]}), CreateTableOptions(comment=name), name)
        table.alter(call, RenameTable(changed(name, "+")))
        made(schema, pa.table({"m": [name]}), name=name)

    def end(name: str) -> tuple[object, ...]:
        schema = catalog.schema(call, changed(name, "\u2020"))
        assert isinstance(schema, SparkSchema)
        tables = {table.name: table for table in schema.tables(call)}
        first, second = schema.delta_table(call, changed(name, "+")), schema.delta_table(call, name)
        assert first is not None
        assert second is not None
        told = (schema.comment, first.comment, set(tables), rows(first), rows(second))
        schema.drop_table(call, name, DropTableOptions())
        assert catalog.drop_schema(call, schema.name, DropSchemaOptions(cascade=True)) == 1
        return told

    before = {schema.name for schema in catalog.schemas(call)}
    names = NASTY[::6]
    with ThreadPoolExecutor(6) as threads:
        list(threads.map(begin, names))
        told = list(threads.map(end, names))

    for name, seen in zip(names, told, strict=True):
        assert seen == (name, name, {name, changed(name, "+")}, [{"n": 1}, {"n": 2}], [{"m": name}]), name
    assert {schema.name for schema in catalog.schemas(call)} == before
