"""The Java exceptions behind an error of Spark's: their classes say what their texts leave open."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from py4j.java_gateway import is_instance_of  # type: ignore[import-untyped]
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkContext

_SPARK_THROWABLE = "org.apache.spark.SparkThrowable"
_MAX_CAUSES = 16


@dataclass(frozen=True, slots=True)
class JavaCause:
    """One exception of a chain; those of Spark's own have a condition and an SQL state."""

    kind: str
    message: str
    condition: str = ""
    state: str = ""


def java_causes(error: BaseException) -> list[JavaCause]:
    """Return the exceptions behind an error, from the outermost to the first that was raised.

    There are none over Spark Connect, nor when Java is gone.
    """
    java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    gateway = SparkContext._gateway  # noqa: SLF001
    if java is None or gateway is None:
        return []
    try:
        return list(_chain(gateway, java))
    except (Py4JError, OSError):
        return []


def _chain(gateway: Any, java: Any) -> Iterator[JavaCause]:  # noqa: ANN401  (Java objects)
    for _ in range(_MAX_CAUSES):
        if java is None:
            return
        is_spark = is_instance_of(gateway, java, _SPARK_THROWABLE)
        yield JavaCause(
            str(java.getClass().getName()),
            str(java.getMessage() or ""),
            str(java.getCondition() or "") if is_spark else "",
            str(java.getSqlState() or "") if is_spark else "",
        )
        java = java.getCause()
