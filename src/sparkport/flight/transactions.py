"""Run a request within the transaction of its call."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sparkport.catalog.call import Call
from sparkport.catalog.tables import Catalog
from sparkport.catalog.transactions import (
    TransactionalCatalog,
    TransactionManager,
    TransactionMode,
    TransactionState,
)
from sparkport.errors import NotImplementedByServerError


def manager_of(catalog: Catalog) -> TransactionManager:
    """Return the transaction manager of a catalog. Raises NotImplementedByServerError if it has none."""
    if not isinstance(catalog, TransactionalCatalog):
        raise NotImplementedByServerError("transaction manager not configured")
    return catalog.transactions


@contextmanager
def active_in(call: Call, catalog: Catalog) -> Iterator[None]:
    """Run a request that is not part of the transaction, but only while that is active."""
    if call.transaction_id is not None:
        manager_of(catalog).transaction_mode(call, call.transaction_id)
    yield


@contextmanager
def statement_in(call: Call, catalog: Catalog) -> Iterator[None]:
    """Run one statement; an auto-commit transaction ends with it, others may end if it fails.

    Raises before the statement runs if the call's transaction is unknown or no longer active.
    """
    transaction_id = call.transaction_id
    if transaction_id is None:
        yield
        return
    manager = manager_of(catalog)
    mode = manager.transaction_mode(call, transaction_id)
    try:
        yield
    except BaseException:
        # Another statement may have ended the transaction in the meantime.
        is_active = manager.transaction_status(call, transaction_id) is TransactionState.ACTIVE
        if mode.ends_with_failure and is_active:
            # Also when the client has left: nobody else would do it before the idle time is over.
            manager.rollback_transaction(call.detached(), transaction_id)
        raise
    if mode is TransactionMode.AUTO_COMMIT:
        # The statement has succeeded: a client that has left, or a passed deadline, cannot undo it.
        manager.commit_transaction(call.detached(), transaction_id)
