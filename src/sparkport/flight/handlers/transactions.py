"""Begin and end transactions."""

from __future__ import annotations

from sparkport.catalog.transactions import (
    TransactionalCatalog,
    TransactionManager,
    TransactionMode,
    TransactionState,
)
from sparkport.errors import NotFoundError
from sparkport.flight.context import ServerContext
from sparkport.flight.request import Request
from sparkport.flight.transactions import manager_of
from sparkport.protocol.airport.requests import CatalogRequest
from sparkport.protocol.json_dialect.requests import BeginRequest


def create_transaction(context: ServerContext, request: Request, body: CatalogRequest) -> str | None:
    """Begin a transaction for DuckDB; return None if the catalog has no transactions."""
    catalog = context.catalog(request, body.catalog)
    if not isinstance(catalog, TransactionalCatalog):
        return None
    transaction_id = catalog.transactions.begin_transaction(request.call, TransactionMode.STATEMENT)
    context.new_tables.began(request, transaction_id)
    return transaction_id


def begin(context: ServerContext, request: Request, body: BeginRequest) -> str:
    """Begin a transaction of the JSON dialect."""
    mode = TransactionMode.STAGED_UNTIL_FAILURE if body.auto_rollback else TransactionMode.STAGED
    mode = TransactionMode.AUTO_COMMIT if body.auto_commit else mode
    return _manager(context, request).begin_transaction(request.call, mode)


def status(context: ServerContext, request: Request, transaction_id: str) -> TransactionState:
    """Return the state of a transaction."""
    state = _manager(context, request).transaction_status(request.call, transaction_id)
    if state is None:
        raise NotFoundError("transaction", transaction_id)
    return state


def commit(context: ServerContext, request: Request, transaction_id: str) -> TransactionState:
    """Commit a transaction."""
    _manager(context, request).commit_transaction(request.call, transaction_id)
    return TransactionState.COMMITTED


def rollback(context: ServerContext, request: Request, transaction_id: str) -> TransactionState:
    """Roll back a transaction."""
    _manager(context, request).rollback_transaction(request.call, transaction_id)
    return TransactionState.ABORTED


def _manager(context: ServerContext, request: Request) -> TransactionManager:
    return manager_of(context.catalog(request, ""))
