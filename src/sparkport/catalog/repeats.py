"""Statements that are sent again, because the reply to the first was lost.

A statement may carry a key (`Call.idempotency_key`). A table keeps the outcome of each with its
rows; of a statement whose key it knows, it returns the first outcome and changes nothing.
"""

from __future__ import annotations

import pyarrow as pa

from sparkport.catalog.dml import Statement
from sparkport.errors import PreconditionError


class RepeatedStatement(Statement):
    """Takes the rows of a statement that is done already, and forgets them."""

    def __init__(self, affected: int) -> None:
        self._affected = affected

    def write(self, batch: pa.RecordBatch) -> None:
        """Forget a batch."""
        del batch

    def commit(self) -> int:
        """Return the first outcome."""
        return self._affected

    def abort(self) -> None:
        """Do nothing."""


def repeated(affected: int, *, returning: bool) -> Statement:
    """Return the repetition of a statement that has changed so many rows.

    Raises PreconditionError if its rows are wanted: they may have been changed since.
    """
    check_returnable(affected, returning=returning)
    return RepeatedStatement(affected)


def check_returnable(affected: int, *, returning: bool) -> None:
    """Raise PreconditionError if the rows of a statement that is done are wanted."""
    if returning:
        raise PreconditionError(
            f"the statement with this x-idempotency-key is done already, with {affected} rows;"
            " they cannot be returned again"
        )
