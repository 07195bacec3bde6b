"""Tables that fail or that DuckDB has no types for: the caller gets a sentence, the log the rest."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

import pyarrow as pa
import pytest

import sparkport
from sparkport.catalog import Call, ScanOptions
from sparkport.errors import InvalidRequestError, PermissionDeniedError
from sparkport.toolkit import CatalogBuilder
from tests import flight_client as wire
from tests.conftest import TOKEN
from tests.flight_client import Flight, path_descriptor, refusal

COLUMNS = pa.schema([("n", pa.int64())])
SECRET = "/srv/secret/place"


def failing(error: Exception, after: int) -> CatalogBuilder:
    """Return a catalog with a table `s.t` that fails after some batches."""

    def scan(call: Call, options: ScanOptions) -> pa.RecordBatchReader:
        del call, options

        def batches() -> Iterator[pa.RecordBatch]:
            for _ in range(after):
                yield pa.record_batch({"n": pa.array(range(200_000))})
            raise error

        return pa.RecordBatchReader.from_batches(COLUMNS, batches())

    return CatalogBuilder().schema("s").table("t", scan=scan, arrow_schema=COLUMNS)


def read(builder: CatalogBuilder) -> tuple[str, str]:
    """Read `s.t` and return how it was refused."""
    with (
        sparkport.Server({"db1": builder.build()}, port=0, token=TOKEN, grace_seconds=0) as server,
        Flight(server.location, TOKEN) as client,
    ):
        (ticket,) = client.scan(path_descriptor("db1", "s", "t"), [0])
        answer = refusal(lambda: client.get(ticket))
        assert len(client.list_flights()) == 1
        return answer


@pytest.mark.parametrize("after", [0, 3])
def test_unexpected_failure_shows_only_a_trace_id(
    after: int, capsys: pytest.CaptureFixture[str], recwarn: pytest.WarningsRecorder
) -> None:
    """What nobody foresaw is INTERNAL with a trace id that is found in the log, and nothing more."""
    code, message = read(failing(RuntimeError(f"cannot open {SECRET}"), after))
    found = re.fullmatch(r"Internal error, trace id ([0-9a-f-]{36})", message)
    log = capsys.readouterr().err

    assert code == "INTERNAL"
    assert found is not None
    assert found.group(1) in log
    assert SECRET in log
    assert not recwarn.list


@pytest.mark.parametrize("after", [0, 3])
def test_own_errors_of_a_table_reach_the_caller(after: int) -> None:
    """An error of ours that a table raises keeps its code and text, also in the middle of the rows."""
    assert read(failing(InvalidRequestError("not on Sundays"), after)) == (
        "INVALID_ARGUMENT",
        "not on Sundays",
    )
    assert read(failing(PermissionDeniedError("not you"), after)) == ("PERMISSION_DENIED", "not you")


def test_log_of_a_failure_has_no_row_data(capsys: pytest.CaptureFixture[str]) -> None:
    """The traceback in the log is without local variables, which would hold rows."""

    def scan(call: Call, options: ScanOptions) -> pa.RecordBatchReader:
        del call, options
        rows = pa.table({"n": [424242424242]})
        raise RuntimeError(f"{rows.num_rows} rows")

    read(CatalogBuilder().schema("s").table("t", scan=scan, arrow_schema=COLUMNS))
    log = capsys.readouterr().err

    assert "1 rows" in log
    assert "424242424242" not in log
    assert TOKEN not in log


PAIR = pa.schema([pa.field("a", pa.int64(), nullable=False), ("b", pa.int64())])


def untrue(batch: pa.RecordBatch) -> CatalogBuilder:
    """Return a catalog with a table `s.t` that announces `PAIR` and gives something else."""

    def scan(call: Call, options: ScanOptions) -> pa.RecordBatchReader:
        del call, options
        return pa.RecordBatchReader.from_batches(batch.schema, [batch])

    return CatalogBuilder().schema("s").table("t", scan=scan, arrow_schema=PAIR)


@pytest.mark.parametrize(
    ("batch", "reason"),
    [
        (pa.record_batch({"A_typo": [1], "b": [2]}), "the column 'a' is missing"),
        (pa.record_batch({"a": ["x"], "b": [2]}), "the column 'a' is of type string instead of int64"),
    ],
)
def test_rows_that_break_the_announced_columns_are_a_failure_of_the_table(
    batch: pa.RecordBatch, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A column that was asked for and is missing or of another type is INTERNAL, logged once."""
    code, message = read(untrue(batch))
    found = re.fullmatch(r"table 't' failed: TypeError: (.*) \(trace id ([0-9a-f-]{36})\)", message)
    log = capsys.readouterr().err

    assert code == "INTERNAL"
    assert found is not None
    assert found.group(1) == reason
    assert log.count("unexpected error") == 1
    assert found.group(2) in log


@pytest.mark.parametrize("columns", [[1], [], [1, 1]])
def test_columns_not_asked_for_may_be_missing(columns: list[int]) -> None:
    """A table need not give what nobody reads: it is sent as nulls, also where nulls are forbidden."""
    builder = untrue(pa.record_batch({"b": [2]}))
    with (
        sparkport.Server({"db1": builder.build()}, port=0, token=TOKEN, grace_seconds=0) as server,
        Flight(server.location, TOKEN) as client,
    ):
        (ticket,) = client.scan(path_descriptor("db1", "s", "t"), columns)
        rows = wire.table_of(client.get(ticket))

    assert rows.to_pydict() == {"a": [None], "b": [2]}


UNKNOWN_TO_DUCKDB = {
    "wide": pa.decimal256(60, 0),
    "dense": pa.dense_union([pa.field("a", pa.int32())]),
    "nothing": pa.struct([]),
    "inner": pa.list_(pa.float16()),
}


def _no_rows(columns: pa.Schema) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(columns, [])


@pytest.fixture
def strange() -> Iterator[Flight]:
    """Serve tables that DuckDB has no types for, beside one that it can read."""
    builder = CatalogBuilder().schema("s").table("plain", pa.table({"n": [1]}))
    for name, kind in UNKNOWN_TO_DUCKDB.items():
        columns = pa.schema([("v", kind)])
        builder.table(name, reader=partial(_no_rows, columns), arrow_schema=columns)
    with (
        sparkport.Server({"db1": builder.build()}, port=0, token=TOKEN, grace_seconds=0) as server,
        Flight(server.location, TOKEN) as client,
    ):
        yield client


def test_tables_without_duckdb_types_are_left_out(strange: Flight) -> None:
    """DuckDB is not shown what it cannot read, and other clients are shown everything."""
    seen = [list(info.flight_descriptor.path)[2] for info in strange.list_flights()]
    strange.headers = strange.headers[1:]
    others = [list(info.flight_descriptor.path)[2] for info in strange.list_flights()]

    assert seen == ["plain"]
    assert others == ["plain", "wide", "dense", "nothing", "inner"]


@pytest.mark.parametrize("name", sorted(UNKNOWN_TO_DUCKDB))
def test_table_without_a_duckdb_type_is_refused_with_the_reason(strange: Flight, name: str) -> None:
    """DuckDB that asks for such a table anyway is told which type stands in the way."""
    descriptor = path_descriptor("db1", "s", name)
    expected = ("FAILED_PRECONDITION", f"DuckDB has no type for {UNKNOWN_TO_DUCKDB[name]}")

    assert refusal(lambda: strange.flight_info(descriptor)) == expected
    assert refusal(lambda: strange.scan(descriptor, [0])) == expected
    assert refusal(lambda: strange.action("flight_info", {"descriptor": descriptor})) == expected


@pytest.mark.parametrize("name", sorted(UNKNOWN_TO_DUCKDB))
def test_ddl_that_duckdb_could_not_read_back_changes_nothing(client: Flight, name: str) -> None:
    """A column of such a type is refused before the table is made or altered."""
    kind = UNKNOWN_TO_DUCKDB[name]
    client.create_schema("db1", "s")
    client.create_table("db1", "s", "t", COLUMNS)
    change = {
        "catalog": "db1",
        "schema": "s",
        "name": "t",
        "column_schema": bytes(pa.schema([("v", kind)]).serialize()),
    }
    expected = ("FAILED_PRECONDITION", f"DuckDB has no type for {kind}")

    assert refusal(lambda: client.create_table("db1", "s", "u", pa.schema([("v", kind)]))) == expected
    assert refusal(lambda: client.action("add_column", change)) == expected
    assert [list(info.flight_descriptor.path)[2] for info in client.list_flights()] == ["t"]
    assert wire.schema_in(client.list_flights()[0]).names == ["n", "rowid"]
