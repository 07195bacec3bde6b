"""Functions of the user's in this process, in Spark's workers, and in Spark SQL."""

from __future__ import annotations

import math
import os
import threading
from typing import Annotated

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import sparkport
from sparkport.catalog import Call
from sparkport.catalog.functions import ScalarFunction
from sparkport.errors import CancelledError
from sparkport.spark.catalog.catalog import SparkCatalog

from .calling import rows

Column = Annotated[pa.Array, int]
_FACTOR = 3


def _tripled(numbers: pa.Array) -> pa.Array:
    return pc.multiply(numbers, _FACTOR)


@pytest.fixture(scope="module", autouse=True)
def app(catalog: SparkCatalog) -> sparkport.App:
    """Declare functions, of which Spark runs what has three rows and more."""
    made = sparkport.App()

    @made.spark_function(schema="own", min_rows=3)
    def triple(numbers: Column) -> Column:
        """Three times a number."""
        return _tripled(numbers)

    @made.spark_function(schema="own", min_rows=3, returns=pa.uint64())
    def process(numbers: Column) -> list[int]:
        """Say where it runs."""
        return [os.getpid()] * len(numbers)

    @made.spark_function(schema="own", min_rows=3)
    def root(numbers: Annotated[pa.Array, float]) -> Annotated[list[float], float]:
        """Fail for negative numbers."""
        return [math.sqrt(number.as_py()) for number in numbers]

    @made.spark_function(schema="own", min_rows=3)
    def slow(numbers: Column) -> Column:
        """Take a minute."""
        threading.Event().wait(60)
        return numbers

    made.over(catalog)
    return made


def function(app: sparkport.App, name: str) -> ScalarFunction:
    """Return a function as the server has it."""
    schema = app.build().schema(Call(), "own")
    assert schema is not None
    return next(one for one in schema.scalar_functions(Call()) if one.name == name)


def results(app: sparkport.App, name: str, values: pa.Array, call: Call | None = None) -> pa.Array:
    """Return what a function gives for a batch."""
    batch = pa.RecordBatch.from_arrays([values], ["numbers"])
    return function(app, name).execute(call or Call(), batch).column(0)


def test_many_rows_go_to_spark_with_the_same_result(app: sparkport.App) -> None:
    """From some number of rows on the workers run it, helpers of its module included, in order."""
    many = pa.array([*range(60_000), None], pa.int64())
    here = results(app, "process", pa.array([1, 2])).to_pylist()
    there = results(app, "process", pa.array([1, 2, 3])).to_pylist()

    assert here == [os.getpid()] * 2
    assert os.getpid() not in there
    assert results(app, "triple", many).equals(_tripled(many))


def test_an_error_is_the_same_in_both_places(app: sparkport.App) -> None:
    """Its class and text reach the caller by name, whatever raised it where."""
    for values in ([4.0, -1.0], [4.0, 9.0, -1.0]):
        with pytest.raises(Exception, match=r"^math domain error|expected a nonnegative input") as raised:
            results(app, "root", pa.array(values))
        assert type(raised.value).__name__ == "ValueError"


def test_a_cancelled_call_ends_the_work(app: sparkport.App) -> None:
    """Nobody waits for a function whose caller has gone."""
    call = Call()
    threading.Timer(2, call.cancel).start()

    with pytest.raises(CancelledError):
        results(app, "slow", pa.array([1, 2, 3]), call)


def test_spark_sql_knows_the_function(catalog: SparkCatalog) -> None:
    """A query calls it by name, with arguments brought to its types; its errors say what it raised."""
    found = rows(catalog, "query", "SELECT triple(cast(id AS INT)) AS t, ROOT(4) AS r FROM range(2)")

    assert found == [{"t": 0, "r": 2.0}, {"t": 3, "r": 2.0}]
    with pytest.raises(Exception, match=r"^math domain error|expected a nonnegative input") as raised:
        rows(catalog, "query", "SELECT root(-1) AS r FROM range(1)")
    assert type(raised.value).__name__ == "ValueError"


def test_a_function_that_cannot_be_sent_is_refused_at_the_start(catalog: SparkCatalog) -> None:
    """A lock cannot travel, and whoever starts the server is told so; nor can the call."""
    app = sparkport.App()
    lock = threading.Lock()

    @app.spark_function(schema="own")
    def locked(numbers: int) -> int:
        with lock:
            return numbers

    def calling(numbers: int, call: Call) -> int:
        del call
        return numbers

    with pytest.raises(ValueError, match="'locked' cannot be sent to Spark"):
        app.over(catalog)
    with pytest.raises(TypeError, match="'calling' takes the call"):
        app.spark_function(schema="own")(calling)
