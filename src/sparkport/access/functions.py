"""Table functions as a caller may call them: with the caller's view of the catalog in the call.

An engine looks up the tables that arguments name in that view. Scalar functions get values and no names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from sparkport.catalog.call import Call
from sparkport.catalog.functions import (
    FunctionSignature,
    TableFunction,
    TableInOutFunction,
    UnlistedFunction,
)
from sparkport.catalog.scan import ScanOptions
from sparkport.catalog.tables import Catalog


def guarded_table_function(
    function: TableFunction | TableInOutFunction, view: Catalog
) -> TableFunction | TableInOutFunction:
    """Return a table function as a caller may call it."""
    if isinstance(function, UnlistedFunction):
        return function  # all it does is to refuse
    return _Table(function, view) if isinstance(function, TableFunction) else _InOut(function, view)


class _Function:
    def __init__(self, function: TableFunction | TableInOutFunction, view: Catalog) -> None:
        self._function = function
        self._view = view

    @property
    def name(self) -> str:
        """The function's name."""
        return self._function.name

    @property
    def comment(self) -> str:
        """The function's documentation."""
        return self._function.comment

    @property
    def signature(self) -> FunctionSignature:
        """Parameters and return type."""
        return self._function.signature

    def _seen(self, call: Call) -> Call:
        return call.on_behalf_of(call.principal.seeing(self._view))


class _Table(_Function):
    def schema_for_parameters(self, call: Call, parameters: Sequence[Any]) -> pa.Schema:
        """Return the result's columns."""
        assert isinstance(self._function, TableFunction)
        return self._function.schema_for_parameters(self._seen(call), parameters)

    def execute(self, call: Call, parameters: Sequence[Any], options: ScanOptions) -> pa.RecordBatchReader:
        """Run it."""
        assert isinstance(self._function, TableFunction)
        return self._function.execute(self._seen(call), parameters, options)


class _InOut(_Function):
    def schema_for_input(self, call: Call, parameters: Sequence[Any], incoming: pa.Schema) -> pa.Schema:
        """Return the result's columns for an input."""
        assert isinstance(self._function, TableInOutFunction)
        return self._function.schema_for_input(self._seen(call), parameters, incoming)

    def process(
        self, call: Call, parameters: Sequence[Any], incoming: pa.Schema, batches: Iterator[pa.RecordBatch]
    ) -> Iterable[pa.RecordBatch]:
        """Turn the batches into those of the result."""
        assert isinstance(self._function, TableInOutFunction)
        return self._function.process(self._seen(call), parameters, incoming, batches)
