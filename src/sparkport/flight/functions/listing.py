"""List the functions of a schema for DuckDB."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import structlog

from sparkport.catalog.functions import UnlistedFunction
from sparkport.catalog.lookup import TablePath
from sparkport.catalog.tables import Schema
from sparkport.flight.functions.calls import AnyFunction, functions_of
from sparkport.flight.request import Request
from sparkport.protocol import descriptor, flights
from sparkport.protocol.airport.functions import Form, forms, result_schema, stability
from sparkport.protocol.descriptor import FunctionAddress, FunctionKind
from sparkport.protocol.schemas import NoDuckDBTypeError

_log = structlog.get_logger("sparkport")


def function_infos(request: Request, schema: Schema, catalog: str) -> Iterator[bytes]:
    """Yield a FlightInfo for each form of each function; those whose types DuckDB lacks are skipped."""
    for kind in FunctionKind:
        seen: dict[str, set[str]] = {}
        of_tables: set[str] = set()
        for function in functions_of(request.call, schema, kind):
            request.call.check()
            if isinstance(function, UnlistedFunction):
                continue
            name = function.name.lower()
            path = TablePath(catalog, schema.name, function.name)
            if name in of_tables or (function.signature.takes_table and name in seen):
                reason = "DuckDB allows no other function with the name of a function that takes a table"
                _log.warning("function not listed", function=str(path), reason=reason)
                continue
            if function.signature.takes_table:
                of_tables.add(name)
            tags = seen.setdefault(name, set())
            try:
                new = [form for form in forms(kind, function.signature) if form.tag() not in tags]
                yield from [_info(path, function, form) for form in new]
            except NoDuckDBTypeError as error:
                # One entry that DuckDB cannot read would hide the whole schema.
                _log.warning("function not listed", function=str(path), reason=str(error))
                continue
            tags.update(form.tag() for form in new)


def _info(path: TablePath, function: AnyFunction, form: Form) -> bytes:
    scalar = form.kind is FunctionKind.SCALAR
    extra = stability(function.signature) if scalar else None
    metadata = flights.function_metadata(form.kind, path, function.comment, form.input_schema(), extra)
    # The columns of a table function are known only when it is called.
    columns = result_schema(function.signature) if scalar else pa.schema([])
    address = descriptor.encode(FunctionAddress(path, form.kind, form.tag()))
    return flights.encode_info(columns, address, metadata=metadata)
