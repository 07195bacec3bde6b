"""Small data files, written by the server itself: for a few rows a Spark job costs more than they do."""

from __future__ import annotations

import contextlib
import json
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sparkport.spark.delta.actions import Metadata, Protocol
from sparkport.spark.delta.files import location_of
from sparkport.spark.delta.mapping import column_id, mapping_mode, physical_name
from sparkport.spark.delta.new_statistics import described

MOST_ROWS = 50_000
"""Up to how many rows go into such a file."""

# Features that ask nothing more of who writes a file than what is done here.
_UNDERSTOOD = frozenset(
    {
        "allowColumnDefaults",
        "appendOnly",
        "columnMapping",
        "deletionVectors",
        "domainMetadata",
        "inCommitTimestamp",
        "inCommitTimestamp-preview",
        "invariants",
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
        "v2Checkpoint",
        "vacuumProtocolCheck",
    }
)
_KEPT_BY_SPARK = (
    "delta.constraints.",
    "delta.dataSkippingStatsColumns",
    "delta.dataSkippingStringPrefixLength",
    "delta.enableRowTracking",
    "delta.randomizeFilePrefixes",
)
_KEPT_NOTES = frozenset(
    {
        "delta.generationExpression",
        "delta.identity.start",
        "delta.invariants",
        "__CHAR_VARCHAR_TYPE_STRING",
    }
)
_FEATURES_LISTED = 7  # the writer version from which on a table lists its features


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file that no commit names yet, and the action that makes it part of the table, as JSON."""

    path: Path
    action: str


@contextlib.contextmanager
def removed_on_failure(path: Path) -> Iterator[None]:
    """Leave nothing of a file that could not be written."""
    try:
        yield
    except BaseException:
        discard(path)
        raise


def discard(*paths: Path) -> None:
    """Remove files in a table's folder that are no part of it."""
    for path in paths:
        with contextlib.suppress(OSError):  # VACUUM finds it as well
            path.unlink()


def can_write(protocol: Protocol, metadata: Metadata) -> bool:
    """Tell whether a file of the table needs nothing that only Spark can do."""
    if protocol.min_writer < _FEATURES_LISTED or not protocol.writer_features <= _UNDERSTOOD:
        return False
    if metadata.partition_columns or any(key.startswith(_KEPT_BY_SPARK) for key in metadata.configuration):
        return False
    fields = metadata.schema["fields"]
    is_flat = all(isinstance(field["type"], str) for field in fields)
    return is_flat and not any(_KEPT_NOTES & set(field.get("metadata") or {}) for field in fields)


def write_file(root: str, metadata: Metadata, rows: pa.Table) -> NewFile:
    """Write the stored values of all columns, under their logical names, to a new file on the local disk."""
    mode = mapping_mode(metadata)
    fields, columns = [], []
    for field in metadata.schema["fields"]:
        column = rows.column(field["name"])
        number = None if mode == "none" else column_id(field)
        notes = None if number is None else {"PARQUET:field_id": str(number)}
        fields.append(pa.field(physical_name(field, mode), column.type, metadata=notes))
        columns.append(column)
    named = pa.Table.from_arrays(columns, schema=pa.schema(fields))
    path = Path(location_of(root)) / f"part-00000-{uuid.uuid4()}-c000.snappy.parquet"
    # Arrow's statistics leave NaN out, and Spark would skip the rows that have it.
    counted = [field.name for field in fields if not pa.types.is_floating(field.type)]
    with removed_on_failure(path):
        pq.write_table(named, path, compression="snappy", store_schema=False, write_statistics=counted)
    said = {
        "path": path.name,
        "partitionValues": {},
        "size": path.stat().st_size,
        "modificationTime": int(time.time() * 1000),
        "dataChange": True,
        "stats": described(named),
    }
    return NewFile(path, json.dumps({"add": said}))
