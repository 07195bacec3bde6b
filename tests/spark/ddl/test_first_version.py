"""The first version of a table, as the server writes it and as Delta does."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from sparkport.catalog import (
    Call,
    CreateSchemaOptions,
    CreateTableOptions,
    DropTableOptions,
    TableConstraints,
)
from sparkport.spark.catalog.catalog import SparkCatalog
from sparkport.spark.ddl.create import NewTable, create_delta, new_table
from sparkport.spark.ddl.first_version import can_write_first_version, write_first_version
from sparkport.spark.delta.log.spark_fields import SparkField
from tests.behaviour.samples import SAMPLES

INNER = pa.struct([("x", pa.int32()), ("deep", pa.list_(pa.struct([("y", pa.string())])))])
COLUMNS = pa.schema(
    [
        pa.field("key", pa.int64(), nullable=False),
        pa.field("nested", INNER),
        pa.field("by name", pa.map_(pa.string(), INNER)),
        *(pa.field(name, values.type) for name, values in SAMPLES.items()),
    ]
)
# What differs between any two tables, and who made them.
VARYING = {"id", "txnId", "timestamp", "createdTime", "engineInfo", "delta.columnMapping.physicalName"}


def by_both(folder: Path, table: NewTable, session: SparkSession) -> tuple[Path, Path]:
    """Let Delta and the server each make a table, and return their logs."""
    delta, server = folder / "delta", folder / "server"
    create_delta(replace(table, root=str(delta)), session)
    assert can_write_first_version(table.fields, table.properties)
    assert write_first_version(
        str(server), table.fields, table.comment, table.properties, table.partition_columns
    )
    return delta / "_delta_log", server / "_delta_log"


def comparable(value: object) -> object:
    """Return JSON, also within texts, without what varies; features and properties have no order."""
    match value:
        case dict():
            return {key: comparable(inner) for key, inner in value.items() if key not in VARYING}
        case list() if value and all(isinstance(one, str) for one in value):
            return sorted(value)
        case list():
            return [comparable(inner) for inner in value]
        case str() if value.startswith(("{", "[")):
            return comparable(json.loads(value))
        case _:
            return value


def first_version(log: Path) -> dict[str, Any]:
    """Return the actions of the first version by their kind."""
    lines = (log / f"{0:020d}.json").read_text().splitlines()
    return {key: comparable(value) for line in lines for key, value in json.loads(line).items()}


@pytest.mark.parametrize(("comment", "partitions"), [("", ()), ("what it is for", ("key", "date32"))])
def test_the_server_writes_what_delta_writes(
    tmp_path: Path, spark: SparkSession, comment: str, partitions: tuple[str, ...]
) -> None:
    """For every type, nested or not, columns, features and properties are the same, and the history too."""
    constraints = TableConstraints(primary_key=("key",))
    table = new_table("", COLUMNS, constraints, comment, partitions)
    by_delta, by_server = by_both(tmp_path, table, spark)

    assert first_version(by_server) == first_version(by_delta)
    checksums = [json.loads((log / f"{0:020d}.crc").read_text()) for log in (by_server, by_delta)]
    own, deltas = (dict(comparable(checksum)) for checksum in checksums)  # type: ignore[call-overload]
    assert own == {key: deltas[key] for key in own}


def test_spark_reads_and_writes_what_the_server_has_made(tmp_path: Path, spark: SparkSession) -> None:
    """Plain Spark takes the table for one of its own."""
    columns = pa.schema([pa.field("key", pa.int64(), nullable=False), pa.field("nested", INNER)])
    table = new_table("", columns, TableConstraints(), "")
    root = str(tmp_path / "t")
    write_first_version(root, table.fields, table.comment, table.properties)
    spark.sql(f"INSERT INTO delta.`{root}` (key, nested) VALUES (1, named_struct('x', 2, 'deep', array()))")
    spark.sql(f"UPDATE delta.`{root}` SET key = 3")

    found = spark.sql(f"SELECT key, nested.x FROM delta.`{root}`").collect()
    assert [tuple(row) for row in found] == [(3, 2)]
    with pytest.raises(Exception, match="NOT NULL"):
        spark.sql(f"INSERT INTO delta.`{root}` (key) VALUES (NULL)")


def test_a_name_that_was_dropped_is_another_table_to_spark(lake: SparkCatalog) -> None:
    """What Spark knows of a folder is forgotten when a new table comes to it."""
    schema = lake.create_schema(Call(), "s", CreateSchemaOptions())
    for column in ("a", "b"):
        rows = pa.table({column: pa.array([1], pa.int64())})
        table = schema.create_table(Call(), "t", rows.schema, CreateTableOptions())
        table.insert(Call(), rows.to_reader())
        session = lake.engine.host.session(Call())

        assert session.sql(f"SELECT * FROM delta.`{table.root}`").columns[0] == column
        schema.drop_table(Call(), "t", DropTableOptions())


@pytest.mark.parametrize(
    "field",
    [
        SparkField("v", "variant"),
        SparkField("v", "void"),
        SparkField("v", {"type": "struct", "fields": []}),
        SparkField("KEY", "long"),
        SparkField("v", "string", metadata={"__CHAR_VARCHAR_TYPE_STRING": "char(3)"}),
        SparkField("v", {"type": "array", "elementType": "void", "containsNull": True}),
        SparkField("v", {"type": "struct", "fields": [SparkField("x", "long", nullable=False).to_json()]}),
    ],
)
def test_what_delta_has_to_judge_is_left_to_it(field: SparkField) -> None:
    """Types and names on which Delta has conditions are not written without it."""
    table = new_table("", pa.schema([("key", pa.int64())]), TableConstraints(), "")

    assert can_write_first_version(table.fields, table.properties)
    assert not can_write_first_version([*table.fields, field], table.properties)


@pytest.mark.parametrize("key", ["delta.enableChangeDataFeed", "delta.columnMapping.mode", "delta.feature.x"])
def test_properties_that_ask_for_more_are_left_to_delta(key: str) -> None:
    """A property of Delta's that the server does not know is not written without it."""
    table = new_table("", pa.schema([("key", pa.int64())]), TableConstraints(), "")

    assert not can_write_first_version(table.fields, {**table.properties, key: "id"})
