"""What all handlers share: the catalogs, the ticket signer, caches and limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sparkport.access import Policies
from sparkport.catalog.actions import Action
from sparkport.catalog.budget import UNLIMITED, Resources
from sparkport.catalog.call import Call
from sparkport.catalog.lookup import TablePath, find_schema, find_table
from sparkport.catalog.tables import Catalog, Table
from sparkport.errors import NotFoundError
from sparkport.flight.audit import AuditLog
from sparkport.flight.new_tables import NewTables
from sparkport.flight.prepared_statements import PreparedStatements
from sparkport.flight.presentation.listing_cache import ListingCache
from sparkport.flight.presentation.tables import TableInfos
from sparkport.flight.request import Request
from sparkport.flight.running_queries import RunningQueries
from sparkport.flight.scan_plans import ScanPlans
from sparkport.flight.session_transactions import SessionTransactions
from sparkport.flight.statement_queue import StatementQueue
from sparkport.flight.statement_registry import StatementRegistry
from sparkport.flight.statistics_cache import StatisticsCache
from sparkport.protocol import flights
from sparkport.protocol.ipc.flight_data import Limits
from sparkport.protocol.ticket import TicketSigner
from sparkport.toolkit.registry import Catalogs


@dataclass(frozen=True, slots=True)
class ServerContext:
    """The parts of a server that handlers use."""

    catalogs: Catalogs
    signer: TicketSigner = field(default_factory=TicketSigner)
    listings: ListingCache = field(default_factory=ListingCache)
    table_infos: TableInfos = field(default_factory=TableInfos)
    plans: ScanPlans = field(default_factory=ScanPlans)
    statistics: StatisticsCache = field(default_factory=StatisticsCache)
    new_tables: NewTables = field(default_factory=NewTables)
    prepared_statements: PreparedStatements = field(default_factory=PreparedStatements)
    running_queries: RunningQueries = field(default_factory=RunningQueries)
    session_transactions: SessionTransactions = field(default_factory=SessionTransactions)
    statements: StatementRegistry = field(default_factory=StatementRegistry)
    queue: StatementQueue = field(default_factory=StatementQueue)
    stream_limits: Limits = field(default_factory=Limits)
    resources: Resources = UNLIMITED
    endpoint_location: str = flights.REUSE_CONNECTION
    actions: Mapping[str, Action] = field(default_factory=dict)
    offers_sql: bool = True
    audit: AuditLog | None = None
    policies: Policies | None = None
    """Who may do what; None if everybody may do everything. Nothing but this class reaches for `catalogs`."""

    def default_catalog(self, request: Request) -> str:
        """Return the catalog of a request that names none."""
        return request.headers.get("airport-catalog") or self.catalogs.default

    def catalog(self, request: Request, name: str) -> Catalog:
        """Return a catalog, the default one for an empty name. Raises NotFoundError."""
        return self.named_catalog(request.call, name or self.default_catalog(request))

    def named_catalog(self, call: Call, name: str) -> Catalog:
        """Return a catalog as the caller may see it. Raises NotFoundError."""
        if self.policies is None:
            return self.catalogs.get(name)
        guard = self.policies.guard(call.principal)
        spelled, catalog = self.catalogs.find(name) or (name, None)
        if catalog is None or not guard.shows(spelled):
            raise NotFoundError("catalog", name, [known for known, _ in self.visible_catalogs(call)])
        return guard.catalog(spelled, catalog)

    def visible_catalogs(self, call: Call) -> list[tuple[str, Catalog]]:
        """Return the catalogs that exist for the caller, by name."""
        if self.policies is None:
            return self.catalogs.items()
        guard = self.policies.guard(call.principal)
        return [
            (name, guard.catalog(name, catalog))
            for name, catalog in self.catalogs.items()
            if guard.shows(name)
        ]

    def visible_actions(self, call: Call) -> Mapping[str, Action]:
        """Return the actions of the user's own that the caller may run, by name."""
        if self.policies is None:
            return self.actions
        guard = self.policies.guard(call.principal)
        return {name: action for name, action in self.actions.items() if guard.runs_action(name)}

    def table(self, request: Request, path: TablePath) -> Table:
        """Return a table. Raises NotFoundError."""
        schema = find_schema(request.call, self.catalog(request, path.catalog), path.schema)
        return find_table(request.call, schema, path.table)
