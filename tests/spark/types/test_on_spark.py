from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from sparkport.spark.delta.log.spark_fields import struct_fields, struct_json
from sparkport.spark.types import arrow_field, decode_batch, encode_batch, spark_field
from tests.behaviour.samples import GEOMETRY, SAMPLES

# Spark leaves the socket of `toArrow` to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")

ODD_NAMES = pa.struct(
    [("a.b", pa.uint8()), ("c`d", pa.large_string()), (" ,;{}()\n\t=", pa.list_(pa.uint16()))]
)
TWICE = pa.map_(pa.uint8(), pa.string())
PLAIN = """
    SELECT true AS bool, 1Y AS byte, 2S AS short, 3 AS int, 4L AS long, CAST(5 AS float) AS float,
        6D AS double, 7.5BD AS decimal, 'x' AS text, CAST('ab' AS char(2)) AS char, X'00ff' AS binary,
        DATE'2020-02-29' AS date, TIMESTAMP'2020-01-01 00:00:00' AS instant,
        TIMESTAMP_NTZ'2020-01-01 00:00:00' AS local, array(1, null) AS list, map('k', 1L) AS map,
        named_struct('a', 1, 'b', array(named_struct('c', 'd'))) AS struct
"""


@pytest.fixture
def schema(spark: SparkSession) -> Iterator[str]:
    """Return the name of a schema of tables for one test; timestamps are written as the engine does."""
    spark.sql("CREATE SCHEMA types_on_storage")
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    yield "types_on_storage"
    spark.conf.unset("spark.sql.parquet.outputTimestampType")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    spark.sql("DROP SCHEMA types_on_storage CASCADE")


def everything() -> pa.RecordBatch:
    """Return one column of every type, with names that SQL would have to quote."""
    columns = {f"{name}, `{at}`.x": array for at, (name, array) in enumerate(SAMPLES.items())}
    odd = {"a.b": 255, "c`d": "x", " ,;{}()\n\t=": [1, None]}
    columns["odd names"] = pa.array([odd, None, odd, odd], ODD_NAMES)
    columns["key twice"] = pa.array([[(1, "a"), (1, "b")], [], None, [(2, None)]], TWICE)
    fields = [pa.field(name, array.type) for name, array in columns.items()]
    fields.append(GEOMETRY.with_name("geometry"))
    arrays = [*columns.values(), pa.array([b"\x01", b"", None, b"x"])]
    return pa.record_batch(arrays, schema=pa.schema(fields))


def bits(array: pa.Array) -> pa.Array:
    """Return something that equals when all values are the same, NaN and the sign of zero included."""
    if isinstance(array, pa.DictionaryArray):
        return array.dictionary.take(array.indices)
    widths = {pa.float16(): pa.int16(), pa.float32(): pa.int32(), pa.float64(): pa.int64()}
    return array.view(widths[array.type]) if array.type in widths else array


def assert_same(found: pa.RecordBatch, expected: pa.RecordBatch) -> None:
    """Compare column by column, so that a failure names its column."""
    assert found.schema.equals(expected.schema, check_metadata=True)
    for name in expected.schema.names:
        assert bits(found.column(name)).equals(bits(expected.column(name))), name


@pytest.mark.timeout(300)
def test_every_type_survives_spark_and_delta(spark: SparkSession, schema: str, tmp_path: Path) -> None:
    """Staged rows that Spark appends to a Delta table come back exactly, from its files and through Spark."""
    exact = everything()
    table = f"{schema}.everything"
    fields = [spark_field(field) for field in exact.schema]
    stored = StructType.fromJson(struct_json(fields))
    empty = spark.createDataFrame([], stored)
    empty.write.format("delta").option("delta.columnMapping.mode", "name").saveAsTable(table)
    pq.write_table(pa.Table.from_batches([encode_batch(exact, exact.schema)]), tmp_path / "staged.parquet")

    staged = spark.read.schema(stored).parquet(str(tmp_path / "staged.parquet"))
    staged.write.format("delta").mode("append").saveAsTable(table)

    kept = struct_fields(spark.table(table).schema.jsonValue())
    arrow_schema = pa.schema([arrow_field(field) for field in kept])
    files = [pq.ParquetFile(file.removeprefix("file://")) for file in spark.table(table).inputFiles()]
    [batch] = [file.read().combine_chunks().to_batches()[0] for file in files if file.metadata.num_rows]
    from_file = batch.rename_columns(arrow_schema.names)
    [from_spark] = spark.table(table).toArrow().combine_chunks().to_batches()
    assert arrow_schema.equals(exact.schema, check_metadata=True)
    assert_same(decode_batch(from_file, arrow_schema), exact)
    assert_same(decode_batch(from_spark, arrow_schema), exact)


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
def test_plain_tables_have_the_usual_types(spark: SparkSession, schema: str, zone: str) -> None:
    """A table that Spark alone made has Spark's own types, and its instants do not depend on the session."""
    spark.sql(f"CREATE TABLE {schema}.plain USING delta AS {PLAIN}")
    spark.conf.set("spark.sql.session.timeZone", zone)

    fields = struct_fields(spark.table(f"{schema}.plain").schema.jsonValue())
    arrow_schema = pa.schema([arrow_field(field) for field in fields])
    [batch] = spark.table(f"{schema}.plain").toArrow().to_batches()
    [file] = spark.table(f"{schema}.plain").inputFiles()
    from_file = pq.ParquetFile(file.removeprefix("file://")).read().combine_chunks().to_batches()[0]
    assert arrow_schema == pa.schema(
        [
            ("bool", pa.bool_()),
            ("byte", pa.int8()),
            ("short", pa.int16()),
            ("int", pa.int32()),
            ("long", pa.int64()),
            ("float", pa.float32()),
            ("double", pa.float64()),
            ("decimal", pa.decimal128(2, 1)),
            ("text", pa.string()),
            ("char", pa.string()),
            ("binary", pa.binary()),
            ("date", pa.date32()),
            ("instant", pa.timestamp("us", "UTC")),
            ("local", pa.timestamp("us")),
            ("list", pa.list_(pa.int32())),
            ("map", pa.map_(pa.string(), pa.int64())),
            (
                "struct",
                pa.struct([("a", pa.int32()), ("b", pa.list_(pa.struct([("c", pa.string())])))]),
            ),
        ]
    )
    decoded = decode_batch(batch, arrow_schema)
    assert decoded == decode_batch(from_file, arrow_schema)
    assert decoded.column("instant").cast(pa.int64()).to_pylist() == [1_577_836_800_000_000]
    assert decoded.column("local").cast(pa.int64()).to_pylist() == [1_577_836_800_000_000]
    assert decoded.column("struct").to_pylist() == [{"a": 1, "b": [{"c": "d"}]}]
