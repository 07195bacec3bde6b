"""Iceberg tables: their snapshots, through Spark."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from sparkport.catalog.call import Call
from sparkport.catalog.scan import ScanOptions, Snapshot, TimePoint, TimeUnit
from sparkport.errors import ConflictError, NotFoundError
from sparkport.spark.external.relations import Relation
from sparkport.spark.external.table import RelationTable, exact_schema, scan_query
from sparkport.spark.predicates.sql_words import text_literal

PROVIDER = "iceberg"
_EMPTY = "none"  # what Iceberg calls the snapshot of a table that has none yet
_ALTERED = "altered:"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class _State:
    """A state of a table: what pins it, and its columns.

    The pin is the id of a snapshot. Where columns were altered after the last snapshot it says so: Spark
    reads a snapshot with the columns of its own time.
    """

    pin: str
    spark_schema: str


class IcebergTable(RelationTable):
    """An Iceberg table. Versions are snapshot ids, or the names of tags and branches."""

    def snapshot(self, call: Call, time_point: TimePoint | None) -> Snapshot:
        """Fix the snapshot that the call reads."""
        state = self._state(call, time_point)
        return Snapshot(TimePoint(TimeUnit.SNAPSHOT, state.pin), exact_schema(state.spark_schema))

    def scan(self, call: Call, options: ScanOptions) -> pa.RecordBatchReader:
        """Read one snapshot: projected, filtered, cut to the limit."""
        state = self._state(call, options.time_point)
        read = functools.partial(_frame, self._relation, state.pin)
        return scan_query(self._engine, call, str(self._relation), read, state.spark_schema, options)

    def _state(self, call: Call, time_point: TimePoint | None) -> _State:
        work = functools.partial(_state, self._relation, time_point)
        return self._engine.jobs.run(call, str(self._relation), work)


def _state(relation: Relation, time_point: TimePoint | None, session: SparkSession) -> _State:
    session.catalog.refreshTable(relation.name)
    pin = _newest(relation, session) if time_point is None else _pin(relation, time_point, session)
    return _State(pin, _frame(relation, pin, session).schema.json())


def _newest(relation: Relation, session: SparkSession) -> str:
    current = _current_id(relation, session)
    if current == _EMPTY:
        return _EMPTY
    kept = _frame(relation, current, session).schema
    return current if kept == session.table(relation.name).schema else f"{_ALTERED}{current}"


def _pin(relation: Relation, time_point: TimePoint, session: SparkSession) -> str:
    value = time_point.value
    match time_point.unit:
        case TimeUnit.VERSION if not value.isdecimal():
            pin = _first_id(session, f"{relation.name}.refs", f"name = {text_literal(value)}")
        case TimeUnit.TIMESTAMP:
            micros = (time_point.moment() - _EPOCH) // timedelta(microseconds=1)
            past = f"made_current_at <= TIMESTAMP_MICROS({micros}) ORDER BY made_current_at DESC"
            pin = _first_id(session, f"{relation.name}.history", past)
        case TimeUnit.SNAPSHOT if value == _EMPTY or value.startswith(_ALTERED):
            pin = value
        case _:
            known = f"CAST(snapshot_id AS STRING) = {text_literal(value)}"
            pin = _first_id(session, f"{relation.name}.snapshots", known)
    if pin is None:
        raise NotFoundError(
            "version at timestamp" if time_point.unit is TimeUnit.TIMESTAMP else time_point.unit, value
        )
    return pin


def _frame(relation: Relation, pin: str, session: SparkSession) -> DataFrame:
    """Return the rows of a pinned state."""
    if pin == _EMPTY:
        return session.table(relation.name).limit(0)
    if not pin.startswith(_ALTERED):
        return session.read.option("versionAsOf", pin).table(relation.name)
    frame = session.table(relation.name)
    if _current_id(relation, session) != pin.removeprefix(_ALTERED):
        raise ConflictError(str(relation), "it was changed after the scan was planned")
    return frame


def _current_id(relation: Relation, session: SparkSession) -> str:
    rows = session.sql(f"SHOW TBLPROPERTIES {relation.name} ('current-snapshot-id')").collect()
    return str(rows[0][1])


def _first_id(session: SparkSession, source: str, condition: str) -> str | None:
    statement = f"SELECT snapshot_id FROM {source} WHERE {condition} LIMIT 1"  # noqa: S608  (quoted)
    rows = session.sql(statement).collect()
    return str(rows[0][0]) if rows else None
