from __future__ import annotations

import contextlib
from collections.abc import Iterator

from pyspark.sql import SparkSession

from sparkport.catalog import Call
from sparkport.spark.session.host import SparkHost
from sparkport.spark.session.jobs import Jobs


class Recorder:
    """Keeps the steps that it is told of, once they have ended."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, str]] = []

    @contextlib.contextmanager
    def step(self, name: str, table: str) -> Iterator[None]:
        """Keep a step."""
        yield
        self.steps.append((name, table))


def test_each_piece_of_work_is_a_step_of_its_call(spark: SparkSession, spark_host: SparkHost) -> None:
    """Whoever traces a call is told of its work in Spark, one by one."""
    del spark
    call, recorder = Call(), Recorder()
    call.meter.steps = recorder
    jobs = Jobs(spark_host)
    works = [lambda session: session.range(3).count()] * 2

    assert list(jobs.map_ordered(call, "lake.t", works, ahead=1)) == [3, 3]
    assert recorder.steps == [("Spark job", "lake.t")] * 2
    jobs.close()
