"""The checksum beside a commit, by which Spark knows a version without reading its whole log.

It follows from that of the version before. Where that is not there, nothing is written: readers do without.
"""

from __future__ import annotations

import contextlib
import json
import os
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import structlog

from sparkport.spark.delta.log import members
from sparkport.spark.delta.log.actions import decode_deletion_vector

_log = structlog.get_logger("sparkport.spark")

# Totals of the whole table, and what stays as it is while only files change. The rest is optional, and would
# have to be computed.
_KEPT = ("numMetadata", "numProtocol", "domainMetadata", "metadata", "protocol")
_DELETED_ROWS, _VECTORS = "numDeletedRecordsOpt", "numDeletionVectorsOpt"


def write_checksum(root: str, version: int, actions: Sequence[Mapping[str, Any]]) -> None:
    """Write the checksum of a commit that only adds and removes files, if that can be told."""
    try:
        with open(f"{root}/_delta_log/{version - 1:020d}.crc", "rb") as file:  # noqa: PTH123  (paths are text here)
            previous = json.loads(file.read())
        checksum = next_checksum(previous, actions)
    except FileNotFoundError:
        return  # its writer makes none, or has not yet
    except (OSError, ValueError) as error:
        _log.debug("no checksum", table=root, version=version, reason=str(error))
        return
    _write(root, version, checksum)


def write_first_checksum(
    root: str, metadata: Mapping[str, Any], protocol: Mapping[str, Any], txn_id: str
) -> None:
    """Write the checksum of a table's first version, which has no files."""
    totals = dict.fromkeys(("tableSizeBytes", "numFiles", _DELETED_ROWS, _VECTORS), 0)
    known = {"numMetadata": 1, "numProtocol": 1, "domainMetadata": []}
    _write(root, 0, {"txnId": txn_id, **totals, **known, "metadata": metadata, "protocol": protocol})


def _write(root: str, version: int, checksum: Mapping[str, Any]) -> None:
    """Write a checksum, unless the disk does not take it: the commit itself is there."""
    path = f"{root}/_delta_log/{version:020d}.crc"
    temporary = f"{root}/_delta_log/.{version:020d}.crc.{uuid.uuid4()}.tmp"
    try:
        try:
            with open(temporary, "x", encoding="utf-8") as file:  # noqa: PTH123
                file.write(json.dumps(checksum))
            os.rename(temporary, path)  # noqa: PTH104
        except OSError:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)  # noqa: PTH108
            raise
    except OSError as error:
        _log.debug("no checksum", table=root, version=version, reason=str(error))


def next_checksum(previous: Mapping[str, Any], actions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the checksum of a version from that of the version before and the actions in between.

    Raises ValueError for a checksum that cannot be read.
    """
    if not isinstance(previous, dict):
        raise ValueError("a checksum is a JSON object")  # noqa: TRY004  (what a file says, not our types)
    totals = {
        "tableSizeBytes": members.integer(previous, "tableSizeBytes"),
        "numFiles": members.integer(previous, "numFiles"),
    }
    has_vectors = _DELETED_ROWS in previous and _VECTORS in previous
    if has_vectors:
        totals |= {name: members.integer(previous, name) for name in (_DELETED_ROWS, _VECTORS)}
    for kind, sign in (("add", 1), ("remove", -1)):
        for file in filter(None, (members.optional_object(action, kind) for action in actions)):
            totals["tableSizeBytes"] += sign * members.integer(file, "size")
            totals["numFiles"] += sign
            vector = decode_deletion_vector(file)
            if vector is not None and has_vectors:
                totals[_DELETED_ROWS] += sign * vector.cardinality
                totals[_VECTORS] += sign
    infos = (members.optional_object(action, "commitInfo") for action in actions)
    info = next(filter(None, infos), {})
    named = {"txnId": info.get("txnId"), "inCommitTimestampOpt": info.get("inCommitTimestamp")}
    return (
        {name: value for name, value in named.items() if value is not None}
        | totals
        | {name: previous[name] for name in _KEPT if name in previous}
    )
