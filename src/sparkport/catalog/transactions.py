"""Transactions across calls."""

from __future__ import annotations

import enum
from abc import abstractmethod
from typing import Protocol, runtime_checkable

from sparkport.catalog.call import Call
from sparkport.catalog.tables import Catalog


class TransactionState(enum.StrEnum):
    """Where a transaction stands."""

    ACTIVE = "active"
    COMMITTED = "committed"
    ABORTED = "aborted"


class TransactionMode(enum.StrEnum):
    """What a transaction does with the statements that carry its id."""

    STATEMENT = "statement"
    """Each statement stands by itself; the transaction is a view that stays the same."""
    AUTO_COMMIT = "auto_commit"
    """The first statement ends the transaction: committed if it succeeds, else aborted."""
    STAGED = "staged"
    """Statements are seen by the transaction alone until it is committed as a whole."""
    STAGED_UNTIL_FAILURE = "staged_until_failure"
    """The same, and the first statement that fails aborts the transaction."""
    STAGED_FROM_FIRST_USE = "staged_from_first_use"
    """As `STAGED`, but what is seen is fixed by the first statement: drivers begin the next transaction as
    soon as one ends, however long nothing follows."""

    @property
    def is_staged(self) -> bool:
        """Whether statements are seen by the transaction alone until it is committed."""
        return self in {
            TransactionMode.STAGED,
            TransactionMode.STAGED_UNTIL_FAILURE,
            TransactionMode.STAGED_FROM_FIRST_USE,
        }

    @property
    def ends_with_failure(self) -> bool:
        """Whether a statement that fails aborts the transaction."""
        return self in {TransactionMode.AUTO_COMMIT, TransactionMode.STAGED_UNTIL_FAILURE}


@runtime_checkable
class TransactionManager(Protocol):
    """Begins and ends transactions. Optional: servers work without one."""

    @abstractmethod
    def begin_transaction(self, call: Call, mode: TransactionMode = TransactionMode.STATEMENT) -> str:
        """Start a transaction and return its id, unique for ever."""
        raise NotImplementedError

    @abstractmethod
    def transaction_mode(self, call: Call, transaction_id: str) -> TransactionMode:
        """Return how an active transaction was begun.

        Raises NotFoundError for an unknown id, TransactionNotActiveError for one
        that is over.
        """
        raise NotImplementedError

    @abstractmethod
    def commit_transaction(self, call: Call, transaction_id: str) -> None:
        """End a transaction and keep its writes; doing it twice is fine.

        Raises NotFoundError for an unknown id, TransactionNotActiveError for an
        aborted one, ConflictError when another transaction came first.
        """
        raise NotImplementedError

    @abstractmethod
    def rollback_transaction(self, call: Call, transaction_id: str) -> None:
        """End a transaction and drop its writes; doing it twice is fine.

        Raises NotFoundError for an unknown id, TransactionNotActiveError for a
        committed one.
        """
        raise NotImplementedError

    @abstractmethod
    def transaction_status(self, call: Call, transaction_id: str) -> TransactionState | None:
        """Return the state, or None for an unknown id. Changes nothing."""
        raise NotImplementedError


def offers_staged_sql(manager: TransactionManager) -> bool:
    """Return whether statements in SQL take part in staged transactions.

    A manager whose catalog runs them outside of transactions has `offers_staged_sql = False`.
    """
    return bool(getattr(manager, "offers_staged_sql", True))


@runtime_checkable
class TransactionalCatalog(Catalog, Protocol):
    """A catalog with transactions."""

    @property
    @abstractmethod
    def transactions(self) -> TransactionManager:
        """The manager of this catalog's transactions."""
        raise NotImplementedError
