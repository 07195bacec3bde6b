"""Scans that nobody wants any more stop, and leave nothing behind."""

from __future__ import annotations

import contextlib
import functools
import glob
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from sparkport.catalog import Call, ScanOptions
from sparkport.errors import CancelledError, DeadlineExceededError
from sparkport.spark.engine import Engine
from sparkport.spark.read import sql_scan
from sparkport.spark.read.splits import SplitSizes
from sparkport.spark.session.host import SparkHost
from sparkport.spark.session.jobs import Jobs
from sparkport.spark.storage import lock_files
from sparkport.spark.worker.spool_writer import spool_partition
from tests.spark.read.lake import Lake

_PATIENCE = 30.0  # seconds, on a machine that does other things too


def active(spark: SparkSession) -> int:
    """Return how many jobs Spark works on."""
    return len(spark.sparkContext.statusTracker().getActiveJobsIds())


def spools() -> list[str]:
    """Return the folders of scans that are under way in this process."""
    return glob.glob(f"{tempfile.gettempdir()}/sparkport-spool-{lock_files.PROCESS}-*")  # noqa: PTH207


def eventually(condition: Callable[[], bool], seconds: float = _PATIENCE) -> float:
    """Wait until something holds and return how long it took."""
    begun = time.monotonic()
    while not condition():
        assert time.monotonic() - begun < seconds, "it never came to hold"
        time.sleep(0.02)
    return time.monotonic() - begun


@pytest.fixture
def finely(lake: Lake, spark_host: SparkHost) -> Iterator[Lake]:
    """Return the lake, read in many small units."""
    engine = Engine(spark_host, sizes=SplitSizes(in_server=0, first_task=700, task=700))
    yield lake.with_engine(engine)
    engine.jobs.close()


@pytest.fixture(scope="module", autouse=True)
def many(lake: Lake) -> None:
    """Make a table of thirty files."""
    lake.spark.range(0, 3000, 1, 30).write.format("delta").save(str(lake.root("many")))


def slow_rows(session: SparkSession) -> DataFrame:
    """Return a query whose every row takes long."""
    slow = "reflect('java.lang.Thread', 'sleep', 200L)"
    return session.range(0, 400, 1, 8).selectExpr("id", f"{slow} AS nothing").where("nothing IS NULL")


def test_a_scan_that_is_not_read_starts_no_job(finely: Lake) -> None:
    """Only whoever reads the first row makes Spark work."""
    readers = [finely.table("many").scan(Call(), ScanOptions()) for _ in range(20)]

    assert active(finely.spark) == 0
    assert spools() == []
    del readers


def test_a_stalled_scan_holds_no_task(finely: Lake) -> None:
    """A few units are read ahead and no more; then Spark is free for others, and the rest still comes."""
    readers = [finely.table("many").scan(Call(), ScanOptions()) for _ in range(3)]
    firsts = [reader.read_next_batch().num_rows for reader in readers]
    eventually(lambda: active(finely.spark) == 0)
    waiting = [sum(len(files) for _, _, files in os.walk(folder)) for folder in spools()]

    assert firsts == [100, 100, 100]
    assert len(waiting) == 3
    assert max(waiting) <= 4
    assert readers[0].read_all().num_rows == 2900
    assert finely.read("many").num_rows == 3000
    readers.clear()
    assert spools() == []


def test_fifty_abandoned_scans_leave_nothing(finely: Lake) -> None:
    """Dropped readers, cancelled calls and full limits end alike: no job, no folder, no more threads."""
    table = finely.table("many")
    threads = 0
    for number in range(50):
        call = Call()
        options = ScanOptions(limit=150) if number % 3 == 0 else ScanOptions()
        reader = table.scan(call, options)
        reader.read_next_batch()
        if number % 3 == 1:
            call.cancel()
            with pytest.raises(CancelledError):
                reader.read_all()
        elif number % 3 == 0:
            assert reader.read_all().num_rows == 50
        del reader
        threads = threads or threading.active_count()
    eventually(lambda: active(finely.spark) == 0)

    assert spools() == []
    assert threading.active_count() <= threads + 12
    assert finely.read("many").num_rows == 3000


def test_a_cancelled_query_stops_at_once(lake: Lake) -> None:
    """A client that goes away ends the work of Spark SQL, also what had not yet come to Spark."""
    call = Call()
    rows = sql_scan.scan(lake.engine.jobs, call, "slow", slow_rows, [])
    failures: list[BaseException] = []

    def read() -> None:
        try:
            list(rows)
        except CancelledError as error:
            failures.append(error)

    reading = threading.Thread(target=read)
    reading.start()
    eventually(lambda: active(lake.spark) > 0)
    call.cancel()
    eventually(lambda: active(lake.spark) == 0, 5)
    reading.join(5)

    assert len(failures) == 1
    assert not reading.is_alive()


def test_a_deadline_stops_a_query(lake: Lake) -> None:
    """Work ends with the time that its call has."""
    rows = sql_scan.scan(lake.engine.jobs, Call(timeout=1.5), "slow", slow_rows, [])

    with pytest.raises(DeadlineExceededError):
        list(rows)
    eventually(lambda: active(lake.spark) == 0, 5)


def test_rows_of_a_large_partition_come_while_it_is_computed(lake: Lake) -> None:
    """A partition need not fit anywhere; who has seen enough goes away, and nothing is left."""

    def query(session: SparkSession) -> DataFrame:
        return session.range(0, 1 << 40, 1, 1)

    rows = sql_scan.scan(lake.engine.jobs, Call(), "large", query, [pa.field("n", pa.int64())])
    first = next(rows)
    under_way = len(spools())
    del rows

    assert first.column("n")[0].as_py() == 0
    assert under_way == 1
    eventually(lambda: active(lake.spark) == 0, 5)
    eventually(lambda: spools() == [], 10)


def test_a_long_query_lets_others_have_their_turn(lake: Lake) -> None:
    """Its partitions are not all queued up at once before whatever comes later."""

    def query(session: SparkSession) -> DataFrame:
        slow = "reflect('java.lang.Thread', 'sleep', 200L)"
        return session.range(0, 80, 1, 80).selectExpr("id", f"{slow} AS nothing")

    columns = [pa.field("n", pa.int64()), pa.field("nothing", pa.string())]
    rows = sql_scan.scan(lake.engine.jobs, Call(), "long", query, columns)
    first = next(rows)
    found: list[pa.RecordBatch] = []
    reading = threading.Thread(target=lambda: found.extend(rows))
    reading.start()

    assert lake.read("many").num_rows == 3000
    assert reading.is_alive()
    reading.join(_PATIENCE)
    assert [row.as_py() for batch in [first, *found] for row in batch["n"]] == list(range(80))


def test_partitions_that_are_dropped_are_computed_again(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What a task leaves out, because the client reads slowly, comes in a later job; all rows come once."""
    spool = spool_partition

    def forgetful(folder: str, header: bytes, number: int, messages: Iterator[bytes]) -> Iterator[None]:
        is_new = not (tmp_path / str(number)).exists()
        (tmp_path / str(number)).touch()
        return iter(()) if is_new and number in {3, 4, 11} else spool(folder, header, number, messages)

    monkeypatch.setattr(sql_scan, "spool_partition", forgetful)
    rows = sql_scan.scan(
        lake.engine.jobs,
        Call(),
        "dropped",
        lambda session: session.range(0, 60, 1, 20),
        [pa.field("n", pa.int64())],
    )

    assert [row.as_py() for batch in rows for row in batch["n"]] == list(range(60))
    assert len(list(tmp_path.iterdir())) == 20


def test_large_partitions_come_whole_and_in_order(lake: Lake) -> None:
    """The files of a partition follow each other, and so do the partitions."""

    def query(session: SparkSession) -> DataFrame:
        return session.range(0, 6_000_000, 1, 2)

    rows = sql_scan.scan(lake.engine.jobs, Call(), "large", query, [pa.field("n", pa.int64())])

    assert pa.Table.from_batches(rows).column("n").combine_chunks().equals(pa.arange(0, 6_000_000))


def test_work_that_fills_all_threads_can_be_cancelled(lake: Lake, spark_host: SparkHost) -> None:
    """Cancelling does not wait for a thread of those whose work it is to end."""
    jobs = Jobs(spark_host)
    begun, release = threading.Semaphore(0), threading.Event()

    def work(number: int, session: SparkSession) -> int:
        begun.release()
        if number == 0:
            return slow_rows(session).count()
        release.wait(_PATIENCE)
        return number

    call = Call()
    results = jobs.map_ordered(call, "t", [functools.partial(work, number) for number in range(80)], ahead=80)
    reading = threading.Thread(target=_drained, args=[results])
    reading.start()
    for _ in range(64):
        assert begun.acquire(timeout=_PATIENCE)
    eventually(lambda: active(lake.spark) > 0)
    call.cancel()
    eventually(lambda: active(lake.spark) == 0, 5)
    release.set()
    reading.join(_PATIENCE)

    assert not reading.is_alive()
    jobs.close()


def _drained(results: Iterator[int]) -> None:
    with contextlib.suppress(CancelledError):
        list(results)
