"""Change rows in place: deletion vectors for the old rows, a new file for their replacements, one commit.

The server knows the files and positions of the rows, so that Spark has nothing to search or join.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from sparkport.spark.commit.idempotency import txn_entries
from sparkport.spark.commit.staged_frame import staged_rows
from sparkport.spark.commit.staging import Stage
from sparkport.spark.delta.errors import SparkRequiredError
from sparkport.spark.delta.files import data_files
from sparkport.spark.delta.files.data_files import discard, removed_on_failure
from sparkport.spark.delta.files.deletion_vectors import deleted_positions, write_vectors
from sparkport.spark.delta.files.file_actions import removal, shrunk_file
from sparkport.spark.delta.log.actions import DataFile, Metadata, Protocol
from sparkport.spark.delta.log.spark_fields import SparkField
from sparkport.spark.delta_jvm import file_commit
from sparkport.spark.delta_jvm.file_commit import FileChange
from sparkport.spark.delta_jvm.transaction import CommitResult, MakeRows
from sparkport.spark.errors import is_refusal
from sparkport.spark.read.snapshot import Located
from sparkport.spark.row_ids.ids import Ids
from sparkport.toolkit.repeats import Outcome

MAX_UPDATED = 200_000
"""Up to how many rows are updated like this: the server has them in memory."""
MAX_UPDATED_BYTES = 128 << 20
"""Up to how many bytes such rows may have, the old ones and the new values each."""
MAX_DELETED = 10_000_000
"""Up to how many rows are deleted like this: the server has their ids and positions in memory."""

_ENABLED = "delta.enableDeletionVectors"
# What Delta itself would have to do more for each file or row.
_KEPT_BY_DELTA = ("delta.enableChangeDataFeed", "delta.enableRowTracking")
_HANDLED_BY_DELTA = frozenset({"clustering", "generatedColumns", "identityColumns", "icebergCompatV1"})
_COLUMN_NOTES = ("delta.generationExpression", "delta.identity.start")


@dataclass(frozen=True, slots=True)
class NewRows:
    """Stored rows to take the place of the located ones, Spark's fields for them, and where to stage them."""

    rows: pa.Table
    fields: Sequence[SparkField]
    stage: Stage


def has_vectors(protocol: Protocol, metadata: Metadata) -> bool:
    """Tell whether new commits to a table may have deletion vectors."""
    is_enabled = metadata.configuration.get(_ENABLED, "").lower() == "true"
    return is_enabled and "deletionVectors" in protocol.writer_features


def is_possible(protocol: Protocol, metadata: Metadata) -> bool:
    """Tell whether rows of a table may be changed like this; if not, Delta's own statements can do it."""
    configuration = metadata.configuration
    if not has_vectors(protocol, metadata):
        return False
    if any(configuration.get(key, "").lower() == "true" for key in _KEPT_BY_DELTA):
        return False
    is_plain = not any(key in field.metadata for field in metadata.fields for key in _COLUMN_NOTES)
    return is_plain and not _HANDLED_BY_DELTA & protocol.writer_features


def commit(
    table: str,
    root: str,
    located: Located,
    new_rows: NewRows | None,
    operation: str,
    keys: Mapping[str, Outcome],
    is_exact: bool,
    session: SparkSession | None,
) -> CommitResult:
    """Remove the located rows, and put others in their place.

    With `is_exact`, rows that others have added since are a conflict: keys were compared with the version.
    With a key that the log has already, do nothing. Raises ConflictError if the rows are gone, and without a
    session SparkRequiredError if it takes one.
    """
    state = located.state
    is_small = new_rows is not None and new_rows.rows.num_rows <= data_files.MAX_ROWS
    is_own = is_small and data_files.can_write(root, state.protocol, state.metadata)
    if session is None and new_rows is not None and not is_own:
        raise SparkRequiredError(root, "the new rows are written by Spark")
    files = list(located.files())
    shrunk = [
        (file, deleted)
        for file, positions in files
        if len(deleted := _all_deleted(file, root, positions)) < (file.physical_rows or 0)
    ]
    vectors_file, vectors = write_vectors(root, [deleted for _, deleted in shrunk])
    written = [vectors_file]
    actions = [removal(file) for file, _ in files]
    actions += [shrunk_file(file, vector.logged) for (file, _), vector in zip(shrunk, vectors, strict=True)]
    if new_rows is not None and is_own:
        with removed_on_failure(vectors_file):
            new_files = data_files.write_files(root, state.metadata, new_rows.rows)
        written += [file.path for file in new_files]
        actions += [file.action for file in new_files]
        new_rows = None
    changed = "numUpdatedRows" if operation == "UPDATE" else "numDeletedRows"
    metrics = {
        changed: located.rows.num_rows,
        "numCopiedRows": 0,
        "numRemovedFiles": len(files) - len(shrunk),
        "numDeletionVectorsAdded": len(shrunk),
    }
    try:
        with _staged(new_rows) as rows:
            change = FileChange(table, root, state, operation, txn_entries(keys), actions, metrics, rows)
            change = replace(change, is_exact=is_exact)
            result = file_commit.commit_files(change, session)
    except Exception as error:
        if is_refusal(error) or (session is None and isinstance(error, OSError)):
            discard(*written)
        raise
    if result.known:
        discard(*written)
    return result


@contextlib.contextmanager
def _staged(new_rows: NewRows | None) -> Iterator[MakeRows | None]:
    """Put rows where Spark can read them."""
    if new_rows is None:
        yield None
        return
    stage = new_rows.stage.beside(new_rows.rows)
    try:
        yield functools.partial(staged_rows, new_rows.fields, [stage])
    finally:
        stage.remove()


def _all_deleted(file: DataFile, root: str, positions: Ids) -> Ids:
    if file.deletion_vector is None:
        return positions
    # Both are sorted and have nothing in common; that is faster than what NumPy does for any two sets.
    return np.sort(np.concatenate([deleted_positions(file.deletion_vector, root), positions]), kind="stable")
