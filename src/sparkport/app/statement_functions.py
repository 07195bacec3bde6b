"""`statements` and `cancel`: what a server is doing, as functions of its catalogs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from sparkport.app.overlay import overlay
from sparkport.catalog.call import Call
from sparkport.catalog.extension import ExtensibleCatalog
from sparkport.catalog.functions import FunctionSignature, TableFunction
from sparkport.catalog.lookup import FUNCTIONS_SCHEMA
from sparkport.catalog.parameters import Parameter
from sparkport.catalog.scan import ScanOptions
from sparkport.catalog.tables import Catalog
from sparkport.errors import InvalidRequestError
from sparkport.flight.statement_registry import OVER, StatementRegistry, StatementView
from sparkport.toolkit.static import StaticCatalog, StaticSchema

_COMMENT = "Functions of the server"
_TIME = pa.timestamp("us", "UTC")


class Statements:
    """The statements of the caller, those of all for administrators."""

    name = "statements"
    comment = "The statements that run, and the last ones that have ended"
    signature = FunctionSignature((Parameter("running", pa.bool_(), named=True, default=False),))
    columns = pa.schema(
        [
            ("id", pa.string()),
            ("principal", pa.string()),
            ("client", pa.string()),
            ("peer", pa.string()),
            ("dialect", pa.string()),
            ("kind", pa.string()),
            ("table", pa.string()),
            ("sql", pa.string()),
            ("read_mode", pa.string()),
            ("state", pa.string()),
            ("rows", pa.int64()),
            ("bytes", pa.int64()),
            ("progress", pa.float64()),
            ("tasks_done", pa.int64()),
            ("tasks", pa.int64()),
            ("started", _TIME),
            ("ended", _TIME),
            ("seconds", pa.float64()),
            ("trace_id", pa.string()),
            ("code", pa.string()),
            ("error", pa.string()),
        ]
    )

    def __init__(self, registry: StatementRegistry) -> None:
        self._registry = registry

    def schema_for_parameters(self, call: Call, parameters: Sequence[Any]) -> pa.Schema:
        """Return the columns, which are always the same."""
        del call, parameters
        return self.columns

    def execute(self, call: Call, parameters: Sequence[Any], options: ScanOptions) -> pa.RecordBatchReader:
        """Look into the registry."""
        del options
        views = self._registry.list(call.principal)
        if parameters[0]:
            views = [view for view in views if view.state not in OVER]
        rows = pa.RecordBatch.from_pylist([_row(view) for view in views], self.columns)
        return pa.RecordBatchReader.from_batches(self.columns, [rows])


class Cancel:
    """Cancels a statement. Reading the row does it."""

    name = "cancel"
    comment = "Cancel a statement by its id"
    signature = FunctionSignature((Parameter("id", pa.string()),))
    columns = pa.schema([("id", pa.string()), ("state", pa.string()), ("code", pa.string())])

    def __init__(self, registry: StatementRegistry) -> None:
        self._registry = registry

    def schema_for_parameters(self, call: Call, parameters: Sequence[Any]) -> pa.Schema:
        """Return the columns. Raises InvalidRequestError for NULL."""
        del call
        if not parameters[0]:
            raise InvalidRequestError("cancel needs the id of a statement, as statements() shows it")
        return self.columns

    def execute(self, call: Call, parameters: Sequence[Any], options: ScanOptions) -> pa.RecordBatchReader:
        """Cancel once the row is asked for. Raises NotFoundError."""
        del options
        return pa.RecordBatchReader.from_batches(self.columns, self._rows(call, parameters[0]))

    def _rows(self, call: Call, statement_id: str) -> Iterator[pa.RecordBatch]:
        view = self._registry.cancel(call.principal, statement_id)
        row = {"id": view.id, "state": view.state, "code": view.code or None}
        yield pa.RecordBatch.from_pylist([row], self.columns)


def with_statement_functions(catalog: Catalog, registry: StatementRegistry) -> Catalog:
    """Return a catalog that offers the functions, in a schema `sparkport`.

    A catalog with a schema of that name that does not take them stays as it is.
    """
    functions: tuple[TableFunction, ...] = (Statements(registry), Cancel(registry))
    if isinstance(catalog, ExtensibleCatalog):
        catalog.add_functions(functions)
        return catalog
    if catalog.schema(Call(), FUNCTIONS_SCHEMA) is not None:
        return catalog
    own = StaticSchema(FUNCTIONS_SCHEMA, {}, _COMMENT, table_valued=functions)
    return overlay(catalog, StaticCatalog({FUNCTIONS_SCHEMA: own}))


def _row(view: StatementView) -> dict[str, Any]:
    progress = view.progress
    return {
        **{key: value if value != "" else None for key, value in asdict(view).items()},
        "progress": progress and progress.fraction,
        "tasks_done": progress and progress.done,
        "tasks": progress and progress.total,
    }
