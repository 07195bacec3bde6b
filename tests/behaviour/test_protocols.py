"""The rules that every implementation of the contracts keeps, one test for each."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from sparkport.catalog import (
    Call,
    CreateSchemaOptions,
    CreateTableOptions,
    DropSchemaOptions,
    DynamicSchema,
    DynamicSchemaTable,
    FunctionSignature,
    ScalarFunction,
    ScanOptions,
    SchemaRequest,
    TimePoint,
    TimeUnit,
)
from sparkport.catalog.lookup import current_arrow_schema
from sparkport.catalog.rowid import rowid_name, without_rowid
from sparkport.errors import AlreadyExistsError, CancelledError, DeadlineExceededError
from sparkport.toolkit import CatalogBuilder
from tests.behaviour.engine import FullCatalog, create, ids, insert, numbers, read, rows, values


def cancelled() -> Call:
    """Return a call whose client is gone."""
    call = Call()
    call.cancel()
    return call


def test_readers_and_writers_in_parallel_see_whole_statements_only(schema: DynamicSchema) -> None:
    """Rule 1: statements of many threads neither get lost nor are seen in halves."""
    table = create(schema, {"n": pa.int64()})
    done = threading.Event()
    torn: list[int] = []

    def write(thread: int) -> int:
        return sum(insert(table, [{"n": thread}] * 10) for _ in range(20))

    def watch() -> None:
        while not done.is_set():
            count = read(table).num_rows
            if count % 10:
                torn.append(count)

    with ThreadPoolExecutor(6) as pool:
        watchers = [pool.submit(watch) for _ in range(2)]
        written = sum(pool.map(write, range(4)))
        done.set()
        for watcher in watchers:
            watcher.result()

    assert written == 800
    assert torn == []
    assert len(set(ids(table))) == 800
    assert sorted(values(table)) == [0] * 200 + [1] * 200 + [2] * 200 + [3] * 200


def test_tables_made_in_parallel_are_all_there(schema: DynamicSchema) -> None:
    """Rule 1: DDL of many threads is not lost."""
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda i: create(schema, {"n": pa.int64()}, f"t{i}"), range(24)))

    assert sorted(table.name for table in schema.tables(Call())) == sorted(f"t{i}" for i in range(24))


def test_only_one_of_many_creators_wins(catalog: FullCatalog, schema_name: str) -> None:
    """Rule 1: of many threads that make the same schema one succeeds."""

    def attempt(_: int) -> bool:
        try:
            catalog.create_schema(Call(), schema_name, CreateSchemaOptions())
        except AlreadyExistsError:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        outcomes = list(pool.map(attempt, range(8)))

    assert outcomes.count(True) == 1


def test_cancelled_calls_are_refused_everywhere(catalog: FullCatalog, schema: DynamicSchema) -> None:
    """Rule 2: every method of a catalog notices that the client is gone."""
    table = numbers(schema, 1)
    options = CreateTableOptions()
    methods: list[Callable[[], object]] = [
        lambda: catalog.schemas(cancelled()),
        lambda: catalog.schema(cancelled(), schema.name),
        lambda: catalog.catalog_version(cancelled()),
        lambda: catalog.create_schema(cancelled(), "never", CreateSchemaOptions()),
        lambda: catalog.drop_schema(cancelled(), schema.name, DropSchemaOptions(cascade=True)),
        lambda: schema.tables(cancelled()),
        lambda: schema.table(cancelled(), "t"),
        lambda: schema.scalar_functions(cancelled()),
        lambda: schema.table_functions(cancelled()),
        lambda: schema.create_table(cancelled(), "never", pa.schema([("n", pa.int64())]), options),
        lambda: read(table, cancelled()),
        lambda: insert(table, [{"n": 2}], cancelled()),
    ]
    for method in methods:
        with pytest.raises(CancelledError):
            method()

    assert rows(table) == [{"n": 1}]
    assert catalog.schema(Call(), "never") is None
    assert schema.table(Call(), "never") is None


def test_scan_stops_between_batches_when_cancelled(schema: DynamicSchema) -> None:
    """Rule 2: a loop over batches looks at the call each time."""
    table = numbers(schema, *range(10))
    call = Call()
    reader = table.scan(call, ScanOptions(batch_size=2))

    assert reader.read_next_batch().num_rows == 2
    call.cancel()
    with pytest.raises(CancelledError):
        reader.read_all()


def test_scan_stops_when_the_deadline_has_passed(schema: DynamicSchema) -> None:
    """Rule 2: a deadline ends a call as a cancellation does."""
    table = numbers(schema, 1, 2)
    call = Call(timeout=0.0)

    with pytest.raises(DeadlineExceededError):
        read(table, call)


def test_missing_things_are_none(catalog: FullCatalog, schema: DynamicSchema) -> None:
    """Rule 3: looking up a name that is not there is no error."""
    assert catalog.schema(Call(), "no_such_schema") is None
    assert catalog.schema(Call(), "") is None
    assert schema.table(Call(), "no_such_table") is None
    assert schema.table(Call(), "") is None


def test_no_items_is_an_empty_sequence(schema: DynamicSchema) -> None:
    """Rule 4: an empty schema has empty sequences."""
    assert list(schema.tables(Call())) == []
    assert list(schema.scalar_functions(Call())) == []
    assert list(schema.table_functions(Call())) == []
    assert list(CatalogBuilder().build().schemas(Call())) == []


def test_table_has_the_columns_it_was_made_with(schema: DynamicSchema) -> None:
    """Rule 5: a table's schema is valid, with the marked row id as its last column."""
    columns = pa.schema([pa.field("a", pa.int32(), nullable=False), pa.field("b", pa.string())])
    arrow_schema = create(schema, columns).arrow_schema

    assert arrow_schema is not None
    assert without_rowid(arrow_schema) == columns
    assert arrow_schema.names == ["a", "b", "rowid"]
    assert arrow_schema.field("rowid").type == pa.int64()
    assert rowid_name(arrow_schema) == "rowid"


def test_scan_has_exactly_the_columns_of_the_table(schema: DynamicSchema) -> None:
    """Rule 5: the stream's schema is the table's, metadata included."""
    table = create(schema, pa.schema([pa.field("a", pa.int32(), metadata={"comment": "first"})]))

    found = table.scan(Call(), ScanOptions()).schema

    assert found.equals(table.arrow_schema, check_metadata=True)


class Travelling:
    """A table whose columns depend on the time point."""

    name = "travelling"
    comment = ""
    arrow_schema = None

    def scan(self, call: Call, options: ScanOptions) -> pa.RecordBatchReader:
        request = SchemaRequest(time_point=options.time_point)
        return self.schema_for_request(call, request).empty_table().to_reader()

    def schema_for_request(self, call: Call, request: SchemaRequest) -> pa.Schema:
        call.check()
        old = request.time_point is not None
        return pa.schema([("a", pa.int32())] if old else [("a", pa.int32()), ("b", pa.int32())])


class Schemaless:
    """A table that breaks the rule: no columns, and no way to ask for them."""

    name = "schemaless"
    comment = ""
    arrow_schema = None

    def scan(self, call: Call, options: ScanOptions) -> pa.RecordBatchReader:
        raise AssertionError((call, options))


def test_dynamic_schema_is_none_until_asked_for() -> None:
    """Rule 6: a table without a fixed schema has None, and the request decides."""
    table = Travelling()

    assert isinstance(table, DynamicSchemaTable)
    assert current_arrow_schema(Call(), table).names == ["a", "b"]
    assert current_arrow_schema(Call(), table, TimePoint(TimeUnit.VERSION, "1")).names == ["a"]


def test_missing_schema_without_a_way_to_ask_is_an_error() -> None:
    """Rule 7: who has no schema implements DynamicSchemaTable."""
    table = Schemaless()

    assert not isinstance(table, DynamicSchemaTable)
    with pytest.raises(TypeError, match="'schemaless' has no schema but is not a DynamicSchemaTable"):
        current_arrow_schema(Call(), table)


def test_snapshot_names_a_state_that_stays_readable(schema: DynamicSchema) -> None:
    """Rule 8: what an endpoint pins is read later as it was."""
    table = numbers(schema, 1)
    pinned = table.snapshot(Call(), None)
    insert(table, [{"n": 2}])

    assert pinned.row_count == 1
    assert rows(table, options=ScanOptions(time_point=pinned.time_point)) == [{"n": 1}]


class Doubling:
    """A scalar function that counts its calls."""

    name = "DOUBLE"
    comment = ""
    signature = FunctionSignature((pa.int64(),), pa.int64())

    def __init__(self) -> None:
        self.calls = 0

    def execute(self, call: Call, batch: pa.RecordBatch) -> pa.RecordBatch:
        call.check()
        self.calls += 1
        return pa.record_batch({"result": [2 * number for number in batch.column(0).to_pylist()]})


def test_scalar_function_takes_a_whole_batch() -> None:
    """Rule 9: one call for a batch, with a row out for each row in."""
    function = Doubling()

    assert isinstance(function, ScalarFunction)
    assert function.execute(Call(), pa.record_batch({"n": [1, 2, 3]})).to_pydict() == {"result": [2, 4, 6]}
    assert function.calls == 1


def test_function_needs_a_parameter() -> None:
    """A signature without parameters is refused."""
    with pytest.raises(ValueError, match="at least one parameter"):
        FunctionSignature(())


def test_closed_reader_leaves_the_table_as_it_was(schema: DynamicSchema) -> None:
    """Rule 10: the caller may close a stream before its end, and read again."""
    table = numbers(schema, *range(10))
    reader = table.scan(Call(), ScanOptions(batch_size=1))
    reader.read_next_batch()
    reader.close()

    assert len(rows(table)) == 10
