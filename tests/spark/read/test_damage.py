"""Damaged tables: the rest of the warehouse is not touched, and errors say what is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from sparkport.catalog import Call, ScanOptions
from sparkport.catalog.predicates import Column, Comparison, ComparisonOperator, Constant
from sparkport.errors import NotFoundError, PreconditionError, SparkportError
from tests.spark.delta.handwritten import FIELDS, HandwrittenTable, add, metadata, protocol
from tests.spark.read.lake import Lake, Way, ids


def written(lake: Lake, name: str) -> Path:
    """Make a table of one file and return it."""
    write_deltalake(str(lake.root(name)), pa.table({"id": [1, 2, 3]}))
    return next(lake.root(name).glob("*.parquet"))


def checked(error: SparkportError) -> str:
    """Return the text of an error, which must be fit for a client."""
    text = str(error)
    assert "Traceback" not in text
    assert "/tmp" not in text
    assert "org.apache" not in text
    assert "\n" not in text
    assert len(text) < 300
    return text


def refusal(lake: Lake, name: str, options: ScanOptions | None = None, way: Way = Way.TASKS) -> str:
    """Return why a table cannot be read."""
    with pytest.raises(SparkportError) as caught:
        lake.read(name, options, way=way)
    assert isinstance(caught.value, NotFoundError | PreconditionError)
    return checked(caught.value)


def listed(lake: Lake) -> list[str]:
    """Return the names of the tables that a client sees."""
    schema = lake.catalog.schema(Call(), lake.schema)
    assert schema is not None
    tables = schema.tables(Call())
    assert all(table.arrow_schema is not None for table in tables)
    return [table.name for table in tables]


@pytest.mark.parametrize("way", Way)
def test_a_missing_file_is_told(lake: Lake, way: Way) -> None:
    """A data file that is gone is no empty one."""
    name = f"missing-{way}"
    written(lake, name).unlink()

    assert refusal(lake, name, way=way) == (
        f"a data file of table '{lake.schema}.{name}' was not found:"
        " the log names it, but it is missing from the storage"
    )
    assert lake.table(name).snapshot(Call(), None).row_count == 3


@pytest.mark.parametrize("way", Way)
@pytest.mark.parametrize("damage", ["empty", "cut", "text", "middle"])
def test_a_damaged_file_is_told(lake: Lake, damage: str, way: Way) -> None:
    """A file that is not the Parquet it should be gives an error and no rows."""
    name = f"{damage}-{way}"
    path = written(lake, name)
    data = path.read_bytes()
    damaged = {
        "empty": b"",
        "cut": data[: len(data) // 2],
        "text": b"not parquet at all, but long enough to have had a footer",
        "middle": data[:4] + b"\xff" * 40 + data[44:],
    }
    path.write_bytes(damaged[damage])

    assert refusal(lake, name, way=way) == (
        f"a data file of table '{lake.schema}.{name}' cannot be read: it is damaged, or not what the log says"
    )


def test_another_type_in_a_file_is_told(lake: Lake) -> None:
    """A column that holds something else than the log says is not read as if it were that."""
    path = written(lake, "other-type")
    pq.write_table(pa.table({"id": ["one", "two", "three"]}), path)

    assert "cannot be read" in refusal(lake, "other-type")


def test_a_damaged_deletion_vector_is_told(lake: Lake) -> None:
    """Without its deletion vector no row of a file may be delivered."""
    lake.run(
        "vector",
        "CREATE TABLE {t} (id INT) USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
        "INSERT INTO {t} SELECT explode(sequence(1, 100))",
        "DELETE FROM {t} WHERE id = 5",
    )
    (path,) = lake.root("vector").glob("deletion_vector_*.bin")
    path.write_bytes(path.read_bytes()[:-6] + b"??????")
    for checksum in lake.root("vector").glob(".deletion_vector_*.crc"):
        checksum.unlink()

    assert "a deletion vector of table" in refusal(lake, "vector")
    assert refusal(lake, "vector", way=Way.SQL)
    path.unlink()
    assert "is missing" in refusal(lake, "vector")
    assert refusal(lake, "vector", way=Way.SQL)


_WRONG_SCHEMAS: list[Any] = [
    5,
    {},
    {"type": "struct"},
    {"type": "struct", "fields": {}},
    {"type": "struct", "fields": [5]},
    {"type": "struct", "fields": [{"name": "id"}]},
    {"type": "struct", "fields": [{"name": 5, "type": "long", "nullable": True}]},
    {"type": "struct", "fields": [FIELDS[0] | {"type": {"type": "array"}}]},
    {"type": "struct", "fields": [FIELDS[0] | {"type": {"type": "map", "keyType": "long"}}]},
    {"type": "struct", "fields": [FIELDS[0] | {"type": None}]},
    {"type": "struct", "fields": [FIELDS[0] | {"metadata": 5}]},
]


def test_a_table_whose_log_makes_no_sense_is_left_out(lake: Lake) -> None:
    """A listing has all other tables, and whoever asks for the broken one learns why it is not there."""
    written(lake, "healthy")
    for number, schema in enumerate(_WRONG_SCHEMAS):
        table = HandwrittenTable(lake.root(f"schema {number}"))
        table.commit(0, protocol(), metadata(schemaString=json.dumps(schema)))
    HandwrittenTable(lake.root("garbage")).write(f"{0:020d}.json", "{not json\n")
    HandwrittenTable(lake.root("binary")).log.mkdir(parents=True)
    (lake.root("binary") / "_delta_log" / f"{0:020d}.json").write_bytes(b"\xff\xfe\x00")
    HandwrittenTable(lake.root("headless")).commit(0, add("x.parquet"))
    HandwrittenTable(lake.root("gap")).commit(3, protocol(), metadata())
    HandwrittenTable(lake.root("begun")).log.mkdir(parents=True)
    (lake.root("begun") / "_delta_log" / "_commits").mkdir()
    (lake.root("no log at all")).mkdir()
    (lake.root("file")).write_text("just a file")
    names = listed(lake)

    assert "healthy" in names
    assert sorted(ids(lake.read("healthy"))) == [1, 2, 3]
    for name in (
        *(f"schema {number}" for number in range(len(_WRONG_SCHEMAS))),
        "garbage",
        "binary",
        "headless",
    ):
        assert name not in names
        assert "is damaged at version 0" in refusal(lake, name)
        assert "is damaged at version 0" in refusal(lake, name, way=Way.SQL)
    assert not {"begun", "no log at all", "file"} & set(names)
    assert "is damaged" in refusal(lake, "gap")


def test_statistics_that_make_no_sense_are_none(lake: Lake) -> None:
    """What cannot be understood of a file's statistics is not used to skip it."""
    path = written(lake, "odd-statistics")
    commit = lake.root("odd-statistics") / "_delta_log" / f"{0:020d}.json"
    lines = [json.loads(line) for line in commit.read_text().splitlines()]
    same = Comparison(ComparisonOperator.EQUAL, Column("id"), Constant(pa.scalar(2, pa.int64())))
    for odd in (
        '{"numRecords": 3, "minValues": {"id": ',
        '{"numRecords": 3, "minValues": [1], "maxValues": 5}',
        '{"numRecords": 3, "minValues": {"id": "x"}, "maxValues": {"id": true}, "nullCount": {"id": null}}',
        "{}",
    ):
        for line in lines:
            if "add" in line:
                line["add"]["stats"] = odd
        commit.write_text("".join(json.dumps(line) + "\n" for line in lines))

        assert ids(lake.read("odd-statistics", ScanOptions(filter=same))) == [2]
        assert not lake.table("odd-statistics").column_statistics(Call(), "id").minimum.is_valid
    assert path.exists()


def test_a_partition_value_that_is_none_is_told(lake: Lake) -> None:
    """A text that is no value of its column is named, and the rest of the row is not made up."""
    write_deltalake(str(lake.root("value")), pa.table({"id": [1], "p": [5]}), partition_by=["p"])
    commit = lake.root("value") / "_delta_log" / f"{0:020d}.json"
    commit.write_text(
        commit.read_text().replace('"partitionValues":{"p":"5"}', '"partitionValues":{"p":"five"}')
    )

    assert "the value 'five' in partition column 'p', which cannot be read as int64" in refusal(lake, "value")


def test_a_wrong_size_in_the_log_costs_no_row(lake: Lake) -> None:
    """How large a file is decides how work is cut, not which rows there are."""
    path = written(lake, "size")
    commit = lake.root("size") / "_delta_log" / f"{0:020d}.json"
    size = path.stat().st_size
    for wrong in (0, 5, size * 100):
        commit.write_text(commit.read_text().replace(f'"size":{size}', f'"size":{wrong}'))
        size = wrong

        assert sorted(ids(lake.read("size"))) == [1, 2, 3]


def test_a_log_that_cannot_be_read_is_left_out_and_told(lake: Lake) -> None:
    """A commit that is a folder stands for files that the server may not open."""
    written(lake, "whole")
    written(lake, "closed")
    commit = lake.root("closed") / "_delta_log" / f"{0:020}.json"
    commit.unlink()
    commit.mkdir()

    assert "whole" in listed(lake)
    assert "closed" not in listed(lake)
    assert (
        refusal(lake, "closed") == f"the log of table '{lake.schema}.closed' cannot be read: Is a directory"
    )


@pytest.mark.parametrize(
    "needed",
    [
        {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": ["fancy"],
            "writerFeatures": ["fancy"],
        },
        {"minReaderVersion": 9, "minWriterVersion": 9},
    ],
    ids=["feature", "version"],
)
def test_a_table_of_a_newer_delta_is_told(lake: Lake, needed: dict[str, Any]) -> None:
    """What neither we nor Spark can read is no internal error."""
    name = f"newer-{needed['minReaderVersion']}"
    written(lake, name)
    commit = lake.root(name) / "_delta_log" / f"{1:020}.json"
    commit.write_text(json.dumps({"protocol": needed}) + "\n")

    label = f"{lake.schema}.{name}"
    assert refusal(lake, name) == f"table '{label}' needs a newer version of Delta than this Spark has"
