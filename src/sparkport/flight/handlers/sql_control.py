"""Transactions, sessions and running queries of Flight SQL."""

from __future__ import annotations

import contextlib

from sparkport.catalog.transactions import TransactionManager, TransactionMode, offers_staged_sql
from sparkport.errors import NotFoundError, PreconditionError, TransactionNotActiveError
from sparkport.flight.context import ServerContext
from sparkport.flight.request import Request
from sparkport.flight.transactions import manager_of
from sparkport.protocol import flights
from sparkport.protocol.flight_sql import sessions as sql_sessions
from sparkport.protocol.flight_sql.actions import EndTransaction
from sparkport.protocol.flight_sql.sessions import Session


def begin_transaction(context: ServerContext, request: Request, body: None) -> str:
    """Begin a transaction whose statements are seen by it alone until it is committed."""
    del body
    catalog = _session(request).catalog or context.default_catalog(request)
    manager = manager_of(context.named_catalog(request.call, catalog))
    if not offers_staged_sql(manager):
        raise PreconditionError(
            "statements in SQL do not take part in transactions here; use autocommit: on Spark, transactions"
            " need a warehouse on a local disk"
        )
    transaction_id = manager.begin_transaction(request.call, TransactionMode.STAGED_FROM_FIRST_USE)
    context.session_transactions.began(request.call, transaction_id, catalog)
    return transaction_id


def end_transaction(context: ServerContext, request: Request, body: EndTransaction) -> None:
    """Commit or roll back a transaction."""
    manager = _manager(context, request)
    if body.commits:
        manager.commit_transaction(request.call, body.transaction_id)
    else:
        manager.rollback_transaction(request.call, body.transaction_id)
    context.session_transactions.ended(request.call, body.transaction_id)


def cancel(context: ServerContext, request: Request, tickets: list[bytes]) -> None:
    """Cancel the query that tickets belong to, whether it runs or not."""
    for ticket in tickets:
        context.signer.verify(ticket, request.call.principal)
    for ticket in tickets:
        context.running_queries.cancel(ticket)


def renew(context: ServerContext, request: Request, ticket: bytes) -> bytes:
    """Return an endpoint for the same rows that expires later."""
    principal = request.call.principal
    renewed = context.signer.sign(context.signer.verify(ticket, principal), principal)
    return flights.local_endpoint(renewed, context.signer.expires).SerializeToString()


def set_options(context: ServerContext, request: Request, options: dict[str, str | None]) -> dict[str, int]:
    """Set options of the session; return those that are refused, each with the number of the reason."""
    del context
    session, errors = sql_sessions.with_options(_session(request), options)
    request.rpc.send_initial_metadata((("set-cookie", sql_sessions.make_cookie(session)),))
    return errors


def get_options(context: ServerContext, request: Request, body: bytes) -> Session:
    """Return the session."""
    del context, body
    return _session(request)


def close_session(context: ServerContext, request: Request, body: bytes) -> None:
    """End the session, and roll back the transactions that are still open on its connection."""
    del body
    for transaction_id, catalog in context.session_transactions.close(request.call).items():
        with contextlib.suppress(NotFoundError, TransactionNotActiveError):
            manager_of(context.named_catalog(request.call, catalog)).rollback_transaction(
                request.call, transaction_id
            )
    request.rpc.send_initial_metadata((("set-cookie", sql_sessions.closed_cookie()),))


def _session(request: Request) -> Session:
    return sql_sessions.read_cookie(request.headers.get("cookie"))


def _manager(context: ServerContext, request: Request) -> TransactionManager:
    return manager_of(context.catalog(request, _session(request).catalog))
