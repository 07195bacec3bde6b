"""Idempotency keys in Delta's log: each is a `txn` entry whose version encodes the outcome."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql import SparkSession

from sparkport.toolkit.fingerprints import FINGERPRINT_BITS
from sparkport.toolkit.repeats import Outcome

_PREFIX = "sparkport:"
_APPLICATION = "spark.databricks.delta.write.txnAppId"
_VERSION = "spark.databricks.delta.write.txnVersion"
# A version has 63 bits: the fingerprint, and below it the number of changed rows.
_COUNT_BITS = 63 - FINGERPRINT_BITS
_MAX_COUNT = (1 << _COUNT_BITS) - 1


def application(key: str) -> str:
    """Return the application id of a key in the log."""
    return f"{_PREFIX}{key}"


def txn_entries(outcomes: Mapping[str, Outcome]) -> dict[str, int]:
    """Return the outcomes of keys as `txn` entries of the log: version by application id."""
    return {application(key): _encode(outcome) for key, outcome in outcomes.items()}


def recorded_outcome(transactions: Mapping[str, int], key: str | None) -> Outcome | None:
    """Return the outcome of the statement with a key, None if it was not committed."""
    version = None if key is None else transactions.get(application(key))
    # Before there were fingerprints a version was the count alone: then the fingerprint reads as 0.
    return None if version is None else Outcome(version & _MAX_COUNT, version >> _COUNT_BITS)


def _encode(outcome: Outcome) -> int:
    return outcome.fingerprint << _COUNT_BITS | min(outcome.affected, _MAX_COUNT)


@contextlib.contextmanager
def idempotent_session(session: SparkSession, key: str, outcome: Outcome) -> Iterator[SparkSession]:
    """Yield a clone of a session whose next statement writes its key to the log.

    Delta skips the statement if the log has the key with this version or a later one.
    """
    java: Any = getattr(session, "_jsparkSession", None)
    # Only sessions of Spark Connect have a method to clone themselves.
    connect: Any = None if java is not None else session
    own: Any = connect.cloneSession() if connect else SparkSession(session.sparkContext, java.cloneSession())
    own.conf.set(_APPLICATION, application(key))
    own.conf.set(_VERSION, str(_encode(outcome)))
    try:
        yield own
    finally:
        if connect:
            own.client.release_session()
            own.client.close()
