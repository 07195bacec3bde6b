"""Ids for rows that others have written: all rows of their tables, and those they add to ours.

Rows that lack an id are written again with one, in one commit that changes nothing else.
"""

from __future__ import annotations

import functools

import pyarrow as pa
import pyarrow.parquet as pq

from sparkport.catalog.call import Call
from sparkport.errors import ConflictError, PreconditionError
from sparkport.spark.commit.conflicts import FinalConflictError
from sparkport.spark.commit.folder_lock import while_writing
from sparkport.spark.delta.log.actions import DataFile
from sparkport.spark.delta.log.snapshots import DeltaSnapshot
from sparkport.spark.delta.statistics import bounds
from sparkport.spark.delta_jvm import row_id_commit
from sparkport.spark.delta_jvm.row_id_commit import Numbering
from sparkport.spark.engine import Engine
from sparkport.spark.model.columns import TableColumn, has_ids, rowid_spark_field, table_columns
from sparkport.spark.row_ids.eligibility import can_rewrite
from sparkport.spark.row_ids.provisional import may_lack_ids
from sparkport.spark.row_ids.statistics import with_indexed_ids
from sparkport.spark.storage.filesystem import storage_of
from sparkport.spark.versions import TableVersions

_MAX_TRIES = 8
_PAUSE_SECONDS = 0.1
_FILE_BYTES = 128 << 20
_UNCOUNTED = 1 << 32  # more rows than a file has


def ensure_row_ids(call: Call, table: TableVersions) -> None:
    """Let a statement that goes by row ids find them, in its own transaction too.

    A table without a column for ids gets one if it may. Where nothing can be done nothing is: the statement
    itself is refused then, as it has no ids to go by. Raises FinalConflictError if a transaction that has
    read rows would have to see what others have done.
    """
    header = table.header()
    adopts = table.adopts(header)
    if not adopts and not has_ids(header.metadata):
        return
    transactions = table.engine.transactions
    view, seen = table.view(call), table.at(call, None)
    if view is not None and view.staged is not None:
        # What is staged lies over a version whose rows have ids, or else the statement is refused.
        if not _is_complete(table.engine, seen.state):
            raise PreconditionError(
                f"rows of table '{table.name}' have no row ids yet; change one outside of a transaction first"
            )
        return
    with transactions.pause_reads(call, table.schema, table.name):
        version = _backfill(call, table, seen.state, adopts=adopts)
        if version is None or view is None:
            return
        own = {write.version for write in view.own}
        between = (number for number in range(view.version + 1, version + 1) if number not in own)
        has_scanned = transactions.is_staged(call) or transactions.has_scanned(call, table.schema, table.name)
        if has_scanned and any(map(table.log.changes_rows, between)):
            raise FinalConflictError(str(table), "others have changed it while its rows were given ids")
        transactions.advance(call, table.schema, table.name, view, table.header(version))


def _backfill(call: Call, table: TableVersions, seen: DeltaSnapshot, *, adopts: bool) -> int | None:
    """Return the first version in which all rows have ids, None if that is the one that is seen."""
    engine = table.engine
    if _is_complete(engine, seen) or not engine.capabilities.delta_transactions:
        return None
    # Inside the lock, where the table is not renamed.
    with table.lock.shared(call), engine.commits(table.root, table.table_id, str(table)).exclusive(call):
        for _ in range(_MAX_TRIES):
            newest = table.log.snapshot()
            if _is_complete(engine, newest):
                return newest.version
            if not (adopts or has_ids(newest.metadata)) or not can_rewrite(newest.protocol, newest.metadata):
                return None
            try:
                work = functools.partial(row_id_commit.number_rows, _numbering(engine, table, newest))
                engine.jobs.run(call, str(table), while_writing(table.root, str(table), work))
            except ConflictError:
                call.wait_cancelled(_PAUSE_SECONDS)
    raise ConflictError(str(table), "others write to it without ids, again and again")


def _is_complete(engine: Engine, snapshot: DeltaSnapshot) -> bool:
    return has_ids(snapshot.metadata) and not _files_without_ids(engine, snapshot)


def _files_without_ids(engine: Engine, snapshot: DeltaSnapshot) -> list[DataFile]:
    column = table_columns(snapshot.metadata, shows_ids=True)[-1]
    known = engine.numbered_files.get(snapshot.metadata.table_id) or frozenset()
    found = [
        file
        for file in snapshot.files
        if file.path not in known and may_lack_ids(file, column) and _lacks_ids(file, column)
    ]
    # Statistics are slow to parse, and files stay as they are.
    lacking = {file.path for file in found}
    numbered = frozenset(file.path for file in snapshot.files if file.path not in lacking)
    engine.numbered_files.put(snapshot.metadata.table_id, numbered)
    return found


def _lacks_ids(file: DataFile, column: TableColumn) -> bool:
    """Look into a file of which the log does not tell."""
    is_told = column.is_absent or bounds(file, column.logged).null_count is not None
    return is_told or _has_nulls(file.path, column.physical.name)


@functools.lru_cache(maxsize=65_536)  # a data file never changes
def _has_nulls(path: str, name: str) -> bool:
    with storage_of(path).open(path) as source:
        metadata = pq.ParquetFile(source).metadata
    names = [metadata.schema.column(index).path for index in range(metadata.num_columns)]
    if name not in names:
        return True
    chunks = [metadata.row_group(i).column(names.index(name)) for i in range(metadata.num_row_groups)]
    return any(
        not chunk.is_stats_set or not chunk.statistics.has_null_count or chunk.statistics.null_count > 0
        for chunk in chunks
    )


def _numbering(engine: Engine, table: TableVersions, found: DeltaSnapshot) -> Numbering:
    column = table_columns(found.metadata, shows_ids=True)[-1]
    files = _files_without_ids(engine, found)
    counts = [file.physical_rows for file in files]
    most = sum(count for count in counts if count is not None) if None not in counts else _UNCOUNTED
    fields = found.metadata.fields
    if column.is_absent:
        plain = pa.schema([(field.name, pa.null()) for field in fields])
        fields = (*fields, rowid_spark_field(plain))
    return Numbering(
        table=str(table),
        root=table.root,
        table_id=found.metadata.table_id,
        version=found.version,
        fields=fields if column.is_absent else None,
        configuration=with_indexed_ids(found.metadata.configuration, fields),
        id_name=column.logical,
        paths=frozenset(file.path for file in files),
        parts=max(1, round(sum(file.size for file in files) / _FILE_BYTES)),
        max_rows=max(1, most),
        first_ids=engine.row_ids(table.root, found.metadata.table_id).ranges,
    )
