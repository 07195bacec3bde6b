"""What the transaction of a call means for a statement."""

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
    """Return the catalog's manager. Raises NotImplementedByServerError without one."""
    if not isinstance(catalog, TransactionalCatalog):
        raise NotImplementedByServerError("transaction manager not configured")
    return catalog.transactions


@contextmanager
def active_in(call: Call, catalog: Catalog) -> Iterator[None]:
    """Run a request that takes no part in its transaction, but only while that is active."""
    if call.transaction_id is not None:
        manager_of(catalog).transaction_mode(call, call.transaction_id)
    yield


@contextmanager
def statement_in(call: Call, catalog: Catalog) -> Iterator[None]:
    """Run one statement; a transaction that commits by itself ends with it.

    Raises before anything is done if the call's transaction is unknown or over.
    """
    transaction_id = call.transaction_id
    if transaction_id is None:
        yield
        return
    manager = manager_of(catalog)
    auto_commit = manager.transaction_mode(call, transaction_id) is TransactionMode.AUTO_COMMIT
    try:
        yield
    except BaseException:
        # One that has ended meanwhile, by another statement, stays as it ended.
        if auto_commit and manager.transaction_status(call, transaction_id) is TransactionState.ACTIVE:
            manager.rollback_transaction(call, transaction_id)
        raise
    if auto_commit:
        # The statement is done: that its client has left meanwhile, or is late, cannot undo it.
        manager.commit_transaction(call.detached(), transaction_id)
