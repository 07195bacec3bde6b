"""Read a Delta table's log: versions, headers, snapshots, times."""

from __future__ import annotations

import bisect
import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from sparkport.errors import NotFoundError
from sparkport.spark.delta.errors import CorruptLogError, report_damage
from sparkport.spark.delta.log import checkpoints, commits
from sparkport.spark.delta.log.actions import Metadata, Protocol
from sparkport.spark.delta.log.cache import VersionCache
from sparkport.spark.delta.log.history import read_history
from sparkport.spark.delta.log.listing import Listing, Segment, newest_version, read_listing
from sparkport.spark.delta.log.snapshots import DeltaSnapshot, Replay, TableHeader, has_in_commit_times
from sparkport.spark.storage.filesystem import Stamp, Storage, location_of, storage_of
from sparkport.spark.storage.folder_names import table_label

T = TypeVar("T")

_KEPT_SNAPSHOTS = 4
_KEPT_HEADERS = 16
_MAX_READS = 3
_MAX_CATCH_UP = 200  # commits; a checkpoint in between is faster to read than more of them


class DeltaLog:
    """The log of one table. Safe to use from many threads.

    Nothing is remembered that a listing of the folder could contradict: every call sees
    what is committed when it begins. All methods raise NotFoundError where there is no
    table or no such version, and CorruptLogError for a log that cannot be read.
    """

    def __init__(self, root: str, storage: Storage | None = None) -> None:
        self.root = location_of(root)
        self._folder = f"{self.root}/_delta_log"
        self._storage = storage or storage_of(self.root)
        self._snapshots: VersionCache[DeltaSnapshot] = VersionCache(_KEPT_SNAPSHOTS)
        self._headers: VersionCache[TableHeader] = VersionCache(_KEPT_HEADERS)
        self._building = threading.Lock()  # whoever comes second finds the snapshot made

    def newest_version(self) -> int:
        """Return the newest version, at the cost of one listing."""
        return newest_version(self.root, self._names())

    def last_checkpoint(self) -> tuple[int, int]:
        """Return the newest version and that of the newest checkpoint, 0 if there is none."""
        listing = read_listing(self.root, self._names())
        return listing.newest, max(listing.checkpoints, default=0)

    def header(self, version: int | None = None) -> TableHeader:
        """Return what a version is, without replaying its files."""
        return _read_again_if_replaced(lambda: self._header(version))

    def snapshot(self, version: int | None = None) -> DeltaSnapshot:
        """Return a version with all its files."""
        return _read_again_if_replaced(lambda: self._snapshot(version))

    def _header(self, version: int | None) -> TableHeader:
        names = self._names() if version is None else []
        target = newest_version(self.root, names) if version is None else version
        stamp = self.stamp(target)
        if stamp is not None:
            kept = self._headers.get(target, stamp) or self._snapshots.get(target, stamp)
            if kept is not None:
                return kept.header if isinstance(kept, DeltaSnapshot) else kept
        listing = read_listing(self.root, names or self._names())
        protocol, metadata = self._find_header(listing, target)
        header = TableHeader(
            target, self._time(listing, target, stamp, protocol, metadata), protocol, metadata
        )
        if stamp is not None:
            self._headers.put(target, stamp, header)
        return header

    def _snapshot(self, version: int | None) -> DeltaSnapshot:
        names: list[str] | None = None
        if version is None:
            names = self._names()
            version = newest_version(self.root, names)
        stamp = self.stamp(version)
        kept = self._snapshots.get(version, stamp) if stamp else None
        if kept is not None:
            return kept
        with self._building:
            kept = self._snapshots.get(version, stamp) if stamp else None
            return kept or self._build(read_listing(self.root, names or self._names()), version, stamp)

    def transactions(self) -> Mapping[str, int]:
        """Return the versions of all applications, as of the newest version."""
        return self.snapshot().transactions

    def changes_rows(self, version: int) -> bool:
        """Return whether a commit adds, changes or removes rows; one that was cleaned up may have.

        An ALTER does not, whether it writes them again or not, nor does a commit that only arranges files.
        """
        return self._has_changes(version, ("add", "remove"))

    def removes_rows(self, version: int) -> bool:
        """Return whether a commit changes or removes rows; one that was cleaned up may have."""
        return self._has_changes(version, ("remove",))

    def _has_changes(self, version: int, kinds: tuple[str, ...]) -> bool:
        name = commits.commit_name(version)
        try:
            data = self._storage.read(f"{self._folder}/{name}")
        except FileNotFoundError:
            return True
        with report_damage(self.root, version, name):
            return commits.changes_rows(commits.parse(data), kinds)

    def version_at(self, timestamp_ms: int) -> int:
        """Return the version that was the newest at a time, which may lie in the future."""
        times = self._modification_times()
        listing = read_listing(self.root, times)
        first = listing.first
        if first is None:
            raise CorruptLogError(self.root, listing.newest, "the commits before it are missing")
        start, since_ms = self._in_commit_start(listing.newest, first)
        if timestamp_ms >= since_ms:
            found = self._search_in_commit_times(start, listing.newest, timestamp_ms)
        else:
            found = _search_file_times(times, first, min(start - 1, listing.newest), timestamp_ms)
        if found is None:
            earliest = -62_135_596_800_000  # the year 1, before which Python has no time
            moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=max(timestamp_ms, earliest))
            raise NotFoundError("version at timestamp", moment.isoformat(sep=" ", timespec="milliseconds"))
        return found

    def history(self) -> Iterator[dict[str, Any]]:
        """Yield what each commit says of itself, the newest first."""
        times = self._modification_times()
        listing = read_listing(self.root, times)
        by_version = {version: times[commits.commit_name(version)] for version in listing.commits}
        return read_history(self._storage, self.root, by_version)

    def _names(self) -> list[str]:
        try:
            return self._storage.names(self._folder)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise NotFoundError("table", table_label(self.root)) from error

    def _modification_times(self) -> dict[str, int]:
        try:
            return self._storage.modification_times(self._folder)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise NotFoundError("table", table_label(self.root)) from error

    def stamp(self, version: int) -> Stamp | None:
        """Return the identity of a commit's file, None if there is none."""
        try:
            return self._storage.stamp(f"{self._folder}/{commits.commit_name(version)}")
        except FileNotFoundError:
            return None  # cleaned up, or never there: the listing tells

    def _find_header(self, listing: Listing, target: int) -> tuple[Protocol, Metadata]:
        segment = listing.segment(target)
        near = self._headers.nearest(target, self.stamp)
        protocol: Protocol | None = None
        metadata: Metadata | None = None
        for version in reversed(segment.commits):
            if near is not None and near[0] == version:
                return protocol or near[1].protocol, metadata or near[1].metadata
            newer_protocol, newer_metadata = commits.read_header(self._storage, self.root, version)
            protocol = protocol or newer_protocol
            metadata = metadata or newer_metadata
            if protocol and metadata:
                return protocol, metadata
        if segment.checkpoint is not None:
            files = segment.checkpoint_files
            base = checkpoints.read_header(self._storage, self.root, segment.checkpoint, files)
            protocol, metadata = protocol or base.protocol, metadata or base.metadata
        return self._complete(target, protocol, metadata)

    def _build(self, listing: Listing, target: int, stamp: Stamp | None) -> DeltaSnapshot:
        segment = listing.segment(target)
        near = self._snapshots.nearest(target, self.stamp)
        if near is not None and self._catches_up(listing, segment, near[0], target):
            replay, rest = Replay(near[1]), range(near[0] + 1, target + 1)
        else:
            replay, rest = Replay(), segment.commits
            if segment.checkpoint is not None:
                files = segment.checkpoint_files
                state = checkpoints.read_checkpoint(self._storage, self.root, segment.checkpoint, files)
                replay.apply(state)
        for version in rest:
            replay.apply(commits.read_commit(self._storage, self.root, version))
        protocol, metadata = self._complete(target, replay.protocol, replay.metadata)
        snapshot = replay.snapshot(target, self._time(listing, target, stamp, protocol, metadata))
        if stamp is not None:
            self._snapshots.put(target, stamp, snapshot)
        return snapshot

    @staticmethod
    def _catches_up(listing: Listing, segment: Segment, near: int, target: int) -> bool:
        if segment.checkpoint is None or near >= segment.checkpoint:
            return True
        gap = range(near + 1, target + 1)
        return len(gap) <= _MAX_CATCH_UP and all(version in listing.commits for version in gap)

    def _complete(
        self, version: int, protocol: Protocol | None, metadata: Metadata | None
    ) -> tuple[Protocol, Metadata]:
        if protocol is None or metadata is None:
            lacking = "protocol" if protocol is None else "metadata"
            raise CorruptLogError(self.root, version, f"no commit sets the table's {lacking}")
        return protocol, metadata

    def _time(
        self, listing: Listing, version: int, stamp: Stamp | None, protocol: Protocol, metadata: Metadata
    ) -> int:
        if stamp is None:  # only the checkpoint of this version is left
            return self._storage.stamp(f"{self._folder}/{listing.checkpoints[version][0]}").modified_ms
        if has_in_commit_times(protocol, metadata):
            return commits.read_in_commit_ms(self._storage, self.root, version)
        return stamp.modified_ms

    def _in_commit_start(self, newest: int, first: int) -> tuple[int, float]:
        """Return from which version and time on commits carry their own time."""
        header = self.header(newest)
        if not has_in_commit_times(header.protocol, header.metadata):
            return newest + 1, float("inf")
        properties = header.metadata.configuration
        start = properties.get("delta.inCommitTimestampEnablementVersion")
        since_ms = properties.get("delta.inCommitTimestampEnablementTimestamp")
        if start is None or since_ms is None or int(start) <= first:
            return first, float("-inf")
        return int(start), int(since_ms)

    def _search_in_commit_times(self, low: int, high: int, timestamp_ms: int) -> int | None:
        versions = range(low, high + 1)
        after = bisect.bisect_right(versions, timestamp_ms, key=self._in_commit_ms)
        return versions[after - 1] if after else None

    def _in_commit_ms(self, version: int) -> int:
        return commits.read_in_commit_ms(self._storage, self.root, version)


def _read_again_if_replaced(read: Callable[[], T]) -> T:
    """Return what is read. A file that was listed and is gone: another table has come to the folder."""
    for _ in range(_MAX_READS - 1):
        try:
            return read()
        except CorruptLogError as error:
            if not isinstance(error.__cause__, FileNotFoundError):
                raise
    return read()


def _search_file_times(times: dict[str, int], low: int, high: int, timestamp_ms: int) -> int | None:
    """Return the last of the versions whose file is not newer than a time.

    Copied or restored logs may have files out of order; as Delta does it, a commit that
    is not newer than the one before is taken to be a millisecond younger.
    """
    found: int | None = None
    previous: int | None = None
    for version in range(low, high + 1):
        modified = times.get(commits.commit_name(version))
        if modified is None:
            continue  # the first version may be a checkpoint alone
        previous = modified if previous is None else max(modified, previous + 1)
        if previous > timestamp_ms:
            break
        found = version
    return found
