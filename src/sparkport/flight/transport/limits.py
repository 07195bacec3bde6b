"""What clients may cost the server, in one place."""

from __future__ import annotations

import resource
from dataclasses import dataclass

from sparkport.catalog.budget import ByteBudget, CallerBudgets, Resources
from sparkport.flight.transport.call_shares import CallLimits
from sparkport.toolkit.machine import machine_memory

__all__ = ["ServerLimits", "allowed_connections"]


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """What clients may cost the server."""

    concurrent_calls: int = 256
    calls_per_caller: int | None = None
    """Calls of one principal at one address; by default three quarters of all."""
    calls_per_connection: int | None = None
    """Calls of one connection; by default half of all."""
    connections: int = 1000
    """Fewer where the system lets the process open less than twice as many files."""
    connection_idle_seconds: float = 300.0
    """A connection without calls is closed; clients open another by themselves."""
    connection_age_seconds: float = 4 * 3600.0
    """An older connection takes no new calls; those that run go on to their end."""
    request_seconds: float = 60.0
    """How long a call may take to send its first message."""
    stream_idle_seconds: float = 3600.0
    """How long a client may neither send nor read: DuckDB opens an INSERT before it computes its rows."""
    statement_seconds: float | None = None
    """How long a call may take, until its last row is sent."""
    statements_per_principal: int | None = None
    """Scans, statements and function calls of one principal that run at once."""
    concurrent_statements: int | None = None
    """Scans, queries and changes in SQL of all that run at once; others wait."""
    waiting_statements: int = 100
    """How many of them may wait."""
    queue_seconds: float = 60.0
    """How long one of them may wait."""
    memory_bytes: int | None = None
    """For the rows of all calls that are in memory; by default a quarter of the machine's memory."""
    staged_bytes_per_caller: int | None = None
    """For what the open transactions of one principal have staged; a quarter of `memory_bytes`."""
    transactions_per_caller: int = 1000
    """Transactions of one principal that wait for a commit."""
    message_bytes: int = 256 << 20  # DuckDB sends 2048 rows at a time, however wide
    header_bytes: int = 64 << 10

    @property
    def calls(self) -> CallLimits:
        """The limits on calls, with those that are derived from others."""
        total = self.concurrent_calls
        return CallLimits(
            total,
            self.calls_per_caller or max(1, total * 3 // 4),
            self.calls_per_connection or max(1, total // 2),
        )

    def resources(self) -> Resources:
        """Return what calls may take."""
        total = self.memory_bytes or machine_memory() // 4
        staged = self.staged_bytes_per_caller or total // 4
        return Resources(ByteBudget(total), CallerBudgets(staged), self.transactions_per_caller)


def allowed_connections(limits: ServerLimits) -> int:
    """Return how many connections leave enough of the files that the process may open for its work."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return limits.connections if files == resource.RLIM_INFINITY else min(limits.connections, files // 2)
