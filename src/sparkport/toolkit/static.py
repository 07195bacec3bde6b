"""Catalogs that are put together once and only read from then on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from sparkport.catalog.call import Call
from sparkport.catalog.functions import ScalarFunction, TableFunction, TableInOutFunction
from sparkport.catalog.lookup import find_column
from sparkport.catalog.scan import ScanOptions
from sparkport.catalog.tables import CatalogVersion, ColumnStatistics, Schema, Table
from sparkport.toolkit.column_statistics import column_statistics

ScanFunction = Callable[[Call, ScanOptions], pa.RecordBatchReader]


@dataclass(frozen=True, slots=True)
class StaticTable:
    """A table of fixed columns whose rows come from a function."""

    name: str
    arrow_schema: pa.Schema
    scan_function: ScanFunction
    comment: str = ""

    def scan(self, call: Call, options: ScanOptions) -> pa.RecordBatchReader:
        """Return what the function gives."""
        return self.scan_function(call, options)


@dataclass(frozen=True, slots=True)
class ArrowTable:
    """A table of rows in memory, which tells the statistics of its columns."""

    name: str
    data: pa.Table
    comment: str = ""
    _statistics: dict[int, ColumnStatistics] = field(default_factory=dict, repr=False, compare=False)

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns of the rows."""
        return self.data.schema

    def scan(self, call: Call, options: ScanOptions) -> pa.RecordBatchReader:
        """Stream the rows; a limit is applied where no filter decides which rows it counts."""
        selected = self.data if options.columns is None else self.data.select(list(options.columns))
        if options.limit is not None and options.limit > 0 and options.filter is None:
            selected = selected.slice(0, options.limit)
        batches = selected.to_batches(max_chunksize=options.batch_size)
        return pa.RecordBatchReader.from_batches(selected.schema, call.checked(batches))

    def column_statistics(self, call: Call, column: str) -> ColumnStatistics:
        """Return exact statistics, computed once per column."""
        call.check()
        index = find_column(self.arrow_schema, column)
        if index not in self._statistics:
            self._statistics[index] = column_statistics(self.data.column(index))
        return self._statistics[index]


@dataclass(frozen=True, slots=True)
class StaticSchema:
    """A fixed set of tables and functions."""

    name: str
    by_name: dict[str, Table]
    comment: str = ""
    scalars: tuple[ScalarFunction, ...] = ()
    table_valued: tuple[TableFunction | TableInOutFunction, ...] = ()

    def tables(self, call: Call) -> Sequence[Table]:
        """Return all tables in the order they were added."""
        call.check()
        return list(self.by_name.values())

    def table(self, call: Call, name: str) -> Table | None:
        """Return the table of that name, or None."""
        call.check()
        return self.by_name.get(name)

    def scalar_functions(self, call: Call) -> Sequence[ScalarFunction]:
        """Return all scalar functions."""
        call.check()
        return self.scalars

    def table_functions(self, call: Call) -> Sequence[TableFunction | TableInOutFunction]:
        """Return all functions that return tables."""
        call.check()
        return self.table_valued


@dataclass(frozen=True, slots=True)
class StaticCatalog:
    """A fixed set of schemas."""

    by_name: dict[str, StaticSchema]

    def schemas(self, call: Call) -> Sequence[Schema]:
        """Return all schemas in the order they were added."""
        call.check()
        return list(self.by_name.values())

    def schema(self, call: Call, name: str) -> Schema | None:
        """Return the schema of that name, or None."""
        call.check()
        return self.by_name.get(name)

    def catalog_version(self, call: Call) -> CatalogVersion:
        """Return the one version there will ever be."""
        call.check()
        return CatalogVersion(1, is_fixed=True)
