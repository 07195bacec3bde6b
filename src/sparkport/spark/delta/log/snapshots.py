"""The state of a Delta table at one version, and how commits lead to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sparkport.spark.delta.log.actions import DataFile, Metadata, Protocol
from sparkport.spark.delta.log.commits import Commit

_IN_COMMIT_FEATURES = frozenset({"inCommitTimestamp", "inCommitTimestamp-preview"})


@dataclass(frozen=True, slots=True)
class TableHeader:
    """What a version is, without its files."""

    version: int
    timestamp_ms: int
    protocol: Protocol
    metadata: Metadata


@dataclass(frozen=True, slots=True)
class DeltaSnapshot:
    """What a version is.

    `files` have the same order however the snapshot was built, so that a position in it
    means the same file to another process; `row_count` is exact, or None. `own_writes` says how many writes
    of one transaction are laid over the version, for that transaction alone.
    """

    version: int
    timestamp_ms: int
    protocol: Protocol
    metadata: Metadata
    files: tuple[DataFile, ...]
    transactions: Mapping[str, int]
    row_count: int | None
    own_writes: int = 0

    @property
    def header(self) -> TableHeader:
        """The same without files."""
        return TableHeader(self.version, self.timestamp_ms, self.protocol, self.metadata)

    def has_files_removed_by(self, later: DeltaSnapshot) -> bool:
        """Return whether a later version no longer has some of the files, which VACUUM may delete then."""
        paths = {file.path for file in later.files}
        return later.version > self.version and any(file.path not in paths for file in self.files)


class Replay:
    """The state of a table while commits are applied to it."""

    def __init__(self, base: DeltaSnapshot | None = None) -> None:
        self.protocol = base.protocol if base else None
        self.metadata = base.metadata if base else None
        self._files = {file.path: file for file in base.files} if base else {}
        self._transactions = dict(base.transactions) if base else {}

    def apply(self, commit: Commit) -> None:
        """Change the state as a commit says."""
        self.protocol = commit.protocol or self.protocol
        self.metadata = commit.metadata or self.metadata
        self._transactions.update(commit.transactions)
        # A transaction that was undone; no application counts from below zero.
        for name in [name for name, version in commit.transactions.items() if version < 0]:
            del self._transactions[name]
        for path, vector_id in commit.removed.items():
            present = self._files.get(path)
            # The removal of a file with another deletion vector is of a former state of it.
            if present is not None and present.vector_id == vector_id:
                del self._files[path]
        self._files.update(commit.added)

    def snapshot(self, version: int, timestamp_ms: int) -> DeltaSnapshot:
        """Return the state as a value; protocol and metadata must be known."""
        assert self.protocol is not None
        assert self.metadata is not None
        # A checkpoint keeps neither commits nor positions: time and name order a file wherever it is from.
        files = tuple(sorted(self._files.values(), key=_age))
        return DeltaSnapshot(
            version,
            timestamp_ms,
            self.protocol,
            self.metadata,
            files,
            self._transactions,
            total_rows(files),
        )


def total_rows(files: Iterable[DataFile]) -> int | None:
    """Return how many rows files have, None if the log does not tell of one."""
    counts = [file.row_count for file in files]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _age(file: DataFile) -> tuple[int, str]:
    return file.modification_ms, file.path


def has_in_commit_times(protocol: Protocol, metadata: Metadata) -> bool:
    """Return whether commits carry their own time."""
    enabled = metadata.configuration.get("delta.enableInCommitTimestamps", "").lower() == "true"
    return enabled and bool(_IN_COMMIT_FEATURES & protocol.writer_features)
