"""Change rows by rewriting their files (copy-on-write), in one commit on the version it was planned for.

For tables and statements to which deletion vectors by the server do not apply: Spark joins the rows of the
files with what is to become of them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from sparkport.spark.commit.idempotency import txn_entries
from sparkport.spark.commit.staged_frame import staged_rows
from sparkport.spark.commit.staging import Stage
from sparkport.spark.delta.files.file_actions import addition, removal
from sparkport.spark.delta.log.actions import DataFile, Metadata, Protocol
from sparkport.spark.delta.log.snapshots import DeltaSnapshot
from sparkport.spark.delta.log.spark_fields import SparkField
from sparkport.spark.delta_jvm import file_commit
from sparkport.spark.delta_jvm.bridge import DeltaJava
from sparkport.spark.delta_jvm.file_commit import FileChange
from sparkport.spark.delta_jvm.transaction import CommitResult
from sparkport.spark.row_ids.ids import Ids
from sparkport.spark.sql_names import quoted
from sparkport.toolkit.repeats import Outcome

_MAX_LISTED = 1000  # ids that are written into a filter; more are joined
_CHANGE_FEED = "delta.enableChangeDataFeed"
_CHANGE_TYPE = (
    "_change_type"  # the column by which Delta tells the rows of a change feed from those of the table
)
_PREFIX = "_sparkport_new_"
# What only Delta's own statements keep right for rows that are written again.
_ROW_TRACKING = "delta.enableRowTracking"
_GENERATED = "delta.generationExpression"


@dataclass(frozen=True, slots=True)
class Rewrite:
    """The files to write again, and what is staged: the ids of rows, for UPDATE with new values.

    `fields` are Spark's for the staged columns, with the id last.
    """

    root: str
    found: DeltaSnapshot
    files: Sequence[DataFile]
    stage: Stage
    fields: Sequence[SparkField]
    ids: Ids

    @property
    def id_name(self) -> str:
        """The column of the row ids."""
        return self.fields[-1].name

    @property
    def names(self) -> list[str]:
        """The columns that an UPDATE sets."""
        return [field.name for field in self.fields[:-1]]

    @property
    def has_change_feed(self) -> bool:
        """Whether the table records its changes."""
        return self.found.metadata.configuration.get(_CHANGE_FEED, "").lower() == "true"


def is_possible(protocol: Protocol, metadata: Metadata) -> bool:
    """Tell whether rows of a table may be written again like this; if not, Delta's own statements can."""
    is_tracked = metadata.configuration.get(_ROW_TRACKING, "").lower() == "true"
    is_generated = any(_GENERATED in field.metadata for field in metadata.fields)
    return not is_tracked and not is_generated and "rowTracking" not in protocol.writer_features


def updated_rows(rewrite: Rewrite, session: SparkSession) -> DataFrame:
    """Return all rows of the files, those with staged values changed."""
    rows = _old_rows(rewrite, session)
    staged = _staged(rewrite, session)
    joined = rows.join(staged, rows[quoted(rewrite.id_name)] == staged[_new(rewrite.id_name)], "left")
    is_changed = joined[_new(rewrite.id_name)].isNotNull()

    def new(name: str) -> Column:
        old = sf.col(quoted(name))
        return sf.when(is_changed, sf.col(_new(name))).otherwise(old) if name in rewrite.names else old

    if not rewrite.has_change_feed:
        return joined.select(*(new(name).alias(name) for name in rows.columns))
    before = _row(rows.columns, lambda name: sf.col(quoted(name)), "update_preimage")
    after = functools.partial(_row, rows.columns, new)
    changed = sf.array(before, after("update_postimage"), after(None))
    return _exploded(joined, rows.columns, sf.when(is_changed, changed).otherwise(sf.array(after(None))))


def kept_rows(rewrite: Rewrite, session: SparkSession) -> DataFrame:
    """Return all rows of the files but those whose ids are staged."""
    rows = _old_rows(rewrite, session)
    own_id = rows[quoted(rewrite.id_name)]
    if len(rewrite.ids) <= _MAX_LISTED:
        is_removed = sf.coalesce(own_id.isin(rewrite.ids.tolist()), sf.lit(False))
        marked = rows
    else:
        staged = _staged(rewrite, session)
        marked = rows.join(staged, own_id == staged[_new(rewrite.id_name)], "left")
        is_removed = marked[_new(rewrite.id_name)].isNotNull()
    if not rewrite.has_change_feed:
        return marked.where(~is_removed).select(*(sf.col(quoted(name)) for name in rows.columns))
    row = functools.partial(_row, rows.columns, lambda name: sf.col(quoted(name)))
    return _exploded(
        marked, rows.columns, sf.when(is_removed, sf.array(row("delete"))).otherwise(sf.array(row(None)))
    )


def commit(
    table: str, rewrite: Rewrite, operation: str, keys: Mapping[str, Outcome], session: SparkSession
) -> CommitResult:
    """Write the files again, and put them in the place of the old ones. Raises ConflictError."""
    found, changed = rewrite.found, len(rewrite.ids)
    is_update = operation == "UPDATE"
    change = FileChange(
        table,
        rewrite.root,
        found,
        operation,
        txn_entries(keys),
        actions=[removal(file) for file in rewrite.files],
        metrics={
            "numUpdatedRows" if is_update else "numDeletedRows": changed,
            "numRemovedFiles": len(rewrite.files),
        },
        rows=functools.partial(updated_rows if is_update else kept_rows, rewrite),
    )
    return file_commit.commit_files(change, session)


def _old_rows(rewrite: Rewrite, session: SparkSession) -> DataFrame:
    adds = [addition(file) for file in rewrite.files]
    return DataFrame(DeltaJava(session).rows_at(rewrite.root, rewrite.found.version, adds), session)


def _staged(rewrite: Rewrite, session: SparkSession) -> DataFrame:
    rows = staged_rows(rewrite.fields, [rewrite.stage], session)
    return rows.toDF(*(_PREFIX + field.name for field in rewrite.fields))


def _new(name: str) -> str:
    return quoted(_PREFIX + name)


def _row(names: Sequence[str], column: Callable[[str], Column], change: str | None) -> Column:
    kind = sf.lit(change).cast("string").alias(_CHANGE_TYPE)
    return sf.struct(*(column(name).alias(name) for name in names), kind)


def _exploded(frame: DataFrame, names: Sequence[str], rows: Column) -> DataFrame:
    """Return the rows of an array for each row."""
    found = frame.select(sf.explode(rows).alias("row"))
    return found.select(*(sf.col("row").getField(name).alias(name) for name in (*names, _CHANGE_TYPE)))
