"""Reading Parquet as Spark's tasks do, without Spark."""

from __future__ import annotations

import itertools
import pickle
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from sparkport.spark.worker.parquet import POSITION, ColumnRead, FileSlice, ReadPlan, blobs, read, write_spool

WHOLE = 1 << 62


def column(
    name: str, kind: pa.DataType, physical: str | None = None, number: int | None = None
) -> ColumnRead:
    """Return a column that is called `physical` in files, or has a number there."""
    details = None if number is None else {"PARQUET:field_id": str(number)}
    return ColumnRead(pa.field(physical or name, kind, metadata=details), pa.field(name, kind))


def written(folder: Path, table: pa.Table, **options: Any) -> str:
    """Write a Parquet file and return its path."""
    path = folder / "file.parquet"
    pq.write_table(table, path, **options)
    return str(path)


def rows(plan: ReadPlan, piece: FileSlice) -> list[dict[str, Any]]:
    """Return what reading a piece gives."""
    return [row for batch in read(plan, piece) for row in batch.to_pylist()]


def test_columns_get_their_names_from_the_plan(tmp_path: Path) -> None:
    """Files have physical names, clients see logical ones, in the order of the plan."""
    path = written(tmp_path, pa.table({"col-1": [1, 2], "col-2": ["a", None], "col-3": [0.5, 1.5]}))
    plan = ReadPlan((column("text", pa.string(), "col-2"), column("number", pa.int64(), "col-1")))

    assert rows(plan, FileSlice(path, 0, WHOLE)) == [{"text": "a", "number": 1}, {"text": None, "number": 2}]


def test_columns_are_found_by_number_where_files_have_numbers(tmp_path: Path) -> None:
    """With column mapping by id, names in files mean nothing."""
    fields = [
        pa.field("x", pa.int64(), metadata={"PARQUET:field_id": "7"}),
        pa.field("y", pa.int64(), metadata={"PARQUET:field_id": "3"}),
    ]
    path = written(tmp_path, pa.table([[1], [2]], schema=pa.schema(fields)))
    plan = ReadPlan((column("a", pa.int64(), "y", 7), column("b", pa.int64(), "x", 3)), by_id=True)

    assert rows(plan, FileSlice(path, 0, WHOLE)) == [{"a": 1, "b": 2}]


def test_column_that_a_file_does_not_have_is_null(tmp_path: Path) -> None:
    """Files written before ADD COLUMN stay as they are."""
    path = written(tmp_path, pa.table({"a": [1]}))
    plan = ReadPlan((column("a", pa.int64()), column("b", pa.list_(pa.string()))))

    assert rows(plan, FileSlice(path, 0, WHOLE)) == [{"a": 1, "b": None}]


def test_narrow_values_are_widened(tmp_path: Path) -> None:
    """A column whose type was widened reads the same from old files."""
    old = pa.table({"n": pa.array([1], pa.int32()), "f": pa.array([0.5], pa.float32())})
    plan = ReadPlan((column("n", pa.int64()), column("f", pa.float64())))
    found = list(read(plan, FileSlice(written(tmp_path, old), 0, WHOLE)))

    assert found[0].schema == pa.schema([("n", pa.int64()), ("f", pa.float64())])
    assert found[0].to_pylist() == [{"n": 1, "f": 0.5}]


def test_fields_of_structs_are_found_wherever_they_are_nested(tmp_path: Path) -> None:
    """Physical names, missing fields and order count inside lists, maps and structs too."""
    inner = pa.struct([("p2", pa.string()), ("p1", pa.int32())])
    stored = pa.table(
        {
            "l": pa.array([[{"p2": "x", "p1": 1}, None], None, []], pa.list_(inner)),
            "m": pa.array([[("k", {"p2": "y", "p1": 2})], [], None], pa.map_(pa.string(), inner)),
        }
    )
    physical = pa.struct([("p1", pa.int64()), ("p2", pa.string()), ("p3", pa.bool_())])
    wanted = pa.struct([("a", pa.int64()), ("b", pa.string()), ("c", pa.bool_())])
    plan = ReadPlan(
        (
            ColumnRead(pa.field("l", pa.list_(physical)), pa.field("l", pa.list_(wanted))),
            ColumnRead(
                pa.field("m", pa.map_(pa.string(), physical)), pa.field("m", pa.map_(pa.string(), wanted))
            ),
        )
    )
    piece = FileSlice(written(tmp_path, stored), 0, WHOLE)

    assert rows(plan, piece) == [
        {"l": [{"a": 1, "b": "x", "c": None}, None], "m": [("k", {"a": 2, "b": "y", "c": None})]},
        {"l": None, "m": []},
        {"l": [], "m": None},
    ]


def test_nested_values_survive_small_batches(tmp_path: Path) -> None:
    """Batches are slices of what is decoded, and conforming a slice takes its own values only."""
    inner = pa.struct([("p", pa.int32())])
    values = [None if i % 7 == 0 else [{"p": j} for j in range(i % 4)] for i in range(100)]
    path = written(tmp_path, pa.table({"l": pa.array(values, pa.list_(inner))}))
    wanted = pa.list_(pa.struct([("a", pa.int64())]))
    plan = ReadPlan(
        (ColumnRead(pa.field("l", pa.list_(inner)), pa.field("l", wanted)),),
        filter=pc.field("l").is_valid(),
        filter_columns=(ColumnRead(pa.field("l", pa.list_(inner)), pa.field("l", wanted)),),
        batch_rows=9,
    )
    expected = [[{"a": item["p"]} for item in value] for value in values if value is not None]

    assert [row["l"] for row in rows(plan, FileSlice(path, 0, WHOLE))] == expected


def test_partition_values_come_from_the_plan(tmp_path: Path) -> None:
    """A partition column is not in the file; should it be, the log is right."""
    path = written(tmp_path, pa.table({"a": [1, 2], "day": ["wrong", "wrong"]}))
    plan = ReadPlan((column("day", pa.string()), column("a", pa.int64())))
    piece = FileSlice(path, 0, WHOLE, constants=(("day", pa.scalar("monday")),))

    assert rows(plan, piece) == [{"day": "monday", "a": 1}, {"day": "monday", "a": 2}]


def test_deleted_rows_are_left_out_across_row_groups(tmp_path: Path) -> None:
    """The positions of a deletion vector count from the beginning of the file."""
    path = written(tmp_path, pa.table({"n": range(1000)}), row_group_size=100)
    kept = np.ones(1000, np.bool_)
    kept[[0, 99, 100, 555, 999]] = False
    plan = ReadPlan((column("n", pa.int64()),), batch_rows=30)
    piece = FileSlice(path, 0, WHOLE, kept=np.packbits(kept, bitorder="little").tobytes())
    found = [row["n"] for row in rows(plan, piece)]

    assert found == [n for n in range(1000) if n not in {0, 99, 100, 555, 999}]


def test_pieces_of_a_file_are_together_the_file(tmp_path: Path) -> None:
    """Every row group belongs to exactly one of the ranges that a file is cut into."""
    path = written(tmp_path, pa.table({"n": range(1000), "s": ["x" * 20] * 1000}), row_group_size=70)
    size = Path(path).stat().st_size
    cuts = [size * i // 5 for i in range(6)]
    plan = ReadPlan((column("n", pa.int64()),))
    found = [
        row["n"]
        for start, stop in itertools.pairwise(cuts)
        for row in rows(plan, FileSlice(path, start, stop))
    ]

    assert found == list(range(1000))


def test_filter_skips_row_groups_and_rows(tmp_path: Path) -> None:
    """Rows that do not match do not come, even with columns that are read for the filter alone."""
    path = written(
        tmp_path, pa.table({"n": range(1000), "s": [str(i) for i in range(1000)]}), row_group_size=100
    )
    number = column("n", pa.int64())
    plan = ReadPlan(
        (column("s", pa.string()),),
        filter=(pc.field("n") > 250) & (pc.field("n") < 253),
        filter_columns=(number,),
    )

    assert rows(plan, FileSlice(path, 0, WHOLE)) == [{"s": "251"}, {"s": "252"}]


@pytest.mark.parametrize(("number", "damaged_from", "expected"), [(3, 0.0, []), (20, 0.5, [{"s": "20"}])])
def test_columns_are_not_decoded_where_or_after_no_row_matches(
    tmp_path: Path, number: int, damaged_from: float, expected: list[dict[str, str]]
) -> None:
    """What the filter tests is read first: damage to other columns where it is never true does not matter."""
    table = pa.table({"n": range(0, 20_000, 2), "s": [str(i) for i in range(0, 20_000, 2)]})
    path = written(
        tmp_path, table, use_dictionary=False, compression="none", data_page_size=512, write_batch_size=64
    )
    texts = pq.read_metadata(path).row_group(0).column(1)
    start = texts.data_page_offset + int(texts.total_compressed_size * damaged_from)
    with Path(path).open("r+b") as file:
        file.seek(start)
        file.write(b"\xff" * (texts.data_page_offset + texts.total_compressed_size - start))
    plan = ReadPlan(
        (column("s", pa.string()),),
        filter=pc.field("n") == number,
        filter_columns=(column("n", pa.int64()),),
        batch_rows=100,
    )

    assert rows(plan, FileSlice(path, 0, WHOLE)) == expected
    with pytest.raises((OSError, pa.ArrowInvalid), match=r"Invalid|deserialize"):
        rows(ReadPlan(plan.columns), FileSlice(path, 0, WHOLE))


def test_filter_on_a_column_that_the_file_lacks_sees_nulls(tmp_path: Path) -> None:
    """Skipping has no opinion then; the rows are tested with null."""
    path = written(tmp_path, pa.table({"n": [1, 2]}))
    added = column("later", pa.int64())
    plan = ReadPlan((column("n", pa.int64()),), filter=pc.field("later").is_null(), filter_columns=(added,))
    none = ReadPlan((column("n", pa.int64()),), filter=pc.field("later") > 0, filter_columns=(added,))

    assert rows(plan, FileSlice(path, 0, WHOLE)) == [{"n": 1}, {"n": 2}]
    assert rows(none, FileSlice(path, 0, WHOLE)) == []


def test_rows_without_columns_are_counted(tmp_path: Path) -> None:
    """COUNT(*) with a filter reads no column that is not tested."""
    path = written(tmp_path, pa.table({"n": range(10)}))
    plan = ReadPlan((), filter=pc.field("n") < 3, filter_columns=(column("n", pa.int64()),))

    assert sum(batch.num_rows for batch in read(plan, FileSlice(path, 0, WHOLE))) == 3
    assert sum(batch.num_rows for batch in read(ReadPlan(()), FileSlice(path, 0, WHOLE))) == 10


def test_old_timestamps_are_read_as_microseconds(tmp_path: Path) -> None:
    """Spark's first form of timestamps, 96 bits wide, reaches further than nanoseconds do."""
    stamps = pa.array([-62135596800000000, 0, 253402300799999999], pa.timestamp("us"))
    path = written(tmp_path, pa.table({"t": stamps}), use_deprecated_int96_timestamps=True)
    plan = ReadPlan((column("t", pa.timestamp("us", "UTC")),))
    found = pa.Table.from_batches(list(read(plan, FileSlice(path, 0, WHOLE))))

    assert found["t"].cast(pa.int64()).to_pylist() == [-62135596800000000, 0, 253402300799999999]


def test_spooled_rows_are_an_arrow_stream(tmp_path: Path) -> None:
    """The file that a task leaves has the schema of the plan, also without rows."""
    path = written(tmp_path, pa.table({"n": range(10)}))
    plan = ReadPlan((column("n", pa.int64()),))
    target = tmp_path / "spool" / "0"
    target.parent.mkdir()
    counts = list(write_spool(plan, [FileSlice(path, 0, WHOLE)] * 2, str(target), iter([0])))

    assert counts == [20]
    assert pa.ipc.open_stream(target.read_bytes()).read_all()["n"].to_pylist() == [*range(10), *range(10)]


def test_task_stops_when_nobody_waits_for_its_rows(tmp_path: Path) -> None:
    """The folder of a scan that was cancelled is gone; what is read then is in vain."""
    path = written(tmp_path, pa.table({"n": range(1000)}))
    target = tmp_path / "spool" / "0"
    target.parent.mkdir()
    plan = ReadPlan((column("n", pa.int64()),), batch_rows=1)

    class Removing(list[FileSlice]):
        def __iter__(self) -> Any:
            yield FileSlice(path, 0, WHOLE)
            target.unlink()
            target.parent.rmdir()
            yield FileSlice(path, 0, WHOLE)
            pytest.fail("the second piece was read to its end")

    assert list(write_spool(plan, Removing(), str(target), iter([0]))) == []


def test_blobs_are_messages_of_the_plans_schema(tmp_path: Path) -> None:
    """From other machines rows come as binary values, one for each batch."""
    path = written(tmp_path, pa.table({"n": range(5)}))
    plan = ReadPlan((column("n", pa.int64()),), batch_rows=3)
    found = list(blobs(plan, [FileSlice(path, 0, WHOLE)], iter([pa.record_batch({"id": [0]})])))
    schema = pa.schema([("n", pa.int64())])
    batches = [pa.ipc.read_record_batch(batch["blob"][0].as_buffer(), schema) for batch in found]

    assert [batch["n"].to_pylist() for batch in batches] == [[0, 1, 2], [3, 4]]


def test_plans_travel_to_other_processes() -> None:
    """Everything in a plan and in a piece can be pickled, filters too."""
    plan = ReadPlan((column("n", pa.int64()),), filter=pc.field("n") > 3)
    piece = FileSlice("/a", 0, 1, constants=(("d", pa.scalar(1, pa.date32())),), kept=b"\x01")
    again_plan, again_piece = pickle.loads(pickle.dumps((plan, piece)))

    assert again_plan.filter.equals(plan.filter)
    assert again_piece == piece


def test_rows_without_an_id_get_the_number_of_their_place(tmp_path: Path) -> None:
    """Numbers count all rows of the file downwards, deleted ones too; a filter sees them, ids stay."""
    table = pa.table({"n": list(range(6)), "id": pa.array([None, 7, None, None, 9, None], pa.int64())})
    path = written(tmp_path, table, row_group_size=2)
    id_column = column("rowid", pa.int64(), "id")
    kept = np.packbits([1, 1, 0, 1, 1, 1], bitorder="little").tobytes()
    piece = FileSlice(path, 0, WHOLE, (), kept, first_number=-1000)
    plan = ReadPlan((column("n", pa.int64()), id_column), id_name="id")
    below = ReadPlan(
        (id_column,), id_name="id", filter=pc.field("id") < pc.scalar(-1002), filter_columns=(id_column,)
    )

    assert [row["rowid"] for row in rows(plan, piece)] == [-1000, 7, -1003, 9, -1005]
    assert rows(below, piece) == [{"rowid": -1003}, {"rowid": -1005}]
    assert [row["rowid"] for row in rows(plan, FileSlice(path, 0, WHOLE))] == [None, 7, None, None, 9, None]


def test_table_without_a_column_for_ids_gets_numbers_too(tmp_path: Path) -> None:
    """All rows of a file that has no ids are numbered, also where nothing of it is read."""
    path = written(tmp_path, pa.table({"n": [1, 2]}))
    plan = ReadPlan((column("rowid", pa.int64(), "no such column"),), id_name="no such column")

    assert rows(plan, FileSlice(path, 0, WHOLE, first_number=-50)) == [{"rowid": -50}, {"rowid": -51}]


def test_repeated_texts_are_read_by_their_dictionaries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only texts of the table itself that are nearly all repeated, and what comes out are texts."""
    count = 20_000
    words = [None if number % 11 == 0 else ("red", "grün", "")[number % 3] for number in range(count)]
    table = pa.table(
        {
            "words": pa.array(words, pa.string()),
            "dotted.words": pa.array(words, pa.string()),
            "none": pa.nulls(count, pa.string()),
            "names": [f"name {number}" for number in range(count)],
            "large": pa.array(words, pa.large_string()),
            "coded": pa.array(words, pa.string()).dictionary_encode(),
            "fields": pa.array([{"words": word} for word in words], pa.struct([("words", pa.string())])),
            "lists": pa.array([[word] for word in words], pa.list_(pa.string())),
        }
    )
    path = written(tmp_path, table, row_group_size=6_000)
    asked: list[list[str]] = []
    opened = pq.ParquetFile

    def open_file(*arguments: Any, read_dictionary: list[str], **options: Any) -> pq.ParquetFile:
        asked.append(read_dictionary)
        return opened(*arguments, read_dictionary=read_dictionary, **options)

    monkeypatch.setattr(pq, "ParquetFile", open_file)
    kinds = {field.name: field.type for field in table.schema} | {"coded": pa.string()}
    plan = ReadPlan(tuple(column(name, kind) for name, kind in kinds.items()), batch_rows=1_000)
    found = pa.Table.from_batches(read(plan, FileSlice(path, 0, WHOLE)))

    assert asked == [["words", "dotted.words", "none"]]
    assert found.schema.types == list(kinds.values())
    assert found.to_pylist() == table.to_pylist()


@pytest.mark.parametrize("seed", range(20))
def test_filtered_rows_are_those_of_the_whole_file(tmp_path: Path, seed: int) -> None:
    """Whatever the sizes of batches and row groups, what is deleted, and which columns are tested."""
    chance = random.Random(seed)
    count = chance.randrange(1, 3000)
    table = pa.table(
        {
            "n": [chance.choice([None, *range(20)]) for _ in range(count)],
            "day": pa.array([chance.randrange(1000) for _ in range(count)], pa.date32()),
            "word": [chance.choice(["red", "green", None]) for _ in range(count)],
            "list": [[chance.randrange(5)] * chance.randrange(3) for _ in range(count)],
        }
    )
    path = written(tmp_path, table, row_group_size=chance.randrange(50, 2000), data_page_size=256)
    kept = [chance.random() < 0.9 for _ in range(count)]
    bits = np.packbits(np.array(kept, np.bool_), bitorder="little").tobytes()
    low = chance.randrange(-5, 1005)
    condition = (pc.field("day") > pa.scalar(low, pa.int32()).cast(pa.date32())) & (pc.field("word") == "red")
    columns = [column(name, table.schema.field(name).type) for name in ("list", "n", "day")]
    position = ColumnRead(pa.field(POSITION, pa.int64()), pa.field(POSITION, pa.int64()))
    plan = ReadPlan(
        (*columns, position),
        filter=condition,
        filter_columns=(column("day", pa.date32()), column("word", pa.string())),
        batch_rows=chance.randrange(1, 700),
    )
    piece = FileSlice(path, 0, WHOLE, kept=bits if chance.random() < 0.7 else None)

    numbered = table.append_column(POSITION, pa.array(range(count)))
    left = numbered.filter(pa.array(kept)) if piece.kept is not None else numbered
    expected = left.filter(condition).select(["list", "n", "day", POSITION])
    for mapped in (True, False):
        found = pa.Table.from_batches(list(read(plan, piece, mapped=mapped)), expected.schema)
        assert found.to_pylist() == expected.to_pylist()


@pytest.mark.parametrize("filtered", [False, True])
def test_views_are_read_as_plain_texts(tmp_path: Path, filtered: bool) -> None:
    """Writers such as delta-rs ask for views, which Arrow can neither take nor filter."""
    table = pa.table(
        {
            "n": range(6),
            "t": pa.array(["a", "b", None] * 2, pa.string_view()),
            "b": pa.array([b"a", b"b", None] * 2, pa.binary_view()),
            "l": pa.array([["a", None], None] * 3, pa.list_(pa.string_view())),
            "s": pa.array([{"x": "a"}, None] * 3, pa.struct([("x", pa.string_view())])),
            "m": pa.array([[("k", "v")], None] * 3, pa.map_(pa.string_view(), pa.string_view())),
        }
    )
    kinds = {
        "n": pa.int64(),
        "t": pa.string(),
        "b": pa.binary(),
        "l": pa.list_(pa.string()),
        "s": pa.struct([("x", pa.string())]),
        "m": pa.map_(pa.string(), pa.string()),
    }
    columns = tuple(column(name, kind) for name, kind in kinds.items())
    plan = ReadPlan(columns)
    if filtered:
        plan = replace(plan, filter=pc.field("t") == "b", filter_columns=columns[1:2])
    kept = FileSlice(written(tmp_path, table), 0, WHOLE, kept=bytes([0b111110]))

    expected = table.to_pylist()
    assert rows(plan, kept) == ([expected[1], expected[4]] if filtered else expected[1:])


def test_row_groups_are_skipped_by_texts_that_were_written_as_views(tmp_path: Path) -> None:
    """Statistics count whatever schema the writer left: damage to row groups that cannot match is not met."""
    names = [f"name {number:04d}" for number in range(1000)]
    table = pa.table({"t": pa.array(names, pa.string_view()), "n": range(1000)})
    path = written(tmp_path, table, row_group_size=100, compression="none", use_dictionary=False)
    first = pq.read_metadata(path).row_group(0).column(0)
    with Path(path).open("r+b") as file:
        file.seek(first.data_page_offset)
        file.write(b"\xff" * first.total_compressed_size)
    text = column("t", pa.string())
    plan = ReadPlan(
        (text, column("n", pa.int64())), filter=pc.field("t") == "name 0750", filter_columns=(text,)
    )

    assert rows(plan, FileSlice(path, 0, WHOLE)) == [{"t": "name 0750", "n": 750}]
    with pytest.raises((OSError, pa.ArrowInvalid), match=r"Invalid|deserialize"):
        rows(ReadPlan(plan.columns), FileSlice(path, 0, WHOLE))
