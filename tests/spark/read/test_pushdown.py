"""Scans read no more than they must: columns, files, row groups, and nothing at all for a count."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from sparkport.catalog import Call, ScanOptions, ScanSlice
from sparkport.catalog.predicates import (
    And,
    Column,
    Comparison,
    ComparisonOperator,
    Constant,
    Expression,
    Function,
    In,
    IsNull,
    Not,
    Or,
    Unknown,
)
from sparkport.errors import NotFoundError
from sparkport.spark.read import arrow_scan
from sparkport.spark.read.file_scan import FileScan
from sparkport.spark.read.splits import ScanTask
from sparkport.spark.worker.parquet import FileSlice, ReadPlan
from tests.spark.read.lake import Lake, Way, ids

_ROWS = [
    {
        "id": number,
        "n": None if number % 11 == 0 else number % 7,
        "s": f"word {number % 13:02d}",
        "day": date(2024, 1 + number // 100, 1),
        "part": number // 100,
    }
    for number in range(400)
]


@pytest.fixture(scope="module", autouse=True)
def orders(lake: Lake) -> None:
    """Make a table of four files with four row groups each."""
    schema = "id BIGINT, n INT, s STRING, day DATE, part INT"
    frame = lake.spark.createDataFrame(pa.Table.from_pylist(_ROWS), schema).repartition("part")
    frame.sortWithinPartitions("id").write.format("delta").partitionBy("part").save(str(lake.root("orders")))


class Watched:
    """What the tasks of a scan were told to read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.plans: list[ReadPlan] = []
        self.pieces: list[FileSlice] = []
        original = arrow_scan._spool

        def spool(scan: FileScan, task: ScanTask, path: Path, session: SparkSession) -> Path:
            self.plans.append(scan.plan)
            self.pieces += scan.slices(task)
            return original(scan, task, path, session)

        monkeypatch.setattr(arrow_scan, "_spool", spool)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    """Return a witness of all work that scans hand to Spark."""
    return Watched(monkeypatch)


def compare(operator: str, column: str, value: object, kind: pa.DataType) -> Comparison:
    """Return a comparison of a column with a constant."""
    return Comparison(ComparisonOperator(operator), Column(column), Constant(pa.scalar(value, kind)))


_LATE = compare(">=", "day", date(2024, 4, 1), pa.date32())
_FILTERS: list[tuple[Expression, list[int]]] = [
    (compare("=", "id", 77, pa.int64()), [77]),
    (compare("<", "id", 3, pa.int64()), [0, 1, 2]),
    (And((compare(">", "id", 97, pa.int64()), compare("<=", "id", 101, pa.int64()))), [98, 99, 100, 101]),
    (And((IsNull(Column("n")), compare("<", "id", 30, pa.int64()))), [0, 11, 22]),
    (And((Not(IsNull(Column("n"))), compare("<", "id", 3, pa.int64()))), [1, 2]),
    (In(Column("id"), (Constant(pa.scalar(5)), Constant(pa.scalar(305)))), [5, 305]),
    (Or((compare("=", "id", 1, pa.int64()), compare("=", "id", 399, pa.int64()))), [1, 399]),
    (And((_LATE, compare("=", "s", "word 12", pa.string()))), [311, 324, 337, 350, 363, 376, 389]),
    (And((compare("=", "part", 2, pa.int32()), compare("=", "n", 0, pa.int32()))), [
        203, 210, 217, 224, 238, 245, 252, 259, 266, 273, 280, 287, 294,
    ]),
    (And((compare("is distinct from", "n", 3, pa.int32()), compare("<", "id", 5, pa.int64()))), [0, 1, 2, 4]),
    (And((Unknown("a macro"), compare("=", "id", 8, pa.int64()))), [8]),
    (
        And(
            (
                Function("prefix", (Column("s"), Constant(pa.scalar("word 1")))),
                compare("<", "id", 14, pa.int64()),
            )
        ),
        [10, 11, 12],
    ),
    (compare("=", "part", 9, pa.int32()), []),
]  # fmt: skip


@pytest.mark.parametrize(("predicate", "expected"), _FILTERS)
def test_filters_keep_exactly_the_matching_rows(
    lake: Lake, predicate: Expression, expected: list[int]
) -> None:
    """Where everything can be said to Arrow and to Spark, both give the rows that match and no others."""
    assert [row["id"] for row in lake.rows("orders", ScanOptions(("id",), predicate))] == expected


def test_unknown_filters_keep_all_rows(lake: Lake) -> None:
    """What cannot be said is left to the client, also inside of OR and NOT."""
    for predicate in (
        Unknown("a macro"),
        Or((Unknown("a macro"), compare("=", "id", 8, pa.int64()))),
        Not(And((Unknown("a macro"), compare("=", "id", 8, pa.int64())))),
    ):
        assert lake.read("orders", ScanOptions(("id",), predicate)).num_rows == 400


def test_files_that_cannot_match_are_not_read(lake: Lake, watched: Watched) -> None:
    """Partition values and the log's ranges tell which files have no matching row."""
    for predicate, files in (
        (compare("=", "part", 2, pa.int32()), 1),
        (compare(">=", "id", 250, pa.int64()), 2),
        (compare("=", "s", "zebra", pa.string()), 0),
        (compare("<", "day", date(2024, 2, 1), pa.date32()), 1),
        (And((compare("=", "part", 2, pa.int32()), compare("<", "id", 100, pa.int64()))), 0),
        (IsNull(Column("id")), 0),
        (None, 4),
    ):
        watched.pieces.clear()
        lake.read("orders", ScanOptions(("s",), predicate))

        assert len({piece.location for piece in watched.pieces}) == files


@pytest.mark.parametrize("mapping", ["none", "name"])
def test_fields_of_structs_are_tested_where_the_rows_are(lake: Lake, watched: Watched, mapping: str) -> None:
    """Files are left out by the bounds of a field, rows by its value; a NULL struct has NULL fields."""
    name = f"nested_{mapping}"
    lake.run(
        name,
        "CREATE TABLE {t} (id BIGINT, s STRUCT<f: INT, deep: STRUCT<word: STRING>>) USING delta"
        f" TBLPROPERTIES ('delta.columnMapping.mode' = '{mapping}')",
        "INSERT INTO {t} SELECT /*+ COALESCE(1) */ id, IF(id % 10 = 0, NULL, named_struct('f', INT(id),"
        " 'deep', IF(id % 10 = 1, NULL, named_struct('word', concat('w', id))))) FROM range(0, 50)",
        "INSERT INTO {t} SELECT /*+ COALESCE(1) */ id, named_struct('f', INT(id),"
        " 'deep', named_struct('word', concat('w', id))) FROM range(50, 100)",
    )

    def field(*path: str) -> Expression:
        found: Expression = Column("s")
        for part in path:
            found = Function("struct_extract", (found, Constant(pa.scalar(part))))
        return found

    def is_word(text: str) -> Comparison:
        return Comparison(ComparisonOperator.EQUAL, field("deep", "word"), Constant(pa.scalar(text)))

    def is_less(number: int) -> Comparison:
        limit = Constant(pa.scalar(number, pa.int32()))
        return Comparison(ComparisonOperator.LESS, field("f"), limit)

    for predicate, expected, files in (
        (is_less(4), [1, 2, 3], 1),
        (Not(is_less(97)), [97, 98, 99], 1),
        (is_word("w12"), [12], 1),
        (is_word("w11"), [], 0),
        (is_word("w40"), [], 1),
        (is_word("w77"), [77], 2),
        (is_less(-1), [], 0),
        (And((IsNull(field("f")), compare("<", "id", 25, pa.int64()))), [0, 10, 20], 1),
        (And((IsNull(field("deep", "word")), compare("<", "id", 12, pa.int64()))), [0, 1, 10, 11], 1),
    ):
        watched.pieces.clear()
        rows = lake.rows(name, ScanOptions(("id",), predicate))

        assert [row["id"] for row in rows] == expected
        assert len({piece.location for piece in watched.pieces}) == files


def test_only_the_columns_of_the_scan_are_read(lake: Lake, watched: Watched) -> None:
    """A task reads what is wanted and what is tested, in the order asked for, whatever the letter case."""
    found = lake.read("orders", ScanOptions(("s", "ID"), compare("=", "n", 1, pa.int32())))
    plan = watched.plans[0]

    assert found.schema.names == ["s", "id"]
    assert [column.physical.name for column in plan.columns] == ["s", "id"]
    assert [column.physical.name for column in plan.filter_columns] == ["n"]
    assert lake.read("orders", ScanOptions(("part", "s", "part"))).schema.names == ["part", "s"]


def test_a_count_needs_no_job(lake: Lake, watched: Watched) -> None:
    """Rows without columns are told by the log, as often as there are slices."""
    table = lake.table("orders")
    parts = [ScanOptions((), slice=ScanSlice(index, 3)) for index in range(3)]
    tracker = lake.spark.sparkContext.statusTracker()
    before = len(tracker.getJobIdsForGroup(None))
    counts = [table.scan(Call(), part).read_all().num_rows for part in parts]

    assert sum(counts) == 400
    assert lake.read("orders", ScanOptions(()), way=Way.SQL).num_rows == 400
    assert table.snapshot(Call(), None).row_count == 400
    assert watched.plans == []
    assert len(tracker.getJobIdsForGroup(None)) == before
    assert lake.read("orders", ScanOptions((), compare("=", "id", 3, pa.int64()))).num_rows == 1


def test_a_limit_ends_a_scan(lake: Lake) -> None:
    """A limit without a filter is kept exactly; with one it is the client's, who filters again."""
    for limit in (1, 99, 250, 400, 1000):
        assert lake.read("orders", ScanOptions(limit=limit)).num_rows == min(limit, 400)
        assert lake.read("orders", ScanOptions(limit=limit), way=Way.SQL).num_rows == min(limit, 400)
    assert lake.read("orders", ScanOptions(limit=0)).num_rows == 400
    assert len(ids(lake.read("orders", ScanOptions(limit=5, filter=_LATE)))) == 100


def test_unknown_columns_are_named(lake: Lake) -> None:
    """A column that is not there is told with the one that may be meant."""
    for way in Way:
        with pytest.raises(NotFoundError, match=r"column 'dya' not found. Did you mean 'day'"):
            lake.read("orders", ScanOptions(("dya",)), way=way)
    with pytest.raises(NotFoundError, match="column 'nope' not found"):
        lake.table("orders").column_statistics(Call(), "nope")
