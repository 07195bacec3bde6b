"""The history of a table: every statement adds one version."""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa

from sparkport.catalog.call import Call
from sparkport.catalog.scan import TimePoint, TimeUnit
from sparkport.catalog.tables import TableConstraints
from sparkport.errors import NotFoundError
from sparkport.memory.commits import Commits
from sparkport.memory.outcomes import Outcomes
from sparkport.memory.rows import RowIds, Rows
from sparkport.toolkit.repeats import Outcome

_PIN = re.compile("(?P<owner>.*):(?P<number>[0-9]{1,18})(?P<private>p?)")


@dataclass(frozen=True, slots=True)
class TableState:
    """The columns, constraints and rows of a table at one moment. The schema has no row id field.

    `outcomes` are those of the last statements with an idempotency key, by key.
    """

    arrow_schema: pa.Schema
    constraints: TableConstraints = field(default_factory=TableConstraints)
    rows: Rows = field(default_factory=Rows)
    outcomes: Outcomes = field(default_factory=Outcomes)

    def with_outcome(self, key: str, outcome: Outcome) -> TableState:
        """Return the state with one more outcome; beyond a limit the oldest are dropped."""
        return replace(self, outcomes=self.outcomes.with_outcome(key, outcome))


@dataclass(frozen=True, slots=True)
class Version:
    """A state with its place in history.

    `sequence` orders the commits of the whole catalog; `touched` are the ids of
    the rows that this version changed or removed; `writer` is the transaction that
    made it. A version with a `label` is visible to one transaction only.
    """

    number: int
    sequence: int
    committed_at: datetime
    state: TableState
    touched: RowIds
    writer: str | None = None
    label: str = ""

    def pin(self, table_id: str) -> TimePoint:
        """Return the time point that names exactly this version."""
        return TimePoint(TimeUnit.SNAPSHOT, f"{table_id}:{self.label or self.number}")


Change = Callable[[Call, Version], tuple[TableState, RowIds, int]]
"""Applies a statement to a version; returns the new state, the ids of rows changed or removed, the count."""


class History:
    """The versions of one table, oldest first. Written only under the commit lock."""

    def __init__(self, commits: Commits, state: TableState) -> None:
        self._commits = commits
        self._versions: list[Version] = []
        self._private: dict[int, Version] = {}
        self.add(state)

    @property
    def newest(self) -> Version:
        """The current version."""
        return self._versions[-1]

    def add(
        self,
        state: TableState,
        touched: RowIds | None = None,
        *,
        writer: str | None = None,
        private: TableState | None = None,
        sequence: int | None = None,
    ) -> Version:
        """Append a version and return it.

        `private` is the state that its writer sees instead. Tables that are committed together
        share a sequence.
        """
        now = datetime.now(UTC)
        if self._versions:
            # Times must be strictly ascending, or AT TIMESTAMP would be ambiguous.
            now = max(now, self._versions[-1].committed_at + timedelta(microseconds=1))
        ids = np.empty(0, np.int64) if touched is None else touched
        version = Version(len(self._versions), sequence or self._commits.next(), now, state, ids, writer)
        if private is not None:
            self._private[version.number] = replace(version, state=private, label=f"{version.number}p")
        self._versions.append(version)
        return version

    def by_number(self, number: int) -> Version:
        """Return the version with that number."""
        if not 0 <= number < len(self._versions):
            raise NotFoundError("version", str(number))
        return self._versions[number]

    def as_written(self, number: int) -> Version:
        """Return the version as its writer sees it."""
        return self._private.get(number) or self.by_number(number)

    def as_of(self, sequence: int) -> Version | None:
        """Return the newest version that was committed at or before `sequence`."""
        index = bisect.bisect_right(self._versions, sequence, key=lambda version: version.sequence)
        return self._versions[index - 1] if index else None

    def since(self, version: Version) -> list[Version]:
        """Return what was committed after `version`."""
        return self._versions[version.number + 1 :]

    def at(self, time_point: TimePoint, table_id: str) -> Version:
        """Return the version that a time point names."""
        match time_point.unit:
            case TimeUnit.VERSION:
                return self.by_number(time_point.version())
            case TimeUnit.TIMESTAMP:
                return self._at_time(time_point.moment(), time_point.value)
            case TimeUnit.SNAPSHOT:
                pin = _PIN.fullmatch(time_point.value)
                if pin is None or pin["owner"] != table_id:
                    raise NotFoundError("snapshot", time_point.value)
                number = int(pin["number"])
                return self.as_written(number) if pin["private"] else self.by_number(number)

    def _at_time(self, moment: datetime, text: str) -> Version:
        index = bisect.bisect_right(self._versions, moment, key=lambda version: version.committed_at)
        if not index:
            raise NotFoundError("version at timestamp", text)
        return self._versions[index - 1]
