"""The keys of statements in Delta's log: each is an application whose version is how many rows it changed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql import SparkSession

from sparkport.spark.delta.snapshots import DeltaSnapshot

_PREFIX = "sparkport:"
_APPLICATION = "spark.databricks.delta.write.txnAppId"
_VERSION = "spark.databricks.delta.write.txnVersion"


def application(key: str) -> str:
    """Return the name of a key in the log."""
    return f"{_PREFIX}{key}"


def noted(keys: Mapping[str, int]) -> dict[str, int]:
    """Return keys as the log has them, with how many rows each has changed."""
    return {application(key): affected for key, affected in keys.items()}


def outcome(snapshot: DeltaSnapshot, key: str | None) -> int | None:
    """Return how many rows the statement with a key has changed, None if it is not done."""
    return None if key is None else snapshot.transactions.get(application(key))


@contextlib.contextmanager
def keyed_session(session: SparkSession, key: str, affected: int) -> Iterator[SparkSession]:
    """Give a session whose next statement leaves its key in the log; that of others is not touched.

    Delta skips the statement if the key is there already.
    """
    java: Any = getattr(session, "_jsparkSession", None)
    # Spark Connect's sessions, and only those, can clone themselves.
    connect: Any = None if java is not None else session
    own: Any = connect.cloneSession() if connect else SparkSession(session.sparkContext, java.cloneSession())
    own.conf.set(_APPLICATION, application(key))
    own.conf.set(_VERSION, str(affected))
    try:
        yield own
    finally:
        if connect:
            own.client.release_session()
            own.client.close()
