"""Beginning and ending transactions."""

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
from sparkport.protocol.json_requests import BeginRequest
from sparkport.protocol.requests import CatalogRequest


def create_transaction(site: ServerContext, request: Request, wanted: CatalogRequest) -> str | None:
    """Begin DuckDB's kind of transaction; None where the catalog has none."""
    catalog = site.catalog(request, wanted.catalog)
    if not isinstance(catalog, TransactionalCatalog):
        return None
    begun = catalog.transactions.begin_transaction(request.call, TransactionMode.STATEMENT)
    site.new_tables.began(request, begun)
    return begun


def begin(site: ServerContext, request: Request, wanted: BeginRequest) -> str:
    """Begin a transaction of the contract dialect."""
    mode = TransactionMode.AUTO_COMMIT if wanted.auto_commit else TransactionMode.STAGED
    return _manager(site, request).begin_transaction(request.call, mode)


def status(site: ServerContext, request: Request, transaction_id: str) -> TransactionState:
    """Return the state of a transaction."""
    state = _manager(site, request).transaction_status(request.call, transaction_id)
    if state is None:
        raise NotFoundError("transaction", transaction_id)
    return state


def commit(site: ServerContext, request: Request, transaction_id: str) -> TransactionState:
    """Keep what a transaction wrote."""
    _manager(site, request).commit_transaction(request.call, transaction_id)
    return TransactionState.COMMITTED


def rollback(site: ServerContext, request: Request, transaction_id: str) -> TransactionState:
    """Drop what a transaction staged."""
    _manager(site, request).rollback_transaction(request.call, transaction_id)
    return TransactionState.ABORTED


def _manager(site: ServerContext, request: Request) -> TransactionManager:
    return manager_of(site.catalog(request, ""))
