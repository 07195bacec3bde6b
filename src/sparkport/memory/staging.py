"""The uncommitted changes of a staged transaction to a table."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from sparkport.catalog.call import Call
from sparkport.memory.rows import RowIds
from sparkport.memory.versions import Change, History, TableState, Version


@dataclass(slots=True)
class StagedTable:
    """The changes of one transaction to one table, in order.

    Each is applied at once to what the transaction sees, and again to the newest
    version when the transaction commits.
    """

    history: History
    base: Version
    changes: list[Change] = field(default_factory=list)
    versions: list[Version] = field(default_factory=list)

    @property
    def newest(self) -> Version:
        """What the transaction sees."""
        return self.versions[-1] if self.versions else self.base

    def add(self, call: Call, change: Change, label: str) -> int:
        """Stage a change and return its count; the version it makes is known by `label`."""
        state, _, count = change(call, self.newest)
        call.check()
        # The number stays that of the base, from which conflicts are counted.
        self.versions.append(replace(self.base, state=state, label=f"{label}.{len(self.versions)}"))
        self.changes.append(change)
        return count

    def apply_to_newest(self, call: Call) -> tuple[TableState, RowIds]:
        """Return the newest version with the changes applied, and the ids of the rows that they touch.

        Raises ConflictError or ConstraintViolationError if they no longer fit.
        """
        version = self.history.newest
        touched = [np.empty(0, np.int64)]
        for change in self.changes:
            state, ids, _ = change(call, version)
            version = replace(version, state=state)
            touched.append(ids)
        return version.state, np.unique(np.concatenate(touched))
