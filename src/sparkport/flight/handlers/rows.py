"""Run INSERT, UPDATE and DELETE of the JSON dialect: DoPut and the action `delete`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from sparkport.arrow.conform import check_aligned, conform_batch
from sparkport.arrow.sizes import byte_size
from sparkport.catalog.call import Call
from sparkport.catalog.dml import Statement, StatementTable, committed
from sparkport.catalog.lookup import TablePath, current_arrow_schema
from sparkport.catalog.rowid import ROWID, rowid_name, without_rowid
from sparkport.catalog.tables import Table
from sparkport.errors import InvalidRequestError, RowNotFoundError, UnsupportedOperationError
from sparkport.flight.context import ServerContext
from sparkport.flight.request import Request
from sparkport.flight.transactions import statement_in
from sparkport.protocol import descriptor
from sparkport.protocol import flight_pb2 as pb
from sparkport.protocol.ipc.flight_data import Decoder, FlightData
from sparkport.protocol.json_dialect import requests as json_requests
from sparkport.protocol.json_dialect.requests import DeleteRequest, InsertCommand, UpdateCommand
from sparkport.toolkit import buffered


@dataclass(frozen=True, slots=True)
class Written:
    """The result of a statement: the number of changed rows, those rows (RETURNING) and the version."""

    affected: int
    rows: pa.Table | None
    version: str | None = None


def do_put(context: ServerContext, request: Request, frames: Iterator[FlightData]) -> Iterator[bytes]:
    """Run the statement in the descriptor's command and answer with one PutResult."""
    with statement_in(request.call, context.catalog(request, "")):
        written = _put(context, request, frames)
    answer = json_requests.encode_put(written.affected, written.rows, written.version)
    yield pb.PutResult(app_metadata=answer).SerializeToString()


def delete(context: ServerContext, request: Request, body: DeleteRequest) -> Written:
    """Delete rows by id; ids that do not exist are ignored."""
    table = context.table(request, TablePath("", body.schema, body.table))
    columns = _columns(request, table, "DELETE")
    call = _based_on(request.call, table, body.if_version)
    statement = buffered.begin_delete(call, table, returning=body.returning)
    ids = pa.record_batch({ROWID: body.row_ids})
    return _run(request, statement, iter([ids]), columns, returning=body.returning)


def _put(context: ServerContext, request: Request, frames: Iterator[FlightData]) -> Written:
    first = next(frames, None)
    if first is None or first.descriptor is None:
        raise InvalidRequestError("the first message of a DoPut must have a flight descriptor")
    address = descriptor.parse(first.descriptor)
    request.access_log.add_path(*address.path)
    if address.type != pb.FlightDescriptor.CMD:
        raise InvalidRequestError("the descriptor of a DoPut must be a command (CMD) in JSON")
    command = json_requests.put_command(address.cmd)
    request.access_log.add(operation=command.operation)
    request.access_log.add_path(command.schema, command.table)
    table = context.table(request, TablePath("", command.schema, command.table))
    incoming = Decoder(
        itertools.chain([first], frames),
        context.stream_limits,
        request.incoming.resize,
        request.call.meter.add_rows_in,
    )
    return _write(request, table, command, incoming)


def _write(
    request: Request, table: Table, command: InsertCommand | UpdateCommand, incoming: Decoder
) -> Written:
    call, returning = request.call, command.returning
    if isinstance(command, InsertCommand):
        columns = without_rowid(current_arrow_schema(call, table))
        statement = buffered.begin_insert(call, table, returning=returning)
        check_aligned(incoming.arrow_schema, columns)
        return _run(request, statement, _conformed(incoming, columns), columns, returning=returning)
    columns = _columns(request, table, "UPDATE")
    call = _based_on(call, table, command.if_version)
    statement = buffered.begin_update(call, table, tuple(columns.names), returning=returning)
    check_aligned(incoming.arrow_schema, columns)
    batches = _with_ids(_conformed(incoming, columns), command.row_ids)
    try:
        return _run(request, statement, batches, columns, returning=returning)
    except RowNotFoundError:
        # A wrong number of rows explains more, and shows only at the end of the input.
        for _ in batches:
            pass
        raise


def _conformed(incoming: Decoder, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    return (conform_batch(batch, columns) for batch, _ in incoming)


def _run(
    request: Request,
    statement: Statement,
    batches: Iterator[pa.RecordBatch],
    columns: pa.Schema,
    *,
    returning: bool,
) -> Written:
    """Write all batches and commit the statement if the caller is still there."""
    rows: list[pa.RecordBatch] = []
    with committed(request.call, statement, request.check_alive) as outcome:
        for batch in batches:
            answer = statement.write(batch)
            if answer is not None:
                request.outgoing.add(byte_size(answer))
                rows.append(answer.select(columns.names))
    returned = pa.Table.from_batches(rows, columns) if returning else None
    return Written(outcome.affected_rows, returned, statement.version)


def _based_on(call: Call, table: Table, if_version: str | None) -> Call:
    """Return the call with the version that the client read its rows from, if it sent one."""
    if if_version is None:
        return call
    if not isinstance(table, StatementTable):
        raise UnsupportedOperationError("table", table.name, "if_version")
    return call.based_on(if_version)


def _columns(request: Request, table: Table, operation: str) -> pa.Schema:
    """Return the columns without the row id. Raises UnsupportedOperationError for a table that has none."""
    arrow_schema = current_arrow_schema(request.call, table)
    if rowid_name(arrow_schema) is None:
        raise UnsupportedOperationError("table", table.name, f"{operation} (no rowid)")
    return without_rowid(arrow_schema)


def _with_ids(batches: Iterator[pa.RecordBatch], row_ids: pa.Int64Array) -> Iterator[pa.RecordBatch]:
    """Yield the batches with the row ids as their last column, taken in order."""
    used = 0
    for batch in batches:
        ids = row_ids.slice(used, batch.num_rows)
        used += batch.num_rows
        if used > len(row_ids):
            break
        yield pa.RecordBatch.from_arrays([*batch.columns, ids], names=[*batch.schema.names, ROWID])
    if used != len(row_ids):
        raise InvalidRequestError(f"row_ids count ({len(row_ids)}) does not match input rows ({used})")
