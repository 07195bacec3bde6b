"""Files with nested columns and partitions that the server writes, read by another program."""

from __future__ import annotations

import json
import tempfile
from datetime import UTC, date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkport.errors import InvalidRequestError
from sparkport.spark.delta.files.data_files import NewFile, reason_against_writing, write_files
from sparkport.spark.delta.log.reader import DeltaLog
from sparkport.spark.delta.log.spark_fields import SparkType
from sparkport.spark.delta.statistics import StoredColumn, bounds
from tests.spark.delta.handwritten import HandwrittenTable, metadata, protocol

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
LONG = st.integers(-(2**63), 2**63 - 1)
NULLABLE = {"nullable": True, "metadata": {}}
INNER = pa.struct([("x", pa.int64()), ("y", pa.list_(pa.string()))])
NESTED = pa.schema(
    [
        ("id", pa.int64()),
        ("s", pa.struct([("a", pa.string()), ("b", pa.struct([("c", pa.float64()), ("d", pa.bool_())]))])),
        ("l", pa.list_(INNER)),
        ("m", pa.map_(pa.string(), pa.struct([("v", pa.decimal128(9, 2))]))),
    ]
)
ROW = st.fixed_dictionaries(
    {
        "id": st.none() | LONG,
        "s": st.none()
        | st.fixed_dictionaries(
            {
                "a": st.none() | TEXT,
                "b": st.none() | st.fixed_dictionaries({"c": st.floats(), "d": st.none() | st.booleans()}),
            }
        ),
        "l": st.none()
        | st.lists(
            st.none()
            | st.fixed_dictionaries(
                {"x": st.none() | LONG, "y": st.none() | st.lists(st.none() | TEXT, max_size=2)}
            ),
            max_size=3,
        ),
        "m": st.none()
        | st.dictionaries(
            TEXT,
            st.none()
            | st.fixed_dictionaries({"v": st.none() | st.decimals(-999, 999, allow_nan=False, places=2)}),
            max_size=2,
        ).map(lambda found: list(found.items())),
    }
)
PARTS = pa.schema(
    [
        ("n", pa.int64()),
        ("text", pa.string()),
        ("day", pa.date32()),
        ("moment", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("yes", pa.bool_()),
        ("money", pa.decimal128(20, 4)),
        ("small", pa.int16()),
    ]
)
PART = st.fixed_dictionaries(
    {
        "n": LONG,
        "text": st.sampled_from([None, "", "a/b=c", "%20 ü", "nul\x01", "__HIVE_DEFAULT_PARTITION__"]),
        "day": st.none() | st.dates(date(1, 1, 1)),
        "moment": st.none() | st.datetimes(timezones=st.just(UTC)),
        "local": st.none() | st.datetimes(),
        "yes": st.none() | st.booleans(),
        "money": st.none() | st.decimals(-(10**15), 10**15, allow_nan=False, places=4),
        "small": st.none() | st.integers(-(2**15), 2**15 - 1),
    }
)
WORDS: dict[pa.DataType, SparkType] = {
    pa.int64(): "long",
    pa.int16(): "short",
    pa.string(): "string",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.date32(): "date",
    pa.timestamp("us", "UTC"): "timestamp",
    pa.timestamp("us"): "timestamp_ntz",
}


def spark_type(kind: pa.DataType, numbers: list[int], *, mapped: bool) -> SparkType:
    """Return the type of a table's column; mapped fields have other names in files."""
    match kind:
        case pa.StructType():
            return {"type": "struct", "fields": [field_json(field, numbers, mapped=mapped) for field in kind]}
        case pa.ListType():
            element = spark_type(kind.value_type, numbers, mapped=mapped)
            return {"type": "array", "elementType": element, "containsNull": True}
        case pa.MapType():
            value = spark_type(kind.item_type, numbers, mapped=mapped)
            return {"type": "map", "keyType": "string", "valueType": value, "valueContainsNull": True}
        case pa.Decimal128Type():
            return f"decimal({kind.precision},{kind.scale})"
    return WORDS[kind]


def field_json(field: pa.Field, numbers: list[int], *, mapped: bool) -> dict[str, Any]:
    """Return a column as the log has it."""
    numbers.append(len(numbers) + 1)
    number = len(numbers)
    notes = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": f"col-{number}"}
    kind = spark_type(field.type, numbers, mapped=mapped)
    return {"name": field.name, "type": kind, "nullable": True, "metadata": notes if mapped else {}}


def made(root: Path, columns: pa.Schema, partitions: list[str], mode: str) -> HandwrittenTable:
    """Make an empty table."""
    table, numbers = HandwrittenTable(root), list[int]()
    fields = [field_json(field, numbers, mapped=mode != "none") for field in columns]
    names = ["timestampNtz", *(["columnMapping"] if mode != "none" else [])]
    features = {"minReaderVersion": 3, "minWriterVersion": 7}
    properties = {} if mode == "none" else {"delta.columnMapping.mode": mode}
    table.commit(
        0,
        protocol(**features, readerFeatures=names, writerFeatures=names),
        metadata(
            fields,
            partitionColumns=partitions,
            configuration=properties,
            format={"provider": "parquet", "options": {}},
        ),
    )
    return table


def written(table: HandwrittenTable, rows: pa.Table) -> list[NewFile]:
    """Write rows and commit them."""
    header = DeltaLog(str(table.root)).header()
    assert reason_against_writing(header.protocol, header.metadata) is None
    files = write_files(str(table.root), header.metadata, rows)
    table.commit(1, *(json.loads(file.action) for file in files))
    return files


def by_deltalake(root: Path) -> list[dict[str, Any]]:
    """Return what another program reads."""
    found = QueryBuilder().register("t", DeltaTable(str(root))).execute("SELECT * FROM t").read_all()
    rows: list[dict[str, Any]] = pa.table(found).to_pylist()
    return rows


def ordered(rows: list[dict[str, Any]]) -> list[str]:
    """Return rows as texts in order: NaN equals itself there."""
    return sorted(map(repr, rows))


@settings(max_examples=60, deadline=None)
@given(st.lists(ROW, min_size=1, max_size=6), st.sampled_from(["none", "name", "id"]), st.integers(0, 2))
def test_nested_rows_are_what_others_read(rows: list[dict[str, Any]], mode: str, cut: int) -> None:
    """Structs, lists and maps within each other, NULL at every depth, under all ways of column mapping."""
    whole = pa.Table.from_pylist(rows, NESTED)
    stored = pa.concat_tables([whole.slice(cut), whole.slice(0, cut)])  # in chunks, some of them slices
    with tempfile.TemporaryDirectory() as folder:
        table = made(Path(folder), NESTED, [], mode)
        (file,) = written(table, stored)
        physical = pq.read_schema(file.path)
        seen = by_deltalake(table.root)
        (known,) = DeltaLog(folder).snapshot().files

    assert ordered(seen) == ordered(whole.to_pylist())
    is_mapped = mode != "none"
    assert physical.field(1).name == ("col-2" if is_mapped else "s")
    inner = physical.field(1).type.field(1).type.field(1)
    assert inner.name == ("col-6" if is_mapped else "d")
    assert (inner.metadata or {}).get(b"PARQUET:field_id") == (b"6" if is_mapped else None)
    texts = [row["s"]["a"] for row in rows if row["s"] is not None and row["s"]["a"] is not None]
    path = ("col-2", "col-3") if is_mapped else ("s", "a")
    found = bounds(known, StoredColumn(path, pa.string()))
    assert found.null_count == len(rows) - len(texts)
    lists = bounds(known, StoredColumn(("col-7" if is_mapped else "l",), NESTED.field("l").type))
    assert lists.null_count == sum(row["l"] is None for row in rows)
    if texts:
        assert found.minimum is not None
        assert found.maximum is not None
        assert found.minimum.as_py() <= min(texts) <= max(texts) <= found.maximum.as_py()


@settings(max_examples=60, deadline=None)
@given(st.lists(PART, min_size=1, max_size=8), st.sampled_from(["none", "name"]))
def test_partitions_are_what_others_read(rows: list[dict[str, Any]], mode: str) -> None:
    """A file for each partition, whatever its values; an empty text is NULL, as Delta has it."""
    names = [field.name for field in PARTS if field.name != "n"]
    expected = [{**row, "text": row["text"] or None} for row in rows]
    with tempfile.TemporaryDirectory() as folder:
        table = made(Path(folder), PARTS, names, mode)
        files = written(table, pa.Table.from_pylist(rows, PARTS))
        columns = {tuple(pq.read_schema(file.path).names) for file in files}
        seen = by_deltalake(table.root)

    assert columns == {("col-1",) if mode == "name" else ("n",)}
    assert len(files) == len({repr([row[name] for name in names]) for row in expected})
    assert ordered(seen) == ordered(pa.Table.from_pylist(expected, PARTS).to_pylist())


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC")], ids=str)
def test_year_that_no_reader_knows_is_refused(tmp_path: Path, kind: pa.DataType) -> None:
    """Such a value has no text that readers agree on; nothing is left in the folder."""
    columns = pa.schema([("n", pa.int64()), ("p", kind)])
    table = made(tmp_path / "t", columns, ["p"], "none")
    far = pa.array([0, 2**31 - 1], pa.int32()).cast(pa.date32())
    values = far if kind == pa.date32() else pa.array([0, 2**62], pa.int64()).cast(kind)
    rows = pa.Table.from_arrays([pa.array([1, 2]), values], schema=columns)

    with pytest.raises(InvalidRequestError, match="years 1 to 9999"):
        written(table, rows)
    assert [path.name for path in table.root.iterdir()] == ["_delta_log"]


@pytest.mark.parametrize(
    ("fields", "partitions", "reason"),
    [
        ([{"name": "x", "type": "double", **NULLABLE}], ["x"], "partitions by columns"),
        ([{"name": "x", "type": "binary", **NULLABLE}], ["x"], "partitions by columns"),
        (
            [{"name": "s", "type": {"type": "struct", "fields": [{"name": "a", "type": "long"}]}}],
            [],
            "NOT NULL within",
        ),
        (
            [{"name": "l", "type": {"type": "array", "elementType": "long", "containsNull": False}}],
            [],
            "NOT NULL within",
        ),
        (
            [{"name": "l", "type": {"type": "array", "elementType": "variant", "containsNull": True}}],
            [],
            "NOT NULL within",
        ),
    ],
)
def test_what_only_spark_can_write_is_known(
    tmp_path: Path, fields: list[dict[str, Any]], partitions: list[str], reason: str
) -> None:
    """Where writers differ, or something would have to be checked in depth, files are left to Spark."""
    filled = json.loads(json.dumps(fields), object_hook=_filled)
    table = HandwrittenTable(tmp_path / "t")
    table.commit(0, protocol(), metadata(filled, partitionColumns=partitions))
    header = DeltaLog(str(table.root)).header()

    assert reason in (reason_against_writing(header.protocol, header.metadata) or "")


def _filled(found: dict[str, Any]) -> dict[str, Any]:
    return {"nullable": found.get("type") != "long", "metadata": {}, **found} if "name" in found else found


def test_decimals_of_partitions_keep_their_digits(tmp_path: Path) -> None:
    """Their text is plain, also where Python would write an exponent."""
    columns = pa.schema([("n", pa.int64()), ("p", pa.decimal128(38, 18))])
    table = made(tmp_path / "t", columns, ["p"], "none")
    values = [Decimal("0E-18"), Decimal("1E-18")]
    files = written(table, pa.Table.from_pylist([{"n": 1, "p": value} for value in values], columns))

    texts = sorted(json.loads(file.action)["add"]["partitionValues"]["p"] for file in files)
    assert texts == ["0.000000000000000000", "0.000000000000000001"]
