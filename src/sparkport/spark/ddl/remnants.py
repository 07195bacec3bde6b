"""What writers leave in the folder of a table that never was, or is no more.

A CREATE TABLE that is cut off leaves a log without a commit. A writer that is at work while its table is
dropped makes the folder anew: Delta with checksums of versions, Spark's tasks with data files.
"""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sparkport.spark.storage.filesystem import Storage, storage_of

_UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_TEMPORARY = re.compile(
    r"_delta_log/(?:(?:_staged_commits|_commits|_sidecars)/)?"
    # Checksums of versions, and hidden files of which a commit or a checkpoint was to become.
    r"(?:\d{20}\.crc|\.{1,2}(?:\d{20}|_last_checkpoint)[\w.-]*|_last_checkpoint)"
    # Blocks of row ids, and the vectors of deleted rows.
    r"|_sparkport/rowids/(?:[\w-]+/)?[\w.-]+"
    rf"|(?:\w{{2}}/)?\.?deletion_vector_{_UUID}\.bin(?:\.crc)?"
    rf"|(?:\w{{2}}/)?\.part-\d{{5}}-{_UUID}[\w.-]*\.parquet\.crc"
    # Folders that hold nothing.
    r"|_delta_log/(?:(?:_staged_commits|_commits|_sidecars)/)?|_sparkport/(?:rowids/(?:[\w-]+/)?)?"
)
_DATA = re.compile(rf"(?:\w{{2}}/)?part-\d{{5}}-{_UUID}[\w.-]*\.parquet")
# What Delta calls a column in the files of a table with column mapping, and nobody else does.
_MAPPED = re.compile(f"col-{_UUID}")


def is_remnant(root: str) -> bool:
    """Tell whether a folder has something in it, and nothing but what writers of Delta have left behind."""
    return bool(remnant_files(root))


def remnant_files(root: str) -> list[str]:
    """Return the relative paths of all that is in a folder if writers of Delta have left it there, else none.

    A commit or a checkpoint makes it a table; data files count only if their columns show that they are
    of a Delta table. A link is never one.
    """
    if "://" not in root and Path(root).is_symlink():
        return []
    storage = storage_of(root)
    contents = storage.contents(root)
    is_left = all(
        _TEMPORARY.fullmatch(path) or (_DATA.fullmatch(path) and _is_mapped(storage, f"{root}/{path}"))
        for path in contents
    )
    return contents if is_left else []


def _is_mapped(storage: Storage, location: str) -> bool:
    """Tell whether all columns of a Parquet file have names that Delta's column mapping gives."""
    try:
        with storage.open(location) as source, pq.ParquetFile(source) as file:
            names = file.schema_arrow.names
    except (OSError, pa.ArrowException):
        return False  # nobody can tell what it is
    return bool(names) and all(map(_MAPPED.fullmatch, names))
