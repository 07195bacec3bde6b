"""Every type that a table can have, all in one table: a statement of Spark's costs too much for one each."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from sparkport.arrow.taking import take_rows
from sparkport.catalog import Call, CreateSchemaOptions, CreateTableOptions, ScanOptions
from sparkport.catalog.predicates import Column, Expression, IsNull, Not
from sparkport.spark.catalog.catalog import SparkCatalog
from sparkport.spark.engine import Engine
from sparkport.spark.read.mode import ReadMode
from sparkport.spark.session.host import SparkHost
from sparkport.spark.table import DeltaTable
from tests.behaviour.samples import GEOMETRY, SAMPLES
from tests.behaviour.test_types import texts

pytestmark = pytest.mark.timeout(300)

FIELDS = [pa.field(name, values.type) for name, values in SAMPLES.items()]
ROWS = pa.table(
    [pa.array(range(4)), *SAMPLES.values(), pa.array([b"p", b"", None, b"q"], pa.binary())],
    schema=pa.schema([pa.field("k", pa.int64()), *FIELDS, GEOMETRY.with_name("geometry")]),
)


@pytest.fixture(scope="module")
def engine(spark_host: SparkHost) -> Iterator[Engine]:
    """Return an engine of the module's own."""
    made = Engine(spark_host)
    yield made
    made.jobs.close()


@pytest.fixture(scope="module")
def table(engine: Engine) -> DeltaTable:
    """Return a table with four rows, inserted in two statements."""
    schema = SparkCatalog(engine).create_schema(Call(), "every_type", CreateSchemaOptions())
    made = schema.create_table(Call(), "t", ROWS.schema, CreateTableOptions())
    made.insert(Call(), ROWS.slice(0, 2).to_reader())
    made.insert(Call(), ROWS.slice(2).to_reader())
    return made


def differences(found: pa.Table, expected: pa.Table) -> list[str]:
    """Return the names of the columns that are not the same."""
    found.validate(full=True)
    return [
        field.name
        for field in expected.schema
        if found.schema.field(field.name).type != field.type
        or shown(found[field.name]) != shown(expected[field.name])
    ]


def shown(column: pa.ChunkedArray) -> list[str]:
    """Return the values in words; what the fields of a struct that is null hold means nothing."""
    if pa.types.is_struct(column.type):
        return [repr(value.as_py()) for value in column]
    return texts(column)


def read(table: DeltaTable, **options: object) -> pa.Table:
    """Return the rows in the order of their keys."""
    found = table.scan(Call(), ScanOptions(**options)).read_all()  # type: ignore[arg-type]
    return pa.Table.from_batches([take_rows(found, np.argsort(found["k"].to_numpy()))])


def test_values_come_back_as_they_were(table: DeltaTable, engine: Engine) -> None:
    """Types, nulls and extremes survive both lanes."""
    by_arrow = read(table)
    engine.reader.mode = ReadMode.SQL
    by_sql = read(table)
    engine.reader.mode = ReadMode.AUTO

    assert differences(by_arrow, ROWS) == []
    assert differences(by_sql, ROWS) == []
    assert by_arrow.schema.field("geometry").metadata == GEOMETRY.metadata


@pytest.mark.parametrize("predicate", ["null", "not null"])
def test_every_column_can_be_tested_for_null(table: DeltaTable, predicate: str) -> None:
    """A filter on any type keeps every row that matches."""
    lost = []
    for field in ROWS.schema:
        test: Expression = IsNull(Column(field.name))
        wanted = ROWS[field.name].is_null()
        if predicate == "not null":
            test, wanted = Not(test), pa.compute.invert(wanted)
        found = table.scan(Call(), ScanOptions(columns=("k",), filter=test)).read_all()["k"].to_pylist()
        if not set(pa.compute.indices_nonzero(wanted).to_pylist()) <= set(found):
            lost.append(field.name)

    assert lost == []


def test_values_are_updated_and_returned(table: DeltaTable) -> None:
    """A new value takes the place of the old one, and is returned as stored; NULL fits every type."""
    changes = ROWS.drop_columns(["k"])
    ids = dict(zip(read(table)["k"].to_pylist(), read(table)["rowid"].to_pylist(), strict=True))
    rows = pa.Table.from_batches([take_rows(changes, np.array([1]))])
    result = table.update(Call(), pa.array([ids[0]]), rows.to_reader(), returning=True)
    returned = result.returning_data
    nulls = pa.table([pa.nulls(1)] * len(changes.schema), changes.column_names)
    table.update(Call(), pa.array([ids[3]]), nulls.to_reader())
    found = read(table)

    assert returned is not None
    assert differences(returned.read_all().select(changes.column_names), rows) == []
    assert differences(found.slice(0, 1).select(changes.column_names), rows) == []
    last = found.slice(3, 1)
    assert [name for name in changes.column_names if last[name][0].as_py() is not None] == []
