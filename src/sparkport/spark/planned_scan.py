"""A planned scan of a Delta table, as the front keeps it from planning to reading."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from sparkport.catalog.call import Call
from sparkport.catalog.scan import DirectReads, ScanSlice, TimePoint
from sparkport.spark.read.direct_files import DirectFiles, direct_files
from sparkport.spark.read.planning import ScanPlan
from sparkport.spark.read.snapshot import TableSnapshot
from sparkport.spark.versions import TableVersions


@dataclass(frozen=True, slots=True)
class PlannedDeltaScan:
    """A planned scan of one version, whose slices are read by any number of calls.

    With `is_rest` the plan has only those files that DuckDB does not read by itself.
    """

    versions: TableVersions
    time_point: TimePoint | None
    snapshot: TableSnapshot
    plan: ScanPlan
    is_rest: bool = False

    def arrow_schema(self, call: Call) -> pa.Schema:
        """Return all columns of the version."""
        call.check()
        return self.snapshot.arrow_schema

    @property
    def slice_count(self) -> int:
        """Into how many slices it is best cut."""
        return self.plan.slice_count

    def direct_reads(self, call: Call) -> DirectReads | None:
        """Return the calls with which DuckDB reads files by itself, where it may and can."""
        call.check()
        if self.versions.direct_reads_refusal(call, self.snapshot.state) is not None:
            return None
        found = self._direct_files()
        for reason in found.table_reasons:
            self.versions.log_not_direct(self.snapshot.version, reason)
        if not found.calls:
            return None
        rest = self.snapshot.narrowed(self.plan, found.rest) if found.rest else None
        return DirectReads(found.calls, None if rest is None else replace(self, plan=rest, is_rest=True))

    def read_mode(self, call: Call) -> str:
        """Return who reads the rows, and why not DuckDB by itself."""
        reader = self._reader
        refusal = self.versions.direct_reads_refusal(call, self.snapshot.state)
        if refusal is not None:
            return f"{reader}: {refusal}"
        found = self._direct_files()
        reasons = "; ".join(found.reasons)
        if not found.calls:
            return f"{reader}: {reasons}"
        if not found.rest:
            return "direct"
        return f"direct, and {len(found.rest)} of {len(self.plan.files)} files by {reader}: {reasons}"

    @property
    def _reader(self) -> str:
        if self.plan.sql_reason is not None:
            return "Spark SQL"
        return "server" if self.plan.in_server else "Spark tasks"

    def _direct_files(self) -> DirectFiles:
        return direct_files(self.plan, self.versions.root, self.snapshot.columns)

    def read(self, call: Call, part: ScanSlice | None) -> pa.RecordBatchReader:
        """Return the rows of a slice."""
        call.meter.read_mode = self._reader
        # Where DuckDB reads some files, the others are of the same version.
        if self.is_rest:
            return self.snapshot.read(call, self.plan, part)
        current = self.versions.for_scan(call, self.time_point, self.snapshot)
        plan = self.plan if current is self.snapshot else current.plan(self.plan.options)
        return current.read(call, plan, part)
