from __future__ import annotations

import gc
import threading
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sparkport.catalog import Call
from sparkport.errors import (
    AlreadyExistsError,
    CancelledError,
    ConstraintViolationError,
    InvalidRequestError,
    NotFoundError,
    SparkportError,
)
from sparkport.spark.errors import MissingDataFileError, RejectedStatementError
from sparkport.spark.session.host import SparkHost
from sparkport.spark.session.settings import SparkSettings


def test_all_threads_get_the_same_session(spark: SparkSession, spark_host: SparkHost) -> None:
    """There is one session, whoever asks."""
    found: list[SparkSession] = []
    threads = [threading.Thread(target=lambda: found.append(spark_host.session(Call()))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found == [spark] * 4


def test_the_session_has_our_settings(spark: SparkSession) -> None:
    """What was set before the start is in force."""
    names = ("spark.sql.session.timeZone", "spark.sql.shuffle.partitions", "spark.driver.host")

    assert [spark.conf.get(name) for name in names] == ["UTC", "2", "127.0.0.1"]


def test_workers_do_not_look_through_their_modules_after_each_task(spark: SparkSession) -> None:
    """PySpark collects garbage after every task; what was imported before the fork is left out of that."""
    frozen = spark.sparkContext.parallelize([0], 1).map(lambda _: gc.get_freeze_count()).first()

    assert frozen > 10_000


def test_a_second_session_in_one_process_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """PySpark would silently hand out the first one, with the first one's settings."""
    second = SparkHost(SparkSettings(str(tmp_path)))

    with pytest.raises(SparkportError, match="this process already has a Spark session"):
        second.session(Call(timeout=10))
    assert spark.range(1).count() == 1


@pytest.mark.parametrize(
    ("statement", "kind", "message"),
    [
        ("select * from nowhere", NotFoundError, "table 'nowhere' not found"),
        ("select * from nowhere.t", NotFoundError, "table 'nowhere.t' not found"),
        ("select nothing from range(1)", NotFoundError, "column 'nothing' not found"),
        ("drop schema nowhere", NotFoundError, "schema 'nowhere' not found"),
        ("create schema default", AlreadyExistsError, "schema 'default' already exists"),
        ("select * from delta.`/no/such/folder`", NotFoundError, "table 'here.t' not found"),
        ("selec 1", RejectedStatementError, "Syntax error at or near 'selec' (line 1, position 1)"),
        ("select raise_error('no') from range(1)", InvalidRequestError, "no"),
    ],
)
def test_failing_statements_raise_our_errors(
    spark_host: SparkHost, statement: str, kind: type[Exception], message: str
) -> None:
    """Work in a `use` block fails in our terms, and the session stays."""
    with pytest.raises(kind) as raised, spark_host.use(Call(), "here.t") as spark:
        spark.sql(statement).collect()

    assert str(raised.value) == message


def test_a_violated_constraint_of_delta_is_told(spark_host: SparkHost) -> None:
    """Delta's own exceptions come through Py4J without a class of PySpark."""
    with spark_host.use(Call()) as spark:
        spark.sql("create table checked (a int) using delta")
        spark.sql("alter table checked add constraint positive check (a > 0)")
    with (
        pytest.raises(ConstraintViolationError, match="CHECK constraint of table 'checked' failed"),
        spark_host.use(Call(), "checked") as spark,
    ):
        spark.sql("insert into checked values (-1)")
    with spark_host.use(Call()) as spark:
        spark.sql("drop table checked")


def test_a_missing_data_file_is_told(spark_host: SparkHost, tmp_path: Path) -> None:
    """Spark's own reader names the reason; whether the file was vacuumed only the log knows."""
    folder = tmp_path / "t"
    with spark_host.use(Call()) as spark:
        spark.range(3).write.format("delta").save(str(folder))
    for file in folder.glob("*.parquet"):
        file.unlink()
    with (
        pytest.raises(
            MissingDataFileError, match=r"a data file of table 's.t' was not found: the log names it"
        ),
        spark_host.use(Call(), "s.t") as spark,
    ):
        spark.read.format("delta").load(str(folder)).collect()


def test_a_cancelled_job_is_told_as_cancelled(spark: SparkSession, spark_host: SparkHost) -> None:
    """Cancelling its group ends the call that waits for a job."""
    context = spark.sparkContext
    context.setJobGroup("to-cancel", "a long job", interruptOnCancel=True)

    def cancel_once_running() -> None:
        while not context.statusTracker().getJobIdsForGroup("to-cancel"):
            time.sleep(0.1)
        context.cancelJobGroup("to-cancel")

    canceller = threading.Thread(target=cancel_once_running, daemon=True)
    canceller.start()
    with pytest.raises(CancelledError), spark_host.use(Call()) as session:
        session.sql("select max(a.id ^ b.id) from range(10000000) a, range(1000000) b").collect()
    canceller.join()
    context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]


def test_errors_of_the_block_itself_pass(spark_host: SparkHost) -> None:
    """What is not Spark's is not explained as Spark's."""
    with pytest.raises(KeyError), spark_host.use(Call()):
        raise KeyError("mine")
