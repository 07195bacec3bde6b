"""Statements that are sent again, because the reply to the first was lost.

A statement may carry a key (`Call.idempotency_key`). A table keeps the outcome of each with its
rows; of a statement whose key it knows, it returns the first outcome and changes nothing. A key belongs to
one statement: with other rows, another operation or another caller it is refused.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from sparkport.catalog.call import Call
from sparkport.catalog.dml import Statement
from sparkport.errors import InvalidRequestError, PreconditionError
from sparkport.toolkit.fingerprints import Fingerprint


@dataclass(frozen=True, slots=True)
class Outcome:
    """How many rows a statement has changed, and its fingerprint; 0 where that was not kept."""

    affected: int
    fingerprint: int = 0


@dataclass(frozen=True, slots=True)
class StatementKey:
    """The key of a statement whose rows have all come."""

    name: str
    fingerprint: int

    def outcome(self, affected: int) -> Outcome:
        """Return what to keep under the key."""
        return Outcome(affected, self.fingerprint)

    def matched(self, done: Outcome | None) -> int | None:
        """Return how many rows the statement has changed when it was done before, None if it was not.

        Raises InvalidRequestError if it was another statement.
        """
        if done is None:
            return None
        if done.fingerprint not in {0, self.fingerprint}:
            raise InvalidRequestError(
                "this x-idempotency-key was used for another statement; each statement needs one of its own"
            )
        return done.affected


class KeyMaker:
    """Makes the key of a statement while its rows come; there is none if its call has none."""

    def __init__(self, call: Call, operation: str, columns: tuple[str, ...] = ()) -> None:
        self._name = call.idempotency_key
        self._fingerprint = Fingerprint(call.principal, operation, columns) if self._name else None

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows of the statement."""
        if self._fingerprint is not None:
            self._fingerprint.add(batch)

    def key(self) -> StatementKey | None:
        """Return the key, once all rows have come."""
        if self._name is None or self._fingerprint is None:
            return None
        return StatementKey(self._name, self._fingerprint.value())


class RepeatedStatement(Statement):
    """Takes the rows of a statement that was already executed, and only checks whether they are the same."""

    def __init__(self, done: Outcome, keys: KeyMaker, if_version: str | None) -> None:
        self._done = done
        self._keys = keys
        self._if_version = if_version

    @property
    def version(self) -> str | None:
        """The snapshot that the rows were read from: they may have changed since."""
        return self._if_version

    def write(self, batch: pa.RecordBatch) -> None:
        """Add a batch to the fingerprint."""
        self._keys.add(batch)

    def commit(self) -> int:
        """Return the first outcome. Raises InvalidRequestError if it was another statement."""
        key = self._keys.key()
        return self._done.affected if key is None else key.matched(self._done) or 0

    def abort(self) -> None:
        """Do nothing."""


def repeated(
    call: Call, done: Outcome, operation: str, columns: tuple[str, ...] = (), *, returning: bool
) -> Statement:
    """Return the repetition of a statement that was already executed.

    Raises PreconditionError if its rows are requested: they may have been changed since.
    """
    check_returnable(done.affected, returning=returning)
    return RepeatedStatement(done, KeyMaker(call, operation, columns), call.if_version)


def check_returnable(affected: int, *, returning: bool) -> None:
    """Raise PreconditionError if the rows of a statement that was already executed are requested."""
    if returning:
        raise PreconditionError(
            f"the statement with this x-idempotency-key was already executed, with {affected} rows;"
            " they cannot be returned again"
        )
