"""Which versions the files in a log's folder can rebuild."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sparkport.errors import NotFoundError
from sparkport.spark.delta.errors import CorruptLogError, VersionNotFoundError
from sparkport.spark.storage.folder_names import table_label

_DIGITS = 20
_COMMIT = _DIGITS + len(".json")
_CHECKPOINT = re.compile(
    r"(?P<version>\d{20})\.checkpoint\."
    r"(?:(?P<part>\d{10})\.(?P<parts>\d{10})\.parquet|parquet|[0-9a-fA-F-]{36}\.(?:json|parquet))"
)


@dataclass(frozen=True, slots=True)
class Segment:
    """The files that make up one version: a checkpoint, and the commits after it."""

    checkpoint: int | None
    checkpoint_files: tuple[str, ...]
    commits: range


@dataclass(frozen=True, slots=True)
class Listing:
    """The commits and complete checkpoints in a log's folder."""

    root: str
    commits: frozenset[int]
    checkpoints: Mapping[int, tuple[str, ...]]
    newest: int

    @property
    def first(self) -> int | None:
        """The oldest version from which an unbroken row of versions leads to the newest."""
        low = self.newest
        while low in self.commits:
            low -= 1
        # Commits `low + 1` and later are there: a checkpoint from `low` on carries them.
        return 0 if low < 0 else min((at for at in self.checkpoints if at >= low), default=None)

    def segment(self, version: int) -> Segment:
        """Return what must be read for a version."""
        base = max((at for at in self.checkpoints if at <= version), default=None)
        commits = range(0 if base is None else base + 1, version + 1)
        missing = next((number for number in commits if number not in self.commits), None)
        if missing is None and version >= 0:
            return Segment(base, () if base is None else self.checkpoints[base], commits)
        first = self.first
        if first is not None and not first <= version <= self.newest:
            raise VersionNotFoundError(self.root, version, first, self.newest)
        raise CorruptLogError(self.root, missing or 0, "its commit is missing and no checkpoint replaces it")


def newest_version(root: str, names: Iterable[str]) -> int:
    """Return the newest version among the names in a log's folder."""
    # Sorting is faster than looking at each: the newest comes first but for a few names with `_`.
    newest = next((name for name in sorted(names, reverse=True) if _is_version(name)), None)
    if newest is None:
        raise NotFoundError("table", table_label(root))
    return int(newest[:_DIGITS])


def read_listing(root: str, names: Iterable[str]) -> Listing:
    """Sort the names in a log's folder by what they are."""
    commits: list[int] = []
    parts_by_checkpoint: dict[tuple[int, int], list[str]] = {}
    for name in names:
        if len(name) == _COMMIT:
            if _is_version(name):
                commits.append(int(name[:_DIGITS]))
        elif (match := _CHECKPOINT.fullmatch(name)) is not None:
            # Any checkpoint of a version will do, but the parts of one belong together.
            parts_by_checkpoint.setdefault((int(match["version"]), int(match["parts"] or 1)), []).append(name)
    checkpoints: dict[int, tuple[str, ...]] = {}
    for (version, parts), files in sorted(parts_by_checkpoint.items(), reverse=True):
        if parts == 1:
            checkpoints[version] = (max(files),)
        elif len(files) == parts:
            checkpoints[version] = tuple(sorted(files))
    newest = max([*commits, *checkpoints], default=None)
    if newest is None:
        raise NotFoundError("table", table_label(root))
    return Listing(root, frozenset(commits), checkpoints, newest)


def _is_version(name: str) -> bool:
    if len(name) == _COMMIT:
        return name.endswith(".json") and name[:_DIGITS].isdigit()
    return ".checkpoint." in name and _CHECKPOINT.fullmatch(name) is not None
