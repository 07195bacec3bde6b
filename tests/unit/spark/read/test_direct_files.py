"""Files that DuckDB reads by itself: what its own reader gets from them, and which are left to the server."""

from __future__ import annotations

import decimal
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from sparkport.catalog.predicates import (
    And,
    Column,
    Comparison,
    ComparisonOperator,
    Constant,
    Expression,
    In,
)
from sparkport.catalog.rowid import rowid_field
from sparkport.catalog.scan import ScanOptions
from sparkport.spark.delta.log.actions import DataFile, DeletionVector
from sparkport.spark.model.columns import TableColumn
from sparkport.spark.read import direct_files as module
from sparkport.spark.read.direct_files import DirectFiles, direct_files
from sparkport.spark.read.planning import ScanPlan
from sparkport.spark.worker.parquet import ReadPlan
from tests.duckdb_calls import run_calls

NUMBER = pa.field("n", pa.int64())


def column(
    name: str,
    kind: pa.DataType,
    physical: str = "",
    *,
    is_partition: bool = False,
    field_id: int | None = None,
) -> TableColumn:
    """Return a column that is stored as clients see it, under a name of its own."""
    field = pa.field(name, kind)
    metadata = None if field_id is None else {"PARQUET:field_id": str(field_id)}
    return TableColumn(
        field, field, pa.field(physical or name, kind, metadata=metadata), name, is_partition=is_partition
    )


def written(
    folder: Path, rows: pa.Table, values: Mapping[str, str | None] | None = None, **options: Any
) -> DataFile:
    """Write a Parquet file."""
    path = folder / f"{len(list(folder.iterdir()))}.parquet"
    pq.write_table(rows, path, **options)
    return DataFile(str(path), values or {}, path.stat().st_size, 0, None, None, rows.num_rows)


def decided(
    files: Iterable[DataFile],
    columns: Iterable[TableColumn],
    predicate: Expression | None = None,
    **read: Any,
) -> DirectFiles:
    """Decide on a scan of these columns."""
    columns = tuple(columns)
    plan = ScanPlan(
        options=ScanOptions(filter=predicate),
        columns=columns,
        arrow_schema=pa.schema([column.exact for column in columns]),
        files=tuple(files),
        sql_reason=None,
        in_server=True,
        read=ReadPlan(tuple(column.read for column in columns), **read),
        first_numbers={},
        slice_count=1,
    )
    return direct_files(plan, "/t", columns)


def rows_of(found: DirectFiles, columns: Iterable[TableColumn]) -> list[dict[str, Any]]:
    """Return what DuckDB reads."""
    assert not found.rest, found.reasons
    return run_calls(found.calls, [column.exact.name for column in columns])


def test_columns_of_every_readable_type(tmp_path: Path) -> None:
    """DuckDB gets the same values under the clients' names."""
    rows = pa.table(
        {
            "bool": pa.array([True, None]),
            "int8": pa.array([1, None], pa.int8()),
            "int16": pa.array([1, None], pa.int16()),
            "int32": pa.array([1, None], pa.int32()),
            "int64": pa.array([1, None], pa.int64()),
            "float": pa.array([1.5, None], pa.float32()),
            "double": pa.array([1.5, None], pa.float64()),
            "decimal": pa.array([decimal.Decimal("1.25"), None], pa.decimal128(20, 2)),
            "text": pa.array(["x", None]),
            "bytes": pa.array([b"\x00", None]),
            "date": pa.array([0, None], pa.date32()),
            "local": pa.array([1, None], pa.timestamp("us")),
            "instant": pa.array([1, None], pa.timestamp("us", "UTC")),
            "list": pa.array([[{"a": 1}], None], pa.list_(pa.struct([("a", pa.int32())]))),
            'struct "s"': pa.array([{"b": "x", "c d": [1]}, None]),
        }
    )
    columns = [column(f"my {field.name}", field.type, field.name) for field in rows.schema]

    found = rows_of(decided([written(tmp_path, rows)], columns), columns)

    assert found == rows.rename_columns([column.exact.name for column in columns]).to_pylist()


def test_the_arrow_schema_that_a_writer_embeds_does_not_count(tmp_path: Path) -> None:
    """Views are for Arrow: in Parquet they are texts like others."""
    file = written(tmp_path, pa.table({"t": pa.array(["x"], pa.string_view())}))

    assert rows_of(decided([file], [column("t", pa.string())]), [column("t", pa.string())]) == [{"t": "x"}]


def test_partitions_and_columns_that_were_added_later_are_constants(tmp_path: Path) -> None:
    """Files with other constants are read by other calls."""
    columns = [
        column("n", pa.int64(), "c1"),
        column("later", pa.string(), "c2"),
        column("day", pa.date32(), "c3", is_partition=True),
        column("part", pa.string(), "c4", is_partition=True),
    ]
    rows = pa.table({"c1": [1]})
    files = [
        written(tmp_path, rows, {"c3": "2020-01-02", "c4": "it's"}),
        written(tmp_path, pa.table({"c1": [2], "c2": ["x"], "c4": ["stored too"]}), {"c3": None, "c4": ""}),
    ]

    found = rows_of(decided(files, columns), columns)

    assert [row["n"] for row in found] == [1, 2]
    assert [row["later"] for row in found] == [None, "x"]
    assert [str(row["day"]) for row in found] == ["2020-01-02", "None"]
    assert [row["part"] for row in found] == ["it's", None]


def test_columns_are_found_by_their_ids(tmp_path: Path) -> None:
    """Each file may have names of its own."""
    columns = [column("n", pa.int64(), "c1", field_id=7)]
    files = [
        written(
            tmp_path,
            pa.table(
                [pa.array([1])], pa.schema([pa.field("a", pa.int64(), metadata={"PARQUET:field_id": "7"})])
            ),
        ),
        written(
            tmp_path,
            pa.table(
                [pa.array([2])], pa.schema([pa.field("c1", pa.int64(), metadata={"PARQUET:field_id": "8"})])
            ),
        ),
    ]

    assert rows_of(decided(files, columns, by_id=True), columns) == [{"n": 1}, {"n": None}]


def test_numbers_that_were_widened_are_read(tmp_path: Path) -> None:
    """Old files have the narrower type."""
    file = written(tmp_path, pa.table({"n": pa.array([1], pa.int32())}))

    assert rows_of(decided([file], [column("n", pa.int64())]), [column("n", pa.int64())]) == [{"n": 1}]


def test_files_are_spread_over_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call is read by one thread."""
    files = [written(tmp_path, pa.table({"n": [number]})) for number in range(9)]
    monkeypatch.setattr(module, "_CALL_BYTES", 2 * files[0].size)

    found = decided(files, [column("n", pa.int64())])

    assert [len(call.arguments[0]) for call in found.calls] == [2, 2, 2, 2, 1]
    assert sorted(row["n"] for row in rows_of(found, [column("n", pa.int64())])) == list(range(9))


def test_files_that_duckdb_cannot_read_are_left_to_the_server(tmp_path: Path) -> None:
    """All others of the same scan are read directly."""
    plain = written(tmp_path, pa.table({"n": [1]}))
    vector = DataFile(plain.path, {}, 1, 0, None, DeletionVector("u", "x", 1, 1, 1), 1)
    other_type = written(tmp_path, pa.table({"n": ["1"]}))
    pattern = DataFile(str(tmp_path / "[a].parquet"), {}, 1, 0)
    missing = DataFile(str(tmp_path / "gone.parquet"), {}, 1, 0)

    found = decided([plain, vector, other_type, pattern, missing], [column("n", pa.int64())])

    assert [call.arguments[0] for call in found.calls] == [[plain.path]]
    assert found.rest == (vector, other_type, pattern, missing)
    assert found.reasons == (
        "files have deletion vectors",
        "files have column 'n' in another type",
        "the paths of files have characters that DuckDB takes for a pattern",
        "files cannot be read",
    )


@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        (
            TableColumn(NUMBER, NUMBER, NUMBER, "n", is_text_of_another=True),
            "not in files as clients see them",
        ),
        (TableColumn(NUMBER, NUMBER, NUMBER, "n", is_padded=True), "not in files as clients see them"),
        (TableColumn(pa.field("n", pa.uint32()), NUMBER, NUMBER, "n"), "not in files as clients see them"),
        (TableColumn(rowid_field("n"), NUMBER, NUMBER, "n"), "row ids"),
    ],
)
def test_columns_that_only_the_server_decodes_forbid_it(
    tmp_path: Path, odd: TableColumn, reason: str
) -> None:
    """No file is read directly then."""
    found = decided([written(tmp_path, pa.table({"n": [1]}))], [odd])

    assert not found.calls
    assert reason in found.reasons[0]


def test_fields_with_other_names_in_files_forbid_it(tmp_path: Path) -> None:
    """DuckDB would show the names of the files."""
    shown, stored = pa.struct([("a", pa.int32())]), pa.struct([("col-1", pa.int32())])
    odd = TableColumn(pa.field("s", shown), pa.field("s", shown), pa.field("col-0", stored), "s")

    assert not decided(
        [written(tmp_path, pa.table({"col-0": pa.array([{"col-1": 1}], stored)}))], [odd]
    ).calls


def test_lists_are_read_whatever_a_writer_calls_their_elements(tmp_path: Path) -> None:
    """Spark's are `element`, those of delta-rs `item`."""
    kind = pa.list_(pa.struct([("a", pa.list_(pa.int32()))]))
    rows = pa.table({"l": pa.array([[{"a": [1, None]}, None], [], None], kind)})
    file = written(tmp_path, rows, use_compliant_nested_type=False)
    columns = [column("l", kind)]

    assert rows_of(decided([file], columns), columns) == rows.to_pylist()


def test_files_that_were_vacuumed_meanwhile_are_left_to_the_server(tmp_path: Path) -> None:
    """It tells the client what has happened, also if it has read them before."""
    columns = [column("n", pa.int64())]
    file = written(tmp_path, pa.table({"n": [1]}))
    assert not decided([file], columns).rest

    Path(file.path).unlink()

    assert decided([file], columns).rest == (file,)


def test_fields_without_a_name_forbid_it(tmp_path: Path) -> None:
    """DuckDB has no such type."""
    rows = pa.table({"s": pa.array([{"": 1}])})

    assert not decided([written(tmp_path, rows)], [column("s", rows.schema.field("s").type)]).calls


def test_columns_of_a_file_that_differ_in_case_only_are_not_mixed_up(tmp_path: Path) -> None:
    """DuckDB, which finds columns in whatever case, would read the one for the other."""
    file = written(tmp_path, pa.table({"A": [1], "a": [2], "b": [3]}))

    assert decided([file], [column("n", pa.int64(), "A")]).rest == (file,)
    assert rows_of(decided([file], [column("b", pa.int64())]), [column("b", pa.int64())]) == [{"b": 3}]


def test_a_column_that_a_file_lacks_is_no_other_one_of_it(tmp_path: Path) -> None:
    """Whatever names the file has, and in whatever case."""
    columns = [column("n", pa.int64()), column("later", pa.int64(), "c2")]
    file = written(tmp_path, pa.table({"n": [1], "Absent 1": [2]}))

    assert rows_of(decided([file], columns), columns) == [{"n": 1, "later": None}]


def test_timestamps_of_96_bits_forbid_it(tmp_path: Path) -> None:
    """DuckDB would take instants for local times."""
    rows = pa.table({"t": pa.array([0], pa.timestamp("us"))})
    file = written(tmp_path, rows, use_deprecated_int96_timestamps=True)

    assert not decided([file], [column("t", pa.timestamp("us"))]).calls


def test_partition_values_that_duckdb_may_read_otherwise_forbid_it(tmp_path: Path) -> None:
    """Among them instants, which depend on a time zone."""
    file = written(tmp_path, pa.table({"n": [1]}), {"at": "2020-01-01 00:00:00"})

    assert not decided([file], [column("at", pa.timestamp("us", "UTC"), is_partition=True)]).calls


def test_few_row_groups_are_read_by_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It skips the others; DuckDB's reader does not get the filter."""
    monkeypatch.setattr(module, "_CALL_BYTES", 1)
    file = written(tmp_path, pa.table({"n": range(1000)}), row_group_size=100)
    number = column("n", pa.int64())

    few = decided([file], [number], filter=pc.field("n") == 5, filter_columns=(number.read,))
    many = decided([file], [number], filter=pc.field("n") > 5, filter_columns=(number.read,))

    assert few.reasons == ("the filter leaves few row groups of files",)
    assert few.table_reasons == []
    assert len(many.calls) == 1


@pytest.mark.parametrize(
    ("predicate", "highest", "is_read_by_server"),
    [
        (Comparison(ComparisonOperator.EQUAL, Column("n"), Constant(pa.scalar(5))), 999, True),
        (Comparison(ComparisonOperator.EQUAL, Constant(pa.scalar(5)), Column("n")), 999, True),
        (In(Column("n"), (Constant(pa.scalar(5)), Constant(pa.scalar(6)))), 999, True),
        (Comparison(ComparisonOperator.EQUAL, Column("n"), Constant(pa.scalar(5))), 8, False),
        (Comparison(ComparisonOperator.GREATER, Column("n"), Constant(pa.scalar(5))), 999, False),
    ],
)
def test_single_values_among_many_are_looked_up_by_the_server(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    predicate: Expression,
    highest: int,
    is_read_by_server: bool,
) -> None:
    """It decodes other columns only where there is such a value; DuckDB's reader would decode all of them."""
    monkeypatch.setattr(module, "_CALL_BYTES", 1)
    file = written(tmp_path, pa.table({"n": [number % (highest + 1) for number in range(1000)]}))
    file = replace(file, statistics=json.dumps({"minValues": {"n": 0}, "maxValues": {"n": highest}}))
    number = column("n", pa.int64())

    for whole in (predicate, And((predicate, Comparison(ComparisonOperator.LESS, Column("n"), Column("n"))))):
        found = decided([file], [number], whole, filter=pc.field("n") >= 0, filter_columns=(number.read,))

        assert found.reasons == (("the filter asks for single values",) if is_read_by_server else ())
        assert found.table_reasons == []
        assert len(found.calls) == (not is_read_by_server)
