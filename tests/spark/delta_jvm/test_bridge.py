"""Delta's own classes, on threads that Spark knows nothing of."""

from __future__ import annotations

import threading

from pyspark.sql import SparkSession

from sparkport.spark.delta_jvm.bridge import DeltaJava


def test_threads_have_a_session_for_delta(spark: SparkSession) -> None:
    """Delta asks for the session of the thread when a checkpoint could not be read ahead."""
    found: list[bool] = []

    def ask() -> None:
        sessions = DeltaJava(spark).type("org.apache.spark.sql.classic.SparkSession")
        found.append(sessions.getActiveSession().isDefined())

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()

    assert found == [True]
