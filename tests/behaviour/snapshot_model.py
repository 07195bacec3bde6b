"""Snapshot isolation in a few lines of Python: what a catalog must do with interleaved transactions.

Tables are dictionaries from a key, which is unique, to a value. First committer wins by row.
"""

from __future__ import annotations

from dataclasses import dataclass, field

Rows = dict[int, int]
Tables = dict[str, Rows]

CONFLICT, DUPLICATE, MISSING, NOT_ACTIVE = "conflict", "duplicate", "missing", "not active"


@dataclass
class _Row:
    """A row of some moment; `identity` stays when its value changes."""

    identity: int
    value: int


@dataclass
class _Transaction:
    """What a transaction sees, the rows that it found when it began, and those it has changed."""

    tables: dict[str, dict[int, _Row]]
    began: dict[str, dict[int, _Row]]
    touched: dict[str, set[int]] = field(default_factory=dict)


class SnapshotModel:
    """A database with snapshot isolation."""

    def __init__(self, tables: Tables) -> None:
        self._identities = 0
        self._committed: dict[str, dict[int, _Row]] = {}
        for name, rows in tables.items():
            self._committed[name] = {key: self._row(value) for key, value in rows.items()}
        self._open: dict[str, _Transaction] = {}

    def run(self, session: str, step: tuple[object, ...]) -> object:
        """Run a step of a session, and return what it gives: rows, a count or how it fails."""
        match step:
            case ("begin",):
                self._open[session] = _Transaction(_copy(self._committed), _copy(self._committed))
                return None
            case ("commit",):
                return self._commit(self._open.pop(session)) if session in self._open else NOT_ACTIVE
            case ("rollback",):
                return None if self._open.pop(session, None) else NOT_ACTIVE
        if session in self._open:
            return self._statement(self._open[session], step)
        alone = _Transaction(_copy(self._committed), _copy(self._committed))
        answer = self._statement(alone, step)
        if not isinstance(answer, str):
            self._commit(alone)
        return answer

    def committed(self) -> Tables:
        """Return all rows that are committed."""
        return {name: _values(rows) for name, rows in self._committed.items()}

    def _statement(self, transaction: _Transaction, step: tuple[object, ...]) -> object:
        action, table, *arguments = step
        rows = transaction.tables[str(table)]
        touched = transaction.touched.setdefault(str(table), set())
        match action, arguments:
            case "read", []:
                return _values(rows)
            case "insert", [int(key), int(value)]:
                if key in rows:
                    return DUPLICATE
                rows[key] = self._row(value)
                return 1
            case "update", [int(key), int(value)]:
                if key not in rows:
                    return MISSING
                touched.add(rows[key].identity)
                rows[key] = _Row(rows[key].identity, value)
                return 1
            case "delete", [int(key)]:
                if key not in rows:
                    return MISSING
                touched.add(rows.pop(key).identity)
                return 1
        raise AssertionError(step)

    def _commit(self, transaction: _Transaction) -> str | None:
        merged = _copy(self._committed)
        for name, seen in transaction.tables.items():
            began = {row.identity: (key, row.value) for key, row in transaction.began[name].items()}
            now = {row.identity: (key, row.value) for key, row in merged[name].items()}
            changed = transaction.touched.get(name, set()) & began.keys()
            if any(now.get(one) != began[one] for one in changed):
                return CONFLICT
            for one in changed:
                del merged[name][now[one][0]]
            new = {key: row for key, row in seen.items() if row.identity not in began.keys() - changed}
            if new.keys() & merged[name].keys():
                return DUPLICATE
            merged[name] |= new
        self._committed = merged
        return None

    def _row(self, value: int) -> _Row:
        self._identities += 1
        return _Row(self._identities, value)


def _copy(tables: dict[str, dict[int, _Row]]) -> dict[str, dict[int, _Row]]:
    return {name: dict(rows) for name, rows in tables.items()}


def _values(rows: dict[int, _Row]) -> Rows:
    return {key: row.value for key, row in sorted(rows.items())}
