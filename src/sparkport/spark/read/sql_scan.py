"""Scans by Spark SQL, for everything that Arrow does not read."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from typing import Any

import pyarrow as pa
from pyspark import RDD
from pyspark.serializers import NoOpSerializer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.util import _load_from_socket

from sparkport.catalog.call import Call
from sparkport.spark.read.spool import Partitions, spool_folder
from sparkport.spark.session.jobs import Jobs, Work
from sparkport.spark.worker.spool_writer import spool_partition

_AHEAD = 4
_PARTITIONS_PER_CORE = 4
_LOOK_SECONDS = 0.1

Query = Callable[[SparkSession], DataFrame]


def scan(
    jobs: Jobs, call: Call, table: str, query: Query, stored: Sequence[pa.Field]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a query, whose columns go by position under the names of `stored`.

    Spark's own way to collect Arrow piles the whole result up in the driver and blocks other jobs while a
    client stalls.
    """
    names = [field.name for field in stored]
    capabilities = jobs.host.capabilities
    if capabilities.local_tasks:
        rows = _spooled(jobs, call, table, query)
    elif capabilities.job_groups:
        rows = _collected(jobs, call, table, query)
    else:
        rows = jobs.stream(call, table, lambda session: _over_connect(query(session)))
    for batch in rows:
        yield pa.RecordBatch.from_arrays(batch.columns, names) if names else batch.select([])


def _spooled(jobs: Jobs, call: Call, table: str, query: Query) -> Iterator[pa.RecordBatch]:
    """Yield rows that tasks leave in files, while they write more: a partition may be of any size.

    A job has some partitions, whose tasks begin in order. Between jobs others have their turn.
    """
    rdd, arrow_schema = jobs.run(call, table, functools.partial(_prepared, query))
    header = arrow_schema.serialize().to_pybytes()
    count = rdd.getNumPartitions()
    turn = _PARTITIONS_PER_CORE * jobs.host.settings.cores
    with spool_folder() as folder:
        partitions = Partitions(folder)
        task = functools.partial(spool_partition, str(folder), header)
        while partitions.current < count:
            numbers = range(partitions.current, min(partitions.current + turn, count))
            work = functools.partial(_spool, rdd, task, numbers)
            with closing(jobs.run_with_progress(call, table, work, seconds=_LOOK_SECONDS)) as running:
                for _ in running:
                    yield from partitions.ready()
            yield from partitions.ready()
            partitions.clear()


def _spool(
    rdd: Any,  # noqa: ANN401  (a Java object)
    task: Callable[[int, Iterable[bytes]], Iterator[None]],
    numbers: range,
    session: SparkSession,
) -> None:
    messages: RDD[bytes] = RDD(rdd, session.sparkContext, NoOpSerializer())
    session.sparkContext.runJob(messages.mapPartitionsWithIndex(task), list, numbers)


def _collected(jobs: Jobs, call: Call, table: str, query: Query) -> Iterator[pa.RecordBatch]:
    """Yield rows that executors elsewhere give back as results of jobs, one for each partition."""
    rdd, arrow_schema = jobs.run(call, table, functools.partial(_prepared, query))
    count = rdd.getNumPartitions()
    works: list[Work[list[bytes]]] = [functools.partial(_partition, rdd, number) for number in range(count)]
    for messages in jobs.map_ordered(call, table, works, ahead=_AHEAD):
        for message in messages:
            yield pa.ipc.read_record_batch(pa.py_buffer(message), arrow_schema)


def _prepared(query: Query, session: SparkSession) -> tuple[Any, pa.Schema]:
    frame = query(session)
    # Internal to Spark; the tests of this module fail should it go away.
    rdd = frame._jdf.toArrowBatchRdd().toJavaRDD()  # noqa: SLF001
    return rdd, to_arrow_schema(frame.schema)


def _partition(rdd: Any, number: int, session: SparkSession) -> list[bytes]:  # noqa: ANN401  (a Java object)
    context = session.sparkContext
    numbers = context._gateway.jvm.java.util.ArrayList()  # type: ignore[union-attr]  # noqa: SLF001
    numbers.add(number)
    runner = context._jvm.PythonRDD  # type: ignore[union-attr]  # noqa: SLF001
    address = runner.runJob(context._jsc.sc(), rdd, numbers)  # noqa: SLF001
    return list(_load_from_socket(address, NoOpSerializer()))


def _over_connect(frame: Any) -> Iterator[pa.RecordBatch]:  # noqa: ANN401  (Connect's own DataFrame)
    client = frame._session.client  # noqa: SLF001
    plan = frame._plan  # noqa: SLF001
    for part in client.to_table_as_iterator(plan.to_proto(client), plan.observations):
        if isinstance(part, pa.Table):
            yield from part.to_batches()
