"""Tables that a user's functions fill."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sparkport.app.user_code.batches import batches_of
from sparkport.app.user_code.declarations import Declaration, arrow_schema, declaration
from sparkport.catalog.call import Call
from sparkport.catalog.scan import ClientCall, ScanOptions, SchemaRequest
from sparkport.catalog.tables import Table
from sparkport.catalog.user_code import UserCodeBoundary
from sparkport.errors import UnsupportedOperationError


@dataclass(frozen=True, slots=True)
class PythonTable:
    """A table whose rows a function yields, afresh for every scan."""

    declaration: Declaration
    function: Callable[..., Any]
    arrow_schema: pa.Schema | None

    @property
    def name(self) -> str:
        """The table's name."""
        return self.declaration.name

    @property
    def comment(self) -> str:
        """The first line of the function's docstring."""
        return self.declaration.comment

    def scan(self, call: Call, options: ScanOptions) -> pa.RecordBatchReader:
        """Stream what the function yields."""
        columns = self._columns(call, options)
        return pa.RecordBatchReader.from_batches(columns, self._rows(call, options, columns))

    def _columns(self, call: Call, options: ScanOptions) -> pa.Schema:
        del call, options
        return self.arrow_schema

    def _rows(self, call: Call, options: ScanOptions, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
        _, named = self.declaration.arguments((), [call, options])
        with UserCodeBoundary(call, "table", self.name):
            yield from batches_of(self.function(**named), columns, options.columns)


@dataclass(frozen=True, slots=True)
class PythonDynamicTable(PythonTable):
    """A table whose columns a second function tells for each request."""

    columns: Callable[[SchemaRequest], Any]

    def schema_for_request(self, call: Call, request: SchemaRequest) -> pa.Schema:
        """Return what the function says."""
        with UserCodeBoundary(call, "table", self.name):
            return arrow_schema(self.columns(request))

    def _columns(self, call: Call, options: ScanOptions) -> pa.Schema:
        return self.schema_for_request(call, SchemaRequest(time_point=options.time_point))


@dataclass(frozen=True, slots=True)
class Reference:
    """A table that DuckDB reads itself."""

    name: str
    arrow_schema: pa.Schema | None
    calls: tuple[ClientCall, ...]
    comment: str = ""

    def client_calls(self, call: Call, options: ScanOptions) -> Sequence[ClientCall]:
        """Return the calls."""
        del options
        call.check()
        return self.calls

    def scan(self, call: Call, options: ScanOptions) -> pa.RecordBatchReader:
        """Refuse: the rows are where the client is."""
        del call, options
        raise UnsupportedOperationError("table", self.name, "scans by the server: DuckDB reads it itself")


def table(function: Callable[..., Any], columns: Any, *, name: str = "") -> Table:  # noqa: ANN401
    """Return a table. Raises TypeError for a function that needs more than the call and the scan."""
    declared = declaration(function, name=name, injected=(Call, ScanOptions))
    if declared.parameters:
        raise TypeError(f"{declared.name!r} takes parameters: declare it with table_function")
    if callable(columns):
        return PythonDynamicTable(declared, function, None, columns)
    return PythonTable(declared, function, arrow_schema(columns))
