"""Recognize what writers leave in a folder without a table: before its first commit, or after a DROP.

A CREATE TABLE that is interrupted leaves a log without a commit. A writer that is active while its table is
dropped creates the folder again: Delta with checksums of versions, Spark's tasks with data files.
"""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sparkport.spark.storage.filesystem import Storage, is_local, storage_of

_UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_TEMPORARY = re.compile(
    r"_delta_log/(?:(?:_staged_commits|_commits|_sidecars)/)?"
    # Checksums of versions, and temporary files of commits and checkpoints.
    r"(?:\d{20}\.crc|\.{1,2}(?:\d{20}|_last_checkpoint)[\w.-]*|_last_checkpoint)"
    # Blocks of row ids, and deletion vectors.
    r"|_sparkport/rowids/(?:[\w-]+/)?[\w.-]+"
    rf"|(?:\w{{2}}/)?\.?deletion_vector_{_UUID}\.bin(?:\.crc)?"
    rf"|(?:\w{{2}}/)?\.part-\d{{5}}-{_UUID}[\w.-]*\.parquet\.crc"
    # Empty folders.
    r"|_delta_log/(?:(?:_staged_commits|_commits|_sidecars)/)?|_sparkport/(?:rowids/(?:[\w-]+/)?)?"
)
_DATA = re.compile(rf"(?:\w{{2}}/)?part-\d{{5}}-{_UUID}[\w.-]*\.parquet")
# The physical names that Delta's column mapping gives to columns, and nobody else does.
_MAPPED = re.compile(f"col-{_UUID}")


def is_remnant(root: str) -> bool:
    """Return whether a folder is not empty and contains only what writers of Delta have left behind."""
    return bool(remnant_files(root))


def remnant_files(root: str) -> list[str]:
    """Return the relative paths of all files in a folder if writers of Delta have left them there, else none.

    A commit or a checkpoint makes it a table; data files count only if their columns show that they
    belong to a Delta table. A symbolic link is never a remnant.
    """
    if is_local(root) and Path(root).is_symlink():
        return []
    storage = storage_of(root)
    contents = storage.contents(root)
    are_remnants = all(
        _TEMPORARY.fullmatch(path) or (_DATA.fullmatch(path) and _is_mapped(storage, f"{root}/{path}"))
        for path in contents
    )
    return contents if are_remnants else []


def _is_mapped(storage: Storage, location: str) -> bool:
    """Return whether all columns of a Parquet file have names that Delta's column mapping gives."""
    try:
        with storage.open(location) as source, pq.ParquetFile(source) as file:
            names = file.schema_arrow.names
    except (OSError, pa.ArrowException):
        return False  # not a readable Parquet file
    return bool(names) and all(map(_MAPPED.fullmatch, names))
