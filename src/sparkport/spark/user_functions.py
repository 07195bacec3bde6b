"""Users' functions that Spark runs: over large batches, and by name in its SQL."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import structlog
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import from_arrow_type

from sparkport.arrow import columns
from sparkport.arrow.conform import conform_column
from sparkport.catalog.call import Call
from sparkport.catalog.functions import Stability
from sparkport.catalog.offloading import Offloadable, Offloaded
from sparkport.catalog.parameters import Special
from sparkport.spark.engine import Engine
from sparkport.spark.worker import scalars
from sparkport.spark.worker.scalars import BATCH, ERROR, MESSAGE, NUMBER, RESULT_TYPE, ScalarTask

_log = structlog.get_logger("sparkport.spark")

_ROWS_EACH = 25_000


class SparkScalars:
    """The functions that a catalog has taken over."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: list[tuple[Offloadable, ScalarTask]] = []

    def add(self, function: Offloadable) -> Offloaded:
        """Take over a function. Raises ValueError if it cannot be sent to Spark's workers."""
        task = _task(function)
        _ship_by_value(function.function, ours=not self._engine.capabilities.local_tasks)
        try:
            cloudpickle.dumps(task)  # type: ignore[no-untyped-call]
        except Exception as error:
            raise ValueError(f"function '{function.name}' cannot be sent to Spark: {error}") from error
        self._known.append((function, task))
        return functools.partial(_offloaded, self._engine, function.name, task)

    def register(self, session: SparkSession) -> frozenset[str]:
        """Make the functions known to a session's SQL and return their names in lower case."""
        return register_functions(self._in_sql(), session)

    def pickled(self) -> bytes:
        """Return the functions for `register_functions` in another process."""
        return bytes(cloudpickle.dumps(self._in_sql()))  # type: ignore[no-untyped-call]

    def _in_sql(self) -> list[SqlFunction]:
        return [
            SqlFunction(function.name, task, function.signature.stability is Stability.CONSISTENT)
            for function, task in self._known
        ]


@dataclass(frozen=True, slots=True)
class SqlFunction:
    """A user's function as Spark SQL knows it."""

    name: str
    task: ScalarTask
    is_consistent: bool


def register_functions(functions: Iterable[SqlFunction], session: SparkSession) -> frozenset[str]:
    """Make functions known to a session's SQL and return their names in lower case.

    Of several under one name it is the first: Spark has no overloads.
    """
    names: set[str] = set()
    for function in functions:
        name = function.name.lower()
        reason = "Spark SQL has one function of this name already" if name in names else ""
        try:
            spark_type = from_arrow_type(function.task.return_type)
        except PySparkException:
            reason = f"Spark has no type for its result, {function.task.return_type}"
        if reason:
            _log.warning("function left out of Spark SQL", function=function.name, reason=reason)
            continue
        udf: Any = arrow_udf(_in_sql(function.task), spark_type.simpleString())  # type: ignore[call-overload]
        if not function.is_consistent:
            udf = udf.asNondeterministic()
        session.udf.register(name, udf)
        names.add(name)
    return frozenset(names)


def _offloaded(
    engine: Engine, name: str, task: ScalarTask, call: Call, batch: pa.RecordBatch
) -> pa.RecordBatch:
    """Cut a batch into parts, let Spark's workers answer them, and put the answers together."""
    parts = [batch.slice(start, _ROWS_EACH) for start in range(0, batch.num_rows, _ROWS_EACH)]
    rows = pa.table(
        {
            NUMBER: pa.array(range(len(parts)), pa.int32()),
            BATCH: pa.array([scalars.to_ipc(part) for part in parts], pa.binary()),
        }
    )
    answers = engine.jobs.run(call, name, functools.partial(_run, task, rows)).sort_by(NUMBER)
    for error, message in zip(answers[ERROR].to_pylist(), answers[MESSAGE].to_pylist(), strict=True):
        if error is not None:
            # As if it had been raised here: by the name that its class has there.
            raise type(error, (Exception,), {})(message)
    field = pa.field("result", task.return_type)
    results = [conform_column(_read(data), field) for data in answers[BATCH]]
    return pa.RecordBatch.from_arrays([pa.concat_arrays(results)], ["result"])


def _run(task: ScalarTask, rows: pa.Table, session: SparkSession) -> pa.Table:
    frame = session.createDataFrame(rows).repartition(rows.num_rows)
    return frame.mapInArrow(task.blobs, RESULT_TYPE).toArrow()


def _read(data: pa.Scalar) -> pa.Array:
    with pa.ipc.open_stream(data.as_buffer()) as stream:
        return stream.read_next_batch().column(0)


def _task(function: Offloadable) -> ScalarTask:
    types = (
        None if isinstance(parameter.type, Special) else parameter.type
        for parameter in function.signature.declared
    )
    return ScalarTask(function.function, tuple(types), function.signature.return_type)


def _in_sql(task: ScalarTask) -> Callable[..., pa.Array]:
    # PySpark looks at the annotations of a function, for which a method of a class by value is no good.
    def in_sql(*arrays: pa.Array) -> pa.Array:
        return task.in_sql(*arrays)

    return in_sql


def _ship_by_value(function: Callable[..., Any], *, ours: bool) -> None:
    """Let workers get the code itself of the module that a function is in: they may not find it by name."""
    module = sys.modules.get(function.__module__)
    modules = [] if module is None or module.__name__ == "__main__" else [module]
    for shipped in (*modules, *((columns, scalars) if ours else ())):
        cloudpickle.register_pickle_by_value(shipped)  # type: ignore[no-untyped-call]
