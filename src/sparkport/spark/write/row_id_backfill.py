"""Ids for rows that others have written: all rows of their tables, and those they add to ours.

Rows that lack an id are written again with one, in one commit that changes nothing else.
"""

from __future__ import annotations

import functools
import typing

import pyarrow as pa
import pyarrow.parquet as pq

from sparkport.catalog.call import Call
from sparkport.errors import ConflictError
from sparkport.spark.commit.folder_lock import while_writing
from sparkport.spark.commit.group_commit import CommitQueue
from sparkport.spark.commit.read_write_lock import ReadWriteLock
from sparkport.spark.delta.actions import DataFile, Metadata, Protocol
from sparkport.spark.delta.snapshots import DeltaSnapshot
from sparkport.spark.delta.statistics import bounds
from sparkport.spark.delta_jvm import transactions as delta_transactions
from sparkport.spark.delta_jvm.transactions import Numbering
from sparkport.spark.engine import Engine
from sparkport.spark.model.columns import TableColumn, has_ids, rowid_spark_field, table_columns
from sparkport.spark.row_ids.provisional import may_lack_ids
from sparkport.spark.row_ids.statistics import with_indexed_ids
from sparkport.spark.storage.filesystem import storage_of

PROPERTY = "sparkport.adopt"
"""The table property that forbids (`false`) to add a column for the row ids, whatever the server does."""

# What adding a column and writing rows again as they are is known to leave whole.
_UNDERSTOOD = frozenset(
    {
        "allowColumnDefaults",
        "appendOnly",
        "changeDataFeed",
        "checkConstraints",
        "clustering",
        "columnMapping",
        "deletionVectors",
        "domainMetadata",
        "generatedColumns",
        "inCommitTimestamp",
        "inCommitTimestamp-preview",
        "invariants",
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
        "v2Checkpoint",
        "vacuumProtocolCheck",
        "variantType",
        "variantType-preview",
    }
)
_NEWEST_WRITER = 7
_IDENTITY = "delta.identity.start"
_MAX_TABLES_KEPT = 10_000
_MAX_TRIES = 8
_PAUSE_SECONDS = 0.1
_FILE_BYTES = 128 << 20
_UNCOUNTED = 1 << 32  # more rows than a file has


class Numbered(typing.Protocol):
    """A table whose rows get ids."""

    @property
    def root(self) -> str:
        """The table's folder."""
        raise NotImplementedError

    @property
    def gate(self) -> ReadWriteLock:
        """Where ALTER waits for those who write, and they for it."""
        raise NotImplementedError


def is_adoptable(protocol: Protocol, metadata: Metadata) -> bool:
    """Tell whether a table without a column for the row ids may get one."""
    return metadata.configuration.get(PROPERTY, "true").lower() != "false" and _can_rewrite(
        protocol, metadata
    )


def ensure_row_ids(
    call: Call, engine: Engine, table: Numbered, seen: DeltaSnapshot, *, adopts: bool
) -> int | None:
    """Let a statement find ids: return the version that has them, None if that is the one it sees.

    With `adopts` a table without a column for ids gets one. Where nothing can be done nothing is:
    the statement itself is refused then, as it has no ids to go by.
    """
    if _is_complete(engine, seen) or engine.host.is_connect:
        return None
    # Inside the gate, where the table is not renamed.
    with table.gate.shared(call), _queue(engine, table).alone(call):
        for _ in range(_MAX_TRIES):
            found = engine.log(table.root).snapshot()
            if _is_complete(engine, found):
                return found.version
            if not (adopts or has_ids(found.metadata)) or not _can_rewrite(found.protocol, found.metadata):
                return None
            try:
                work = functools.partial(delta_transactions.number_rows, _numbering(engine, table, found))
                engine.jobs.run(call, str(table), while_writing(table.root, str(table), work))
            except ConflictError:
                call.wait_cancelled(_PAUSE_SECONDS)
    raise ConflictError(str(table), "others write to it without ids, again and again")


def _queue(engine: Engine, table: Numbered) -> CommitQueue:
    table_id = engine.log(table.root).heading().metadata.table_id
    return engine.commits(table.root, table_id, str(table))


def _is_complete(engine: Engine, snapshot: DeltaSnapshot) -> bool:
    return has_ids(snapshot.metadata) and not _files_without_ids(engine, snapshot)


def _can_rewrite(protocol: Protocol, metadata: Metadata) -> bool:
    if metadata.configuration.get("delta.appendOnly", "false").lower() == "true":
        return False
    if any(_IDENTITY in (field.get("metadata") or {}) for field in metadata.schema["fields"]):
        return False
    return protocol.min_writer <= _NEWEST_WRITER and protocol.writer_features <= _UNDERSTOOD


def _files_without_ids(engine: Engine, snapshot: DeltaSnapshot) -> list[DataFile]:
    column = table_columns(snapshot.metadata, shows_ids=True)[-1]
    known = engine.whole_files.get(snapshot.metadata.table_id, frozenset())
    found = [
        file
        for file in snapshot.files
        if file.path not in known and may_lack_ids(file, column) and _lacks_ids(file, column)
    ]
    # Statistics are slow to parse, and files stay as they are.
    lacking = {file.path for file in found}
    if len(engine.whole_files) >= _MAX_TABLES_KEPT:
        engine.whole_files.pop(next(iter(engine.whole_files)), None)
    engine.whole_files[snapshot.metadata.table_id] = frozenset(
        file.path for file in snapshot.files if file.path not in lacking
    )
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


def _numbering(engine: Engine, table: Numbered, found: DeltaSnapshot) -> Numbering:
    column = table_columns(found.metadata, shows_ids=True)[-1]
    files = _files_without_ids(engine, found)
    counts = [file.physical_rows for file in files]
    most = sum(count for count in counts if count is not None) if None not in counts else _UNCOUNTED
    schema = found.metadata.schema
    if column.is_absent:
        plain = pa.schema([(field["name"], pa.null()) for field in schema["fields"]])
        schema = {**schema, "fields": [*schema["fields"], rowid_spark_field(plain)]}
    return Numbering(
        table=str(table),
        root=table.root,
        table_id=found.metadata.table_id,
        version=found.version,
        spark_schema=schema if column.is_absent else None,
        configuration=with_indexed_ids(found.metadata.configuration, schema),
        id_name=column.logical,
        paths=frozenset(file.path for file in files),
        parts=max(1, round(sum(file.size for file in files) / _FILE_BYTES)),
        most_rows=max(1, most),
        first_ids=engine.row_ids(table.root, found.metadata.table_id).ranges,
    )
