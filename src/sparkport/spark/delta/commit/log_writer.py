"""Write a commit to a table's log on the local disk, without Spark.

A commit is written to a file of its own, through to the disk, and then gets the name of its version by a hard
link, which the kernel makes only if nothing has that name: of several writers one succeeds. The others check
what it has changed, as Delta does, and try the next version.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sparkport.errors import ConflictError
from sparkport.spark.delta.commit.checksums import write_checksum
from sparkport.spark.delta.commit.durability import write_through_added
from sparkport.spark.delta.commit.log_lock import server_commits
from sparkport.spark.delta.errors import SparkRequiredError, report_damage
from sparkport.spark.delta.features import CHECK_PROPERTY, Work, unsupported_features
from sparkport.spark.delta.log import members
from sparkport.spark.delta.log.actions import Metadata, Protocol
from sparkport.spark.delta.log.commits import OWN_ENGINE, commit_name, parse
from sparkport.spark.delta.log.snapshots import TableHeader, has_in_commit_times
from sparkport.spark.storage.filesystem import is_local, resolve, storage_of

_WRITER, _READER = 7, 3  # the versions of the protocol whose tables list their features
_MAX_TRIES = 100
# What link(2) says where the file system does not have them; on Linux mostly EPERM.
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK})

# Properties that ask nothing of whoever adds and removes files. With any other Delta may have more to do.
_HARMLESS = frozenset(
    {
        "delta.checkpoint.writeStatsAsJson",
        "delta.checkpoint.writeStatsAsStruct",
        "delta.checkpointInterval",
        "delta.checkpointPolicy",
        "delta.checkpointRetentionDuration",
        "delta.columnMapping.maxColumnId",
        "delta.columnMapping.mode",
        "delta.dataSkippingNumIndexedCols",
        "delta.deletedFileRetentionDuration",
        "delta.enableDeletionVectors",
        "delta.enableExpiredLogCleanup",
        "delta.enableInCommitTimestamps",
        "delta.enableTypeWidening",
        "delta.inCommitTimestampEnablementTimestamp",
        "delta.inCommitTimestampEnablementVersion",
        "delta.logRetentionDuration",
        "delta.parquet.compression.codec",
        "delta.setTransactionRetentionDuration",
    }
)


@dataclass(frozen=True, slots=True)
class NewCommit:
    """Actions of the log as JSON, made for a version of a table, and what the history says of them.

    `keys` are versions by application. Another commit since that version is a conflict if it changes the
    table's columns or properties, removes one of the same files, or records one of the keys. With `is_exact`
    it is one too if it adds files: what is committed was compared with all rows of that version.
    """

    table: str
    root: str
    base: TableHeader
    operation: str
    parameters: Mapping[str, str]
    actions: Sequence[str]
    keys: Mapping[str, int] = field(default_factory=dict)
    metrics: Mapping[str, int] = field(default_factory=dict)
    is_exact: bool = False

    @property
    def is_append(self) -> bool:
        """Whether nothing is removed."""
        return not any(text.startswith('{"remove"') for text in self.actions)


def can_commit(root: str, protocol: Protocol, metadata: Metadata, *, work: Work = Work.APPEND) -> bool:
    """Return whether files may be added to and removed from a table without Spark."""
    if protocol.min_writer > _WRITER or protocol.min_reader > _READER or not is_local(root):
        return False
    if unsupported_features(protocol, work):
        return False
    harmless = (CHECK_PROPERTY,) if work is Work.APPEND_CHECKED else ()
    return all(
        key in _HARMLESS
        or not key.startswith("delta.")
        or key.startswith(harmless)
        or value.lower() == "false"
        for key, value in metadata.configuration.items()
    )


def write_commit(commit: NewCommit, *, is_locked: bool = False) -> int:
    """Write a commit after whatever others have committed since its version; return its own version.

    With `is_locked` the caller keeps other commits out (`log_lock.holding_logs`).
    It and what it names are on the disk then, but for its name in the log's folder. Whatever is raised,
    nothing was committed: ConflictError, SparkRequiredError where Spark has to do it, or OSError.
    """
    actions = [json.loads(text) for text in commit.actions]
    write_through_added(commit.root, actions)
    removed = frozenset(_removed_paths(actions, commit.root))
    version, newest_ms = commit.base.version + 1, commit.base.timestamp_ms
    for _ in range(_MAX_TRIES):
        data = _encode(commit, newest_ms)
        lock = contextlib.nullcontext() if is_locked else server_commits(commit.root)
        with temporary_file(commit.root, version, data) as file, lock:
            is_published = _publish(file, commit.root, version)
        if is_published:
            write_checksum(commit.root, version, parse(data))
            return version
        while (winner := _read(commit.root, version)) is not None:
            _check_winner(commit, removed, winner)
            newest_ms = max(newest_ms, _in_commit_ms(winner))
            version += 1
    raise ConflictError(commit.table, "other writers were faster each time")


def _encode(commit: NewCommit, newest_ms: int) -> bytes:
    """Return the file of a commit; `newest_ms` is the time of the version before it."""
    now = int(time.time() * 1000)
    base = commit.base
    info: dict[str, Any] = {}
    if has_in_commit_times(base.protocol, base.metadata):
        info["inCommitTimestamp"] = max(now, newest_ms + 1)
    info |= {
        "timestamp": now,
        "operation": commit.operation,
        "operationParameters": dict(commit.parameters),
        "readVersion": base.version,
        "isolationLevel": "Serializable",
        "isBlindAppend": commit.is_append,
        "operationMetrics": {name: str(number) for name, number in commit.metrics.items()},
        "engineInfo": OWN_ENGINE,
        "txnId": str(uuid.uuid4()),
    }
    keys = [
        {"txn": {"appId": key, "version": version, "lastUpdated": now}}
        for key, version in commit.keys.items()
    ]
    lines = [json.dumps({"commitInfo": info}), *commit.actions, *map(json.dumps, keys)]
    return "".join(f"{line}\n" for line in lines).encode()


@contextlib.contextmanager
def temporary_file(root: str, version: int, data: bytes) -> Iterator[str]:
    """Yield the path of a file with these bytes, which are on the disk; the path is gone afterwards."""
    # Named as Delta names its own, so that other programs know that it is no version.
    path = f"{root}/_delta_log/.{commit_name(version)}.{uuid.uuid4()}.tmp"
    try:
        with open(path, "xb") as file:  # noqa: PTH123  (paths are text here)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        yield path
    finally:
        with contextlib.suppress(OSError):
            os.unlink(path)  # noqa: PTH108


def _publish(path: str, root: str, version: int) -> bool:
    """Give a file the name of a version, while others are kept out; return whether it was free."""
    previous = commit_name(version - 1)
    if not os.path.exists(f"{root}/_delta_log/{previous}"):  # noqa: PTH110
        # Cleaned up after a checkpoint; or another table has come to the folder.
        raise SparkRequiredError(root, f"{previous} is not there")
    return link_commit(path, root, version)


def link_commit(path: str, root: str, version: int) -> bool:
    """Give a file the name of a version; return whether it was free.

    Raises SparkRequiredError where the file system has no hard links.
    """
    target = f"{root}/_delta_log/{commit_name(version)}"
    try:
        os.link(path, target)
    except OSError as error:
        # Over a network the answer may be lost, and the kernel's second try finds the link of the first.
        if _is_same_file(path, target):
            return True
        if isinstance(error, FileExistsError):
            return False
        if error.errno not in _NO_LINKS:
            raise
        raise SparkRequiredError(root, "its file system has no hard links") from error
    return True


def _is_same_file(path: str, target: str) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return os.path.samefile(path, target)  # noqa: PTH121
    return False


def _read(root: str, version: int) -> list[dict[str, Any]] | None:
    """Return the actions of a version, None if it is not there yet."""
    name = commit_name(version)
    try:
        data = storage_of(root).read(f"{root}/_delta_log/{name}")
    except FileNotFoundError:
        return None
    with report_damage(root, version, name):
        return parse(data)


def _check_winner(commit: NewCommit, removed: frozenset[str], winner: list[dict[str, Any]]) -> None:
    """Raise ConflictError if another commit does not leave the ground on which this one was made."""
    for action in winner:
        match action:
            case {"metaData": dict()} | {"protocol": dict()}:
                raise ConflictError(commit.table, "its columns or properties were changed meanwhile")
            case {"add": dict()} if commit.is_exact:
                raise ConflictError(commit.table, "another writer added rows meanwhile")
            case {"txn": dict() as txn} if txn.get("appId") in commit.keys:
                raise ConflictError(commit.table, "another server runs the same statement")
            case _:
                pass
    if not removed.isdisjoint(_removed_paths(winner, commit.root)):
        raise ConflictError(commit.table, "another writer changed the same files")


def _removed_paths(actions: list[dict[str, Any]], root: str) -> Iterator[str]:
    for action in actions:
        file = members.optional_object(action, "remove")
        if file is not None:
            yield resolve(root, members.text(file, "path"))


def _in_commit_ms(actions: list[dict[str, Any]]) -> int:
    info = members.optional_object(actions[0], "commitInfo") if actions else None
    return members.optional_integer(info or {}, "inCommitTimestamp") or 0
