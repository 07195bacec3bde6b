"""Run INSERT, UPDATE, DELETE and functions for DuckDB, over DoExchange."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pyarrow as pa

from sparkport.catalog.dml import Statement, committed
from sparkport.catalog.lookup import find_column
from sparkport.catalog.rowid import ROWID, rowid_field, rowid_name, without_rowid
from sparkport.catalog.tables import Table
from sparkport.catalog.user_code import UserCodeBoundary
from sparkport.errors import (
    InvalidRequestError,
    NotImplementedByServerError,
    SchemaMismatchError,
    UnsupportedOperationError,
)
from sparkport.flight.context import ServerContext
from sparkport.flight.functions import exchanges
from sparkport.flight.presentation.streams import Shaper
from sparkport.flight.presentation.tables import pin_snapshot
from sparkport.flight.request import Request
from sparkport.flight.transactions import statement_in
from sparkport.protocol import descriptor, msgpack
from sparkport.protocol.descriptor import FunctionAddress, TableAddress
from sparkport.protocol.ipc.flight_data import Decoder, Encoder, FlightData, encode_metadata
from sparkport.toolkit import buffered


def do_exchange(context: ServerContext, request: Request, frames: Iterator[FlightData]) -> Iterator[bytes]:
    """Run the statement or function that the first message and the header `airport-operation` name."""
    first = next(frames, None)
    if first is None or first.descriptor is None:
        raise InvalidRequestError("the first message of a DoExchange must have a flight descriptor")
    address = descriptor.decode(first.descriptor, context.default_catalog(request))
    operation = request.headers.get("airport-operation")
    messages = itertools.chain([first], frames)
    match operation, address:
        case "scalar_function", FunctionAddress():
            yield from exchanges.call_scalar(context, request, address, messages)
        case "table_function_in_out", FunctionAddress():
            yield from exchanges.call_in_out(context, request, address, messages)
        case "scalar_function" | "table_function_in_out", _:
            raise InvalidRequestError("the descriptor does not name a function")
        case _, TableAddress():
            yield from _statement(context, request, address, operation, messages)
        case _:
            raise InvalidRequestError("the descriptor does not name a table")


def _statement(
    context: ServerContext,
    request: Request,
    address: TableAddress,
    operation: str,
    frames: Iterator[FlightData],
) -> Iterator[bytes]:
    """Run one statement: schema at once, then rows in lockstep, then the count.

    The client opens the exchange before it scans the table, so nothing is locked
    until the input has ended.
    """
    returning = request.headers.get("return-chunks") == "1"
    table = context.table(request, address.path)
    incoming = Decoder(frames, context.stream_limits, request.incoming.resize, request.call.meter.add_rows_in)
    try:
        with statement_in(request.call, context.catalog(request, address.path.catalog)):
            _, columns = pin_snapshot(request, table, address, None)
            statement, reply = _begin(
                request, table, operation, incoming.arrow_schema, columns, returning=returning
            )
            with committed(request.call, statement, request.check_alive) as outcome:
                encoder = Encoder(reply)
                shaper = Shaper(reply, boundary=UserCodeBoundary(request.call, "table", table.name))
                yield encoder.schema()
                for batch, _ in incoming:
                    answer = statement.write(batch)
                    if returning:
                        yield from encoder.batch(shaper.shape(_renamed_rowid(answer, reply)))
    except BaseException:
        path = address.path
        name = path.catalog or context.default_catalog(request)
        context.new_tables.failed(request, name, path.schema, path.table)
        raise
    yield encode_metadata(msgpack.encode({"total_changed": outcome.affected_rows}))


def _begin(
    request: Request,
    table: Table,
    operation: str,
    incoming: pa.Schema,
    columns: pa.Schema,
    *,
    returning: bool,
) -> tuple[Statement, pa.Schema]:
    """Begin the statement; return it with the schema of the reply."""
    visible = without_rowid(columns)
    match operation:
        case "insert":
            if len(incoming) != len(visible):
                raise SchemaMismatchError(
                    f"column mismatch: table has {len(visible)} columns, input has {len(incoming)}"
                )
            return buffered.begin_insert(request.call, table, returning=returning), columns
        case "update":
            _need_rowid(table, columns, "UPDATE")
            if returning and ROWID in (name.lower() for name in visible.names):
                raise NotImplementedByServerError(
                    f"UPDATE ... RETURNING is not supported for a table with a column named '{ROWID}':"
                    " DuckDB's Airport extension mistakes it for the row id"
                )
            names = _set_columns(incoming, visible)
            request.access_log.columns = names
            statement = buffered.begin_update(request.call, table, names, returning=returning)
            return statement, _update_reply(names, visible)
        case "delete":
            _need_rowid(table, columns, "DELETE")
            return buffered.begin_delete(request.call, table, returning=returning), columns
        case _:
            raise InvalidRequestError(
                f"header airport-operation must be insert, update or delete, not '{operation}'"
            )


def _need_rowid(table: Table, columns: pa.Schema, operation: str) -> None:
    if rowid_name(columns) is None:
        raise UnsupportedOperationError("table", table.name, f"{operation} (no rowid)")


def _set_columns(incoming: pa.Schema, visible: pa.Schema) -> tuple[str, ...]:
    """Return the columns that an UPDATE sets, as the table spells them."""
    if not len(incoming) or incoming.names[-1].lower() != ROWID:
        raise SchemaMismatchError("the last column of an UPDATE must be the row id, named 'rowid'")
    if "" in incoming.names:
        raise InvalidRequestError("a column needs a name")
    return tuple(visible.names[find_column(visible, name)] for name in incoming.names[:-1])


def _update_reply(names: tuple[str, ...], visible: pa.Schema) -> pa.Schema:
    """Return the table's columns, those that were sent first and the row id last.

    The client reads the reply by the positions of the columns that it sent.
    """
    rest = [name for name in visible.names if name not in names]
    return pa.schema([*(visible.field(name) for name in (*names, *rest)), rowid_field()])


def _renamed_rowid(answer: pa.RecordBatch | None, reply: pa.Schema) -> pa.RecordBatch:
    """Return the rows with the row id named as in the reply."""
    if answer is None:
        nothing = [pa.nulls(0, field.type) for field in reply]
        return pa.RecordBatch.from_arrays(nothing, schema=reply)
    old, new = rowid_name(answer.schema), rowid_name(reply)
    if old is None or new is None or old == new:
        return answer
    return answer.rename_columns([new if name == old else name for name in answer.schema.names])
