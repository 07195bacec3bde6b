"""List and cancel statements."""

from __future__ import annotations

from sparkport.flight.context import ServerContext
from sparkport.flight.request import Request
from sparkport.flight.statement_registry import StatementView


def list_statements(context: ServerContext, request: Request, body: bytes) -> list[StatementView]:
    """Return the statements that the caller may see."""
    del body
    return context.statements.list(request.call.principal)


def cancel_statement(context: ServerContext, request: Request, statement_id: str) -> StatementView:
    """Cancel a statement and return how it stands then."""
    return context.statements.cancel(request.call.principal, statement_id)
