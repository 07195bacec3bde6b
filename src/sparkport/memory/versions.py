"""The history of a table: every statement adds one version."""

from __future__ import annotations

import bisect
import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa

from sparkport.catalog.scan import TimePoint, TimeUnit
from sparkport.catalog.tables import TableConstraints
from sparkport.errors import InvalidRequestError, NotFoundError
from sparkport.memory.rows import RowIds, Rows


@dataclass(frozen=True, slots=True)
class TableState:
    """What a table is at one moment. The schema has no row id field."""

    arrow_schema: pa.Schema
    constraints: TableConstraints = field(default_factory=TableConstraints)
    rows: Rows = field(default_factory=Rows)


@dataclass(frozen=True, slots=True)
class Version:
    """A state with its place in history.

    `sequence` orders the commits of the whole catalog; `touched` are the ids of
    the rows that this version changed or removed.
    """

    number: int
    sequence: int
    committed_at: datetime
    state: TableState
    touched: RowIds


@dataclass(slots=True)
class Commits:
    """Orders all commits of a catalog; whoever commits holds `lock`."""

    lock: threading.RLock = field(default_factory=threading.RLock)
    sequence: int = 0

    def next(self) -> int:
        """Return the number of the commit being made."""
        self.sequence += 1
        return self.sequence


class History:
    """The versions of one table, oldest first. Written only under the commit lock."""

    def __init__(self, commits: Commits, state: TableState) -> None:
        self._commits = commits
        self._versions: list[Version] = []
        self.add(state)

    @property
    def newest(self) -> Version:
        """The current version."""
        return self._versions[-1]

    def add(self, state: TableState, touched: RowIds | None = None) -> Version:
        """Append a version and return it."""
        now = datetime.now(UTC)
        if self._versions:
            # Times must rise strictly, or AT TIMESTAMP could not tell two versions apart.
            now = max(now, self._versions[-1].committed_at + timedelta(microseconds=1))
        ids = np.empty(0, np.int64) if touched is None else touched
        version = Version(len(self._versions), self._commits.next(), now, state, ids)
        self._versions.append(version)
        return version

    def numbered(self, number: int) -> Version:
        """Return the version of that number."""
        if not 0 <= number < len(self._versions):
            raise NotFoundError("version", str(number))
        return self._versions[number]

    def as_of(self, sequence: int) -> Version | None:
        """Return the newest version that was committed at or before `sequence`."""
        index = bisect.bisect_right(self._versions, sequence, key=lambda version: version.sequence)
        return self._versions[index - 1] if index else None

    def since(self, version: Version) -> list[Version]:
        """Return what was committed after `version`."""
        return self._versions[version.number + 1 :]

    def at(self, time_point: TimePoint, table_id: str) -> Version:
        """Return the version that a time point means."""
        match time_point.unit:
            case TimeUnit.VERSION:
                return self.numbered(_number(time_point.value))
            case TimeUnit.TIMESTAMP:
                return self._at_time(_timestamp(time_point.value), time_point.value)
            case TimeUnit.SNAPSHOT:
                owner, _, number = time_point.value.rpartition(":")
                if owner != table_id or not number.isdigit():
                    raise NotFoundError("snapshot", time_point.value)
                return self.numbered(int(number))

    def _at_time(self, moment: datetime, text: str) -> Version:
        index = bisect.bisect_right(self._versions, moment, key=lambda version: version.committed_at)
        if not index:
            raise NotFoundError("version at timestamp", text)
        return self._versions[index - 1]


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise InvalidRequestError(f"{text!r} is not a version number") from error


def _timestamp(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise InvalidRequestError(f"{text!r} is not a timestamp such as 2024-01-15T10:30:00Z") from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
