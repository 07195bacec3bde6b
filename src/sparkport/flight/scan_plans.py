"""A cache of scan plans: made for `endpoints`, reused by DoGet."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa
from msgspec import structs

from sparkport.catalog.call import Call
from sparkport.catalog.lookup import current_arrow_schema
from sparkport.catalog.measures import MEASURES
from sparkport.catalog.scan import ClientCall, DirectReads, PlannedScan, ScanOptions, ScanSlice
from sparkport.catalog.tables import DirectTable, PlanningTable, SplittableTable, Table
from sparkport.errors import PreconditionError
from sparkport.protocol.airport import predicates
from sparkport.protocol.ticket import Ticket
from sparkport.toolkit.bounded_cache import BoundedCache

_MAX_PLANS = 64
_MAX_FILTER_BYTES = 64 << 10  # a filter takes many times as much once it is decoded


def scan_options(ticket: Ticket) -> ScanOptions:
    """Return the scan options of a ticket. Raises InvalidRequestError for a filter that cannot be decoded."""
    return ScanOptions(
        columns=ticket.columns,
        filter=predicates.decode(ticket.filters),
        time_point=ticket.time_point,
        slice=ticket.slice,
    )


class ScanPlans:
    """Keeps the latest plans, each for its caller; an evicted plan is made again from the ticket.

    Only plans that took work, and not those with very long filters: a cache must not become a way to fill
    the memory, nor keep the rows of tables that were dropped.
    """

    def __init__(self) -> None:
        self._plans: BoundedCache[tuple[str, str | None, Ticket], tuple[Table, PlannedScan]] = BoundedCache(
            _MAX_PLANS
        )

    def get(self, call: Call, table: Table, ticket: Ticket) -> PlannedScan:
        """Return the plan of the scan that the ticket, or its slice, belongs to."""
        whole = structs.replace(ticket, slice_index=0, slice_count=1)
        if not isinstance(table, PlanningTable):
            return _unplanned(call, table, scan_options(whole))
        key = call.principal, call.transaction_id, whole
        cached = self._plans.get(key)
        # A table that was dropped and created again is another one.
        if cached is not None and cached[0] is table:
            MEASURES.count("cache_hits_plan")
            return cached[1]
        MEASURES.count("cache_misses_plan")
        with call.meter.step("plan", table.name):
            plan = table.plan_scan(call, scan_options(whole))
        if ticket.is_rest:
            plan = _rest(call, plan)
        if len(ticket.filters) <= _MAX_FILTER_BYTES:
            self._plans.put(key, (table, plan))
        return plan


def _rest(call: Call, plan: PlannedScan) -> PlannedScan:
    """Return what is left of a scan for the server. Raises PreconditionError if that has changed."""
    direct = plan.direct_reads(call)
    if direct is None or direct.rest is None:
        raise PreconditionError("the scan can no longer be read in parts; plan it again")
    return direct.rest


def _unplanned(call: Call, table: Table, options: ScanOptions) -> PlannedScan:
    count = max(1, table.slice_count(call, options)) if isinstance(table, SplittableTable) else 1
    return _UnplannedScan(table, options, count)


@dataclass(frozen=True, slots=True)
class _UnplannedScan:
    """A scan of a table that decides everything when it is read."""

    table: Table
    options: ScanOptions
    slice_count: int

    def arrow_schema(self, call: Call) -> pa.Schema:
        """Return all columns of the snapshot."""
        return current_arrow_schema(call, self.table, self.options.time_point)

    def direct_reads(self, call: Call) -> DirectReads | None:
        """Return calls for the files that the client may read itself, if the table offers them."""
        files = self.table.direct_files(call, self.options) if isinstance(self.table, DirectTable) else None
        # Names and types are those of the files: folders such as `a=1` add no column.
        options = {"hive_partitioning": False}
        return (
            DirectReads([ClientCall("read_parquet", ([file],), options) for file in files]) if files else None
        )

    def read(self, call: Call, part: ScanSlice | None) -> pa.RecordBatchReader:
        """Scan the table."""
        return self.table.scan(call, replace(self.options, slice=part))
