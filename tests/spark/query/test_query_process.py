"""The process that queries run in: time limits, errors on their way out of it, and its death."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from sparkport.catalog import Call, ScanOptions
from sparkport.errors import CancelledError, DeadlineExceededError, InvalidRequestError, UnavailableError
from sparkport.spark.catalog.catalog import SparkCatalog
from sparkport.spark.query.function import Query
from sparkport.spark.query.process import ProcessRunner
from sparkport.spark.query.tables import BoundQuery, NamedTable
from sparkport.spark.session.host import SparkHost
from tests.e2e.spark.lake import await_gone, command, descendants

# Computed while the plan is optimised, so that there is no task to cancel; Java tries for longer than a test.
_ENDLESS = "SELECT repeat('a', 60) || '!' RLIKE '^(.*a){25}$' AS v"
# Computed while it is analysed.
_ENDLESS_ANALYSIS = "SELECT v FROM VALUES (repeat('a', 60) || '!' RLIKE '^(.*a){25}$') AS t(v)"
_MANY = "SELECT id FROM range(0, 100000000, 1, 8)"


@pytest.fixture(scope="module")
def runner(catalog: SparkCatalog, spark_host: SparkHost) -> Iterator[ProcessRunner]:
    """Return a process with a Spark of its own that has answered a query."""
    made = ProcessRunner(spark_host.settings, catalog._scalars.pickled)
    assert made.table_names(Call(timeout=200), "SELECT * FROM a.b") == [NamedTable(("a", "b"), 14, 16)]
    yield made
    made.stop()


def _read(query: Query, sql: str) -> pa.Table:
    return query.execute(Call(), [sql], ScanOptions()).read_all()


def _await_answer(runner: ProcessRunner) -> None:
    """Wait until a query is answered: soon after its Spark was lost one may still meet the old one."""
    deadline = time.monotonic() + 200
    while True:
        try:
            assert runner.table_names(Call(timeout=200), "SELECT 1 AS one") == []
        except UnavailableError:
            assert time.monotonic() < deadline, "queries are not answered"
        else:
            return


def test_a_query_that_runs_out_of_time_says_so_and_ends(catalog: SparkCatalog, runner: ProcessRunner) -> None:
    """Also where Spark cannot cancel it; then its Spark is replaced, and the next query is answered."""
    query = Query(catalog, runner, max_seconds=8)
    assert runner.process_id is not None
    java = [child for child in descendants(runner.process_id) if "java" in command(child).split("\0", 1)[0]]
    begun, answered_late = time.monotonic(), False
    with ThreadPoolExecutor(2) as threads:
        endless = [threads.submit(_read, query, sql) for sql in (_ENDLESS, _ENDLESS_ANALYSIS)]
        while not any(future.done() for future in endless):
            started = time.monotonic()
            assert runner.spark_schema(Call(timeout=60), BoundQuery("SELECT 1 AS one"))
            is_late = started - begun > 4 and not any(future.done() for future in endless)
            answered_late = answered_late or is_late
        for future in endless:
            with pytest.raises(DeadlineExceededError, match=r"longer than 8 seconds.*--query-timeout"):
                future.result()

    assert answered_late  # others were analysed meanwhile
    assert time.monotonic() - begun < 25
    assert len(java) == 1
    await_gone(java)
    _await_answer(runner)


def test_the_clients_own_deadline_is_not_taken_for_the_servers(
    catalog: SparkCatalog, runner: ProcessRunner
) -> None:
    """The sentence says whose limit it was."""
    query = Query(catalog, runner, max_seconds=600)
    with pytest.raises(DeadlineExceededError, match="the deadline of the call has passed"):
        query.execute(Call(timeout=2), [_MANY], ScanOptions()).read_all()


def test_a_cancelled_call_ends_at_once(catalog: SparkCatalog, runner: ProcessRunner) -> None:
    """Whatever Spark is doing for it."""
    call = Call()
    threading.Timer(1.0, call.cancel).start()
    begun = time.monotonic()
    with pytest.raises(CancelledError):
        Query(catalog, runner, max_seconds=600).execute(call, [_MANY], ScanOptions()).read_all()

    assert time.monotonic() - begun < 20


def test_a_query_whose_process_dies_may_be_tried_again(catalog: SparkCatalog, runner: ProcessRunner) -> None:
    """It is UNAVAILABLE, and the next one gets another process."""
    _await_answer(runner)
    reader = Query(catalog, runner, max_seconds=600).execute(Call(), [_MANY], ScanOptions())
    reader.read_next_batch()
    before = runner.process_id
    assert before is not None
    os.kill(before, signal.SIGKILL)
    with pytest.raises(UnavailableError, match="try again"):
        reader.read_all()

    _await_answer(runner)
    assert runner.process_id != before


def test_a_reader_that_stops_early_leaves_nothing_running(
    catalog: SparkCatalog, runner: ProcessRunner
) -> None:
    """The rest is cancelled, and others have the processors."""
    reader = Query(catalog, runner, max_seconds=600).execute(Call(), [_MANY], ScanOptions())
    reader.read_next_batch()
    del reader
    result = Query(catalog, runner, max_seconds=600).execute(Call(), ["SELECT 1 AS one"], ScanOptions())

    assert result.read_all().to_pylist() == [{"one": 1}]


def test_a_process_that_hangs_keeps_no_query_beyond_its_time(
    catalog: SparkCatalog, runner: ProcessRunner
) -> None:
    """The server looks at the clock itself."""
    _await_answer(runner)
    assert runner.process_id is not None
    os.kill(runner.process_id, signal.SIGSTOP)
    begun = time.monotonic()
    try:
        with pytest.raises(DeadlineExceededError, match=r"longer than 1 seconds.*--query-timeout"):
            Query(catalog, runner, max_seconds=1).execute(Call(), ["SELECT 1 AS one"], ScanOptions())
    finally:
        os.kill(runner.process_id, signal.SIGCONT)

    assert time.monotonic() - begun < 10
    _await_answer(runner)


def test_a_stopped_runner_starts_no_process(catalog: SparkCatalog, spark_host: SparkHost) -> None:
    """A server that stops does not begin anew."""
    stopped = ProcessRunner(spark_host.settings, catalog._scalars.pickled)
    stopped.stop()

    with pytest.raises(UnavailableError, match="stopping"):
        stopped.table_names(Call(), "SELECT 1 AS one")
    assert stopped.process_id is None


def test_errors_keep_their_class_and_words(catalog: SparkCatalog, runner: ProcessRunner) -> None:
    """Those that the process raises are those that clients get."""
    query = Query(catalog, runner, max_seconds=600)
    with pytest.raises(InvalidRequestError, match="Division by zero"):
        query.execute(Call(), ["SELECT 1 / id AS v FROM range(1)"], ScanOptions()).read_all()
