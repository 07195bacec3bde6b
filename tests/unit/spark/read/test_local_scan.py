"""Scans in the server: their order, their errors, what they hold, and how they share the machine."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from sparkport.catalog import Call
from sparkport.errors import CancelledError, PreconditionError
from sparkport.spark.delta.log.actions import DataFile
from sparkport.spark.errors import MissingDataFileError
from sparkport.spark.model.columns import TableColumn
from sparkport.spark.read.file_scan import FileScan
from sparkport.spark.read.local_scan import LocalScan
from sparkport.spark.worker.parquet import ReadPlan

_NUMBER = pa.field("n", pa.int64())
_COLUMN = TableColumn(_NUMBER, _NUMBER, _NUMBER, "n")
_ROWS = 1000


def scan_of(folder: Path, files: int = 2, *, above: int | None = None, size: int | None = None) -> FileScan:
    """Write files with numbers and return a scan of them, in batches of ten rows."""
    written = []
    for number in range(files):
        path = folder / f"{number}.parquet"
        values = range(number * _ROWS, (number + 1) * _ROWS)
        pq.write_table(pa.table({"n": values}), path, row_group_size=100)
        written.append(DataFile(str(path), {}, size or path.stat().st_size, 0, physical_rows=_ROWS))
    plan = ReadPlan(
        (_COLUMN.read,),
        filter=None if above is None else pc.field("n") > above,
        filter_columns=() if above is None else (_COLUMN.read,),
        batch_rows=10,
    )
    return FileScan("s.t", str(folder), written, (_COLUMN,), plan, {}, {}, in_server=True)


def begun(local: LocalScan, scan: FileScan, call: Call | None = None) -> Iterator[pa.RecordBatch]:
    """Begin a scan for which there is memory."""
    batches = local.begin(call or Call(), scan)
    assert batches is not None
    return batches


def numbers(batches: Iterator[pa.RecordBatch]) -> list[int]:
    """Return all rows."""
    return [number for batch in batches for number in batch.column(0).to_pylist()]


def test_rows_come_in_the_order_of_the_files(tmp_path: Path) -> None:
    """In batches of at most the size that the plan asks for, none of them empty."""
    local = LocalScan(turns=1)
    batches = list(begun(local, scan_of(tmp_path)))

    assert numbers(iter(batches)) == list(range(2 * _ROWS))
    assert {batch.num_rows for batch in batches} == {10}
    assert numbers(begun(local, scan_of(tmp_path, above=2 * _ROWS - 3))) == [2 * _ROWS - 2, 2 * _ROWS - 1]


def test_errors_are_those_of_a_task(tmp_path: Path) -> None:
    """A file that is missing, cut, or replaced by something else."""
    local = LocalScan(turns=1)
    scan = scan_of(tmp_path)
    first, second = (Path(file.path) for file in scan.files)
    second.write_bytes(second.read_bytes()[:-50])
    batches = begun(local, scan)

    with pytest.raises(
        PreconditionError, match=r"^a data file of table 's\.t' cannot be read: it is damaged"
    ):
        list(batches)
    first.unlink()
    with pytest.raises(MissingDataFileError, match=r"^a data file of table 's\.t' was not found"):
        list(begun(local, scan))
    assert local.held == 0


def test_a_file_may_vanish_or_shrink_under_a_scan(tmp_path: Path) -> None:
    """What is open stays readable after its removal; a file that is cut is an error, not the server's end."""
    local = LocalScan(turns=1)
    scan = scan_of(tmp_path)
    batches = begun(local, scan)
    next(batches)
    Path(scan.files[0].path).unlink()
    Path(scan.files[1].path).unlink()

    with pytest.raises(MissingDataFileError):
        list(batches)

    scan = scan_of(tmp_path, files=1)
    path = Path(scan.files[0].path)
    chance = np.random.default_rng(1)
    pq.write_table(pa.table({"n": chance.integers(0, 1 << 60, 300_000)}), path, row_group_size=30_000)
    batches = begun(local, scan)
    next(batches)
    with path.open("r+b") as file:
        file.truncate(4)
    with pytest.raises(PreconditionError, match=r"^a data file of table 's\.t' cannot be read"):
        list(batches)


def test_memory_is_bounded_and_given_back(tmp_path: Path) -> None:
    """A scan for which there is no room is left to Spark; one that ends, fails or is dropped makes room."""
    scan = scan_of(tmp_path, size=4 << 20)
    local = LocalScan(turns=1, max_held_bytes=7 << 20)
    first = begun(local, scan)
    assert 4 << 20 < local.held < 6 << 20
    next(first)

    assert local.begin(Call(), scan) is None
    del first
    second = begun(local, scan)
    assert len(numbers(second)) == 2 * _ROWS
    assert local.held == 0
    begun(local, scan)  # never read
    assert local.held == 0


def test_a_cancelled_scan_ends_between_batches(tmp_path: Path) -> None:
    """Also where no row passes the filter, and none is ever sent."""
    local = LocalScan(turns=1)
    call = Call()
    batches = begun(local, scan_of(tmp_path), call)
    next(batches)
    call.cancel()
    with pytest.raises(CancelledError):
        next(batches)

    call = Call()
    batches = begun(local, scan_of(tmp_path, above=10 * _ROWS), call)
    call.cancel()
    with pytest.raises(CancelledError):
        next(batches)
    assert local.held == 0


def test_long_and_short_scans_take_turns(tmp_path: Path) -> None:
    """A scan that waits for its client lets others work, and each gets its turn in the order of asking."""
    local = LocalScan(turns=1)
    long = begun(local, scan_of(tmp_path))
    next(long)
    short = [begun(local, scan_of(tmp_path, files=1)) for _ in range(20)]
    ended = threading.Event()
    counted: list[int] = []

    def read_all() -> None:
        counted.append(len(numbers(long)))
        ended.set()

    reader = threading.Thread(target=read_all)
    reader.start()
    threads = [threading.Thread(target=lambda one=one: counted.append(len(numbers(one)))) for one in short]
    for thread in threads:
        thread.start()
    for thread in (reader, *threads):
        thread.join(60)

    assert ended.is_set()
    assert sorted(counted) == sorted([2 * _ROWS - 10, *[_ROWS] * 20])
    assert local.held == 0


def test_whoever_waits_for_a_turn_can_be_cancelled(tmp_path: Path) -> None:
    """And the turn goes to the next."""
    local = LocalScan(turns=1)
    holder = begun(local, scan_of(tmp_path))
    call = Call()
    waiting = begun(local, scan_of(tmp_path), call)
    with local.turn(Call()):
        thread = threading.Timer(0.1, call.cancel)
        thread.start()
        with pytest.raises(CancelledError):
            next(waiting)
    thread.join()

    assert len(numbers(holder)) == 2 * _ROWS
