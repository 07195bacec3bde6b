"""Which scan plans are kept, and which are not."""

from __future__ import annotations

import gc
import json
import weakref

import pyarrow as pa
import pytest

from sparkport.catalog import Call, ScanOptions
from sparkport.catalog.lookup import TablePath
from sparkport.catalog.scan import DirectReads, PlannedScan, ScanSlice
from sparkport.errors import PreconditionError
from sparkport.flight import scan_plans
from sparkport.flight.scan_plans import ScanPlans
from sparkport.protocol.ticket import Ticket

_COLUMNS = pa.schema([("n", pa.int64())])
_PATH = TablePath("db", "s", "t")


class Plan:
    """A plan of three slices."""

    slice_count = 3
    direct: DirectReads | None = None

    def arrow_schema(self, call: Call) -> pa.Schema:
        """Return the columns."""
        del call
        return _COLUMNS

    def direct_reads(self, call: Call) -> DirectReads | None:
        """Return no files."""
        del call
        return self.direct

    def read(self, call: Call, part: ScanSlice | None) -> pa.RecordBatchReader:
        """Return no rows."""
        del call, part
        return _COLUMNS.empty_table().to_reader()


class Plain:
    """A table without plans."""

    name = "t"
    comment = ""
    arrow_schema = _COLUMNS

    def scan(self, call: Call, options: ScanOptions) -> pa.RecordBatchReader:
        """Return no rows."""
        del call, options
        return _COLUMNS.empty_table().to_reader()


class Planning(Plain):
    """A table that counts its plans."""

    def __init__(self) -> None:
        self.planned = 0
        self.direct: DirectReads | None = None

    def plan_scan(self, call: Call, options: ScanOptions) -> PlannedScan:
        """Plan a scan."""
        del call, options
        self.planned += 1
        plan = Plan()
        plan.direct = self.direct
        return plan


def _filter(size: int) -> bytes:
    return json.dumps({"filters": [], "column_binding_names_by_index": ["n" * size]}).encode()


def test_slices_share_a_plan_of_their_caller() -> None:
    """Another caller, transaction, table or filter has another plan."""
    plans, table = ScanPlans(), Planning()
    for index in range(3):
        plans.get(Call(), table, Ticket(_PATH, slice_index=index, slice_count=3))

    assert table.planned == 1

    plans.get(Call("ann"), table, Ticket(_PATH))
    plans.get(Call(transaction_id="1"), table, Ticket(_PATH))
    plans.get(Call(), table, Ticket(_PATH, filters=_filter(1)))

    assert table.planned == 4

    again = Planning()
    plans.get(Call(), again, Ticket(_PATH))

    assert again.planned == 1


def test_plans_with_long_filters_are_not_kept() -> None:
    """A caller cannot fill the memory with filters."""
    plans, table = ScanPlans(), Planning()
    for _ in range(2):
        plans.get(Call(), table, Ticket(_PATH, filters=_filter(scan_plans._MAX_FILTER_BYTES)))

    assert table.planned == 2


def test_tables_without_plans_are_not_kept() -> None:
    """The rows of a table in memory go with it."""
    plans, table = ScanPlans(), Plain()
    plans.get(Call(), table, Ticket(_PATH))
    gone = weakref.ref(table)
    del table
    gc.collect()

    assert gone() is None


def test_the_rest_of_a_scan_is_what_the_client_does_not_read() -> None:
    """Also where the plan was evicted; where the client reads nothing any more, it is no rest."""
    plans, table, rest = ScanPlans(), Planning(), Plan()
    table.direct = DirectReads((), rest)

    assert plans.get(Call(), table, Ticket(_PATH, is_rest=True)) is rest
    assert plans.get(Call(), table, Ticket(_PATH)) is not rest

    table.direct = None
    with pytest.raises(PreconditionError, match="plan it again"):
        ScanPlans().get(Call(), table, Ticket(_PATH, is_rest=True))
