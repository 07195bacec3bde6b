"""What tables say about themselves, their changes, and their upkeep."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from sparkport.catalog import Call, CreateTableOptions, ScanOptions
from sparkport.errors import CancelledError, InvalidRequestError, NotFoundError, PreconditionError
from sparkport.spark.catalog.catalog import SparkCatalog
from sparkport.spark.catalog.schema import SparkSchema
from sparkport.spark.sql_names import quoted
from sparkport.spark.table import DeltaTable

from .calling import columns, rows, table

NAME = 'the "odd" one'
COLUMNS = pa.schema([("n", pa.uint64()), ("text", pa.string())])


def inserted(into: DeltaTable, *numbers: int) -> None:
    """Insert a row for each number as one version."""
    data = {"n": pa.array(numbers, pa.uint64()), "text": [f"t{number}" for number in numbers]}
    into.insert(Call(), pa.table(data).to_reader())


def by_id(of: DeltaTable) -> dict[int, int]:
    """Return the numbers of the rows by the rows' ids."""
    found = of.scan(Call(), ScanOptions()).read_all()
    return dict(zip(found["rowid"].to_pylist(), found["n"].to_pylist(), strict=True))


@pytest.fixture(scope="module")
def odd(schema: SparkSchema, spark: SparkSession) -> DeltaTable:
    """Return a table with a change feed from version 2 on, and a row of each kind of change."""
    made = schema.create_table(Call(), NAME, COLUMNS, CreateTableOptions(comment="odd"))
    inserted(made, 1, 2)
    feed = "SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    spark.sql(f"ALTER TABLE delta.{quoted(made.root)} {feed}")
    inserted(made, 2**63, 4)
    ids = {number: row for row, number in by_id(made).items()}
    made.update(Call(), pa.array([ids[1]], pa.int64()), pa.table({"text": ["new"]}).to_reader())
    made.delete(Call(), pa.array([ids[4]], pa.int64()))
    return made


@pytest.fixture(scope="module")
def name(schema: SparkSchema, odd: DeltaTable) -> str:
    """Return the name of the table as an argument."""
    del odd
    return f'{schema.name}."the ""odd"" one"'


@pytest.fixture(scope="module")
def small(schema: SparkSchema) -> DeltaTable:
    """Return a table of two small files, one of which has lost a row."""
    made = schema.create_table(Call(), "small", COLUMNS, CreateTableOptions())
    inserted(made, 1, 2)
    inserted(made, 3)
    made.delete(Call(), pa.array([min(by_id(made))], pa.int64()))
    return made


def test_history_has_a_row_for_each_version(catalog: SparkCatalog, name: str) -> None:
    """Operation, parameters and metrics are Delta's; the newest version comes first."""
    found = rows(catalog, "history", name)

    assert [row["version"] for row in found] == [5, 4, 3, 2, 1, 0]
    operations = {row["version"]: row["operation"] for row in found}
    assert (operations[5], operations[4], operations[3]) == ("DELETE", operations[4], "WRITE")
    assert dict(found[0]["operation_metrics"])["numDeletedRows"] == "1"
    assert dict(found[2]["operation_parameters"])["mode"] == "Append"
    assert found[2]["is_blind_append"] is True
    assert found[0]["timestamp"].tzinfo is not None


def test_history_is_what_delta_says(catalog: SparkCatalog, small: DeltaTable, spark: SparkSession) -> None:
    """Though Spark has no part in it."""
    found = rows(catalog, "history", f"{small.schema}.small")
    expected = spark.sql(f"DESCRIBE HISTORY delta.`{small.root}`").toArrow().to_pylist()

    names = {name.replace("_", ""): name for name in found[0]}
    for ours, theirs in zip(found, expected, strict=True):
        shown = {names[key.lower()]: value for key, value in theirs.items() if key.lower() in names}
        assert _sorted_maps(ours) == _sorted_maps(shown)


def _sorted_maps(row: dict[str, Any]) -> dict[str, Any]:
    return {key: sorted(value) if isinstance(value, list) else value for key, value in row.items()}


def test_detail_names_no_folder_of_the_server(
    catalog: SparkCatalog, schema: SparkSchema, odd: DeltaTable, name: str
) -> None:
    """The location is below the warehouse; size and counts are of the newest version."""
    (row,) = rows(catalog, "detail", name)

    assert row["location"] == f"{schema.name}.db/{Path(odd.root).name}"
    assert (row["format"], row["name"], row["description"]) == ("delta", f"{schema.name}.{NAME}", "odd")
    assert (row["version"], row["num_rows"]) == (5, 3)
    assert row["size_in_bytes"] == sum(file["size"] for file in rows(catalog, "files", name))
    assert dict(row["properties"])["delta.enableChangeDataFeed"] == "true"
    assert "deletionVectors" in row["features"]
    assert row["created_at"] <= row["last_modified"]


def test_files_are_those_of_a_version(catalog: SparkCatalog, name: str, odd: DeltaTable) -> None:
    """Rows and bounds go by the names that clients know; an older version has its own files."""
    now, before = rows(catalog, "files", name), rows(catalog, "files", name, version=1)

    assert sum(file["rows"] for file in now) == 3
    assert [(file["rows"], file["deleted_rows"]) for file in before] == [(2, 0)]
    assert '"n": 1' in before[0]["min_values"]
    assert '"text": "t2"' in before[0]["max_values"]
    assert '"n": 0' in before[0]["null_counts"]
    assert (Path(odd.root) / before[0]["path"]).stat().st_size == before[0]["size"]
    with pytest.raises(NotFoundError):
        rows(catalog, "files", name, version=99)
    with pytest.raises(InvalidRequestError, match="versions count from 0"):
        columns(catalog, "files", name, version=-1)


def test_changes_have_the_types_of_the_table(catalog: SparkCatalog, name: str) -> None:
    """Every change of a range comes with its kind and version, without the hidden row id."""
    found = table(catalog, "table_changes", name, 3)

    assert found.schema.names == ["n", "text", "_change_type", "_commit_version", "_commit_timestamp"]
    assert found.schema.field("n").type == pa.uint64()
    changes = [tuple(row.values())[:4] for row in found.to_pylist()]
    assert sorted(changes, key=lambda row: (row[3], row[2], row[0])) == [
        (4, "t4", "insert", 3),
        (2**63, "t9223372036854775808", "insert", 3),
        (1, "new", "update_postimage", 4),
        (1, "t1", "update_preimage", 4),
        (4, "t4", "delete", 5),
    ]


def test_changes_end_where_they_are_told_to(catalog: SparkCatalog, name: str) -> None:
    """Versions and moments name a range, both ends of which are in it."""
    moments = {row["version"]: row["timestamp"] for row in rows(catalog, "history", name)}
    by_version = rows(catalog, "table_changes", name, 4, 4)
    by_time = rows(catalog, "table_changes", name, moments[4], moments[4])
    by_text = rows(catalog, "table_changes", name, str(moments[4].replace(tzinfo=None)), None)

    assert {row["_commit_version"] for row in by_version} == {4}
    assert by_time == by_version
    assert {row["_commit_version"] for row in by_text} == {4, 5}


@pytest.mark.parametrize(
    ("ends", "error", "message"),
    [
        ((0,), PreconditionError, "delta.enableChangeDataFeed' = 'true'"),
        ((5, 4), InvalidRequestError, "End cannot be before start"),
        ((99,), InvalidRequestError, "exceeds the latest table version 5"),
        ((-1,), InvalidRequestError, "there is no version -1"),
        (("soon",), InvalidRequestError, "cannot be converted to a valid timestamp"),
        ((datetime.now(UTC) + timedelta(days=9),), InvalidRequestError, "after the table's latest version"),
        ((None,), InvalidRequestError, "a version or a time to begin at"),
        ((1.5,), InvalidRequestError, "1.5 is neither a version nor a time"),
    ],
)
def test_a_range_without_changes_is_explained(
    catalog: SparkCatalog, name: str, ends: tuple[Any, ...], error: type[Exception], message: str
) -> None:
    """What is wrong with a range is said, and how changes get recorded."""
    with pytest.raises(error, match=message):
        rows(catalog, "table_changes", name, *ends)


@pytest.mark.parametrize("function", ["history", "detail", "files", "optimize", "vacuum"])
def test_a_table_is_found_by_its_name_alone(
    catalog: SparkCatalog, schema: SparkSchema, odd: DeltaTable, function: str
) -> None:
    """Folders, names of other catalogs and missing tables are refused before anything is done."""
    near = f'{schema.name}.`the "odd" on`'
    for bad in (f"delta.`{odd.root}`", f'default."{odd.root}"', f'"{schema.name}.."."x"', "nowhere.t"):
        with pytest.raises(NotFoundError):
            columns(catalog, function, bad)
    with pytest.raises(NotFoundError, match="Did you mean 'the \"odd\" one'"):
        columns(catalog, function, near)
    for wrong in ("a.b.c", "", None):
        with pytest.raises(InvalidRequestError):
            columns(catalog, function, wrong)


def test_optimize_joins_files_once_and_keeps_row_ids(catalog: SparkCatalog, small: DeltaTable) -> None:
    """Describing it does nothing; the rows tell how it went, and rows keep their ids and their values."""
    before = by_id(small)
    columns(catalog, "optimize", str(small))
    (untouched,) = rows(catalog, "detail", str(small))
    told = rows(catalog, "optimize", str(small))

    assert (untouched["version"], untouched["num_files"]) == (3, 2)
    assert [told[0]["state"], told[1]["state"], told[-1]["state"]] == ["waiting", "running", "finished"]
    assert (told[-1]["files_added"], told[-1]["files_removed"]) == (1, 2)
    assert told[-1]["bytes_removed"] > 0
    (detail,) = rows(catalog, "detail", str(small))
    assert (detail["version"], detail["num_files"]) == (4, 1)
    assert by_id(small) == before


def test_vacuum_keeps_to_the_retention_of_the_table(
    catalog: SparkCatalog, small: DeltaTable, spark: SparkSession
) -> None:
    """Files that older versions need are kept for a week, unless the table's own property says otherwise."""
    rows(catalog, "optimize", str(small))
    old = {file["path"] for file in rows(catalog, "files", str(small), version=2)}
    values = by_id(small)

    for hours in (0, 1):
        with pytest.raises(PreconditionError, match=r"delta\.deletedFileRetentionDuration"):
            rows(catalog, "vacuum", str(small), hours)
    with pytest.raises(InvalidRequestError, match="must be from 0 to 878400, not -1"):
        columns(catalog, "vacuum", str(small), hours=-1)
    assert all((Path(small.root) / path).exists() for path in old)
    spark.sql(
        f"ALTER TABLE delta.{quoted(small.root)} SET TBLPROPERTIES"
        " ('delta.deletedFileRetentionDuration' = 'interval 0 hours')"
    )
    done = rows(catalog, "vacuum", str(small), hours=0)[-1]
    assert done["state"] == "finished"
    assert done["files_removed"] >= 2
    assert done["bytes_removed"] > 0
    assert not any((Path(small.root) / path).exists() for path in old)
    assert by_id(small) == values


def test_maintenance_ends_with_its_call(catalog: SparkCatalog, small: DeltaTable) -> None:
    """A call that is over before its turn comes changes nothing."""
    before = catalog.engine.log(small.root).newest_version()
    call = Call()
    function = next(one for one in catalog.functions if one.name == "optimize")
    reader = function.execute(call, (str(small),), ScanOptions())
    assert reader.read_next_batch()["state"].to_pylist() == ["waiting"]
    call.cancel()

    with pytest.raises(CancelledError):
        reader.read_all()
    assert catalog.engine.log(small.root).newest_version() == before
