"""A planned scan of a Delta table, as the front keeps it from planning to reading."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from sparkport.catalog.call import Call
from sparkport.catalog.scan import ScanSlice, TimePoint
from sparkport.spark.read.direct_files import plain_files
from sparkport.spark.read.planning import ScanPlan
from sparkport.spark.read.snapshot import TableSnapshot
from sparkport.spark.versions import TableVersions


@dataclass(frozen=True, slots=True)
class PlannedDeltaScan:
    """A planned scan of one version, whose slices are read by any number of calls."""

    versions: TableVersions
    time_point: TimePoint | None
    snapshot: TableSnapshot
    plan: ScanPlan

    def arrow_schema(self, call: Call) -> pa.Schema:
        """Return all columns of the version."""
        call.check()
        return self.snapshot.arrow_schema

    @property
    def slice_count(self) -> int:
        """Into how many slices it is best cut."""
        return self.plan.slice_count

    def direct_files(self, call: Call, part: ScanSlice | None) -> list[str] | None:
        """Return the files of a slice if clients may and can read them by themselves."""
        call.check()
        if not self.versions.is_read_directly(self.snapshot.state) or self.plan.sql_reason is not None:
            return None
        return plain_files(self.plan.slice_files(part), self.snapshot.columns)

    def read(self, call: Call, part: ScanSlice | None) -> pa.RecordBatchReader:
        """Return the rows of a slice."""
        current = self.versions.for_scan(call, self.time_point, self.snapshot)
        plan = self.plan if current is self.snapshot else current.plan(self.plan.options)
        return current.read(call, plan, part)
