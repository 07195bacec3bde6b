"""Run functions that DuckDB calls over DoExchange: scalar functions, and those with a table argument."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterator

import pyarrow as pa

from sparkport.arrow.conform import conform_column
from sparkport.catalog.call import Call
from sparkport.catalog.functions import ScalarFunction, TableInOutFunction
from sparkport.catalog.parameters import Special
from sparkport.catalog.user_code import UserCodeBoundary
from sparkport.errors import InvalidRequestError, SchemaMismatchError
from sparkport.flight.context import ServerContext
from sparkport.flight.functions.calls import FunctionCall, function_at, function_call
from sparkport.flight.functions.pull_thread import PullThread
from sparkport.flight.presentation.streams import Shaper, resized
from sparkport.flight.request import Request
from sparkport.protocol import schemas
from sparkport.protocol.airport import function_requests, predicates
from sparkport.protocol.airport.functions import Form, result_schema
from sparkport.protocol.descriptor import FunctionAddress, FunctionKind
from sparkport.protocol.ipc.flight_data import Decoder, Encoder, FlightData

_CONTINUES = b"chunk_continues"
_FINISHED = b"chunk_finished"


def call_scalar(
    context: ServerContext, request: Request, address: FunctionAddress, frames: Iterator[FlightData]
) -> Iterator[bytes]:
    """Return one batch of results for each batch of arguments."""
    function, form = function_at(context, request, address)
    if address.kind is not FunctionKind.SCALAR or not isinstance(function, ScalarFunction):
        raise InvalidRequestError(f"function '{address.path}' is not a scalar function")
    incoming = Decoder(frames, context.stream_limits, request.incoming.resize, request.call.meter.add_rows_in)
    arguments = _arguments(address, form, incoming.arrow_schema)
    reply = result_schema(function.signature)
    encoder = Encoder(reply)
    yield encoder.schema()
    call = request.call
    boundary = UserCodeBoundary(call, "function", str(address.path))
    for batch, _ in incoming:
        call.check()
        if not batch.schema.equals(arguments):
            columns = [conform_column(column, field) for column, field in zip(batch, arguments, strict=True)]
            batch = pa.RecordBatch.from_arrays(columns, schema=arguments)  # noqa: PLW2901
        with boundary:
            result = _checked(function.execute(call, batch), batch.num_rows, reply)
        yield from encoder.batch(result)


def call_in_out(
    context: ServerContext, request: Request, address: FunctionAddress, frames: Iterator[FlightData]
) -> Iterator[bytes]:
    """Stream a table through a function.

    After a batch whose row count is a multiple of 2048 the client reads another one, whatever the
    batch is marked as; so every batch is marked as continued, and an empty, finished one follows.
    """
    parameters = function_requests.in_out(_parameters(frames))
    predicates.decode(parameters.filters)
    run = function_call(context, request, address, parameters.parameters)
    if not isinstance(run.function, TableInOutFunction):
        raise InvalidRequestError(f"function '{address.path}' does not take a table")
    incoming = Decoder(frames, context.stream_limits, request.incoming.resize, request.call.meter.add_rows_in)
    arrow_schema = incoming.arrow_schema
    reply = schemas.to_duckdb_types(run.arrow_schema(request.call, arrow_schema))
    encoder = Encoder(reply)
    shaper = Shaper(
        reply, required=reply.names, boundary=UserCodeBoundary(request.call, "function", str(address.path))
    )
    nothing = pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in reply], schema=reply)
    yield encoder.schema()
    thread = PullThread(request.call, lambda batches: _results(request.call, run, arrow_schema, batches))
    try:
        for results in itertools.chain((thread.feed(batch) for batch, _ in incoming), [thread.finish()]):
            for result in resized(results):
                yield from encoder.batch(shaper.shape(result), _CONTINUES)
            yield from encoder.batch(nothing, _FINISHED)
    finally:
        thread.close()


def _arguments(address: FunctionAddress, form: Form, incoming: pa.Schema) -> pa.Schema:
    """Return the argument columns: of the declared types, or as sent where any type is accepted."""
    if len(incoming) != len(form.parameters):
        raise SchemaMismatchError(
            f"function '{address.path}' takes {len(form.parameters)} arguments, {len(incoming)} were sent"
        )
    pairs = zip(form.parameters, incoming, strict=True)
    return pa.schema(
        [
            (parameter.name, field.type if isinstance(parameter.type, Special) else parameter.type)
            for parameter, field in pairs
        ]
    )


def _checked(result: pa.RecordBatch, rows: int, reply: pa.Schema) -> pa.RecordBatch:
    """Return the result in the declared type."""
    if not isinstance(result, pa.RecordBatch) or result.num_columns != 1:
        raise TypeError("the result is not a batch of one column")
    if result.num_rows != rows:
        raise ValueError(f"the result has {result.num_rows} rows for {rows} rows of arguments")
    if result.schema.equals(reply):
        return result
    column, field = result.column(0), reply.field(0)
    if column.type != field.type:
        try:
            column = conform_column(column, field)
        except SchemaMismatchError as error:
            raise TypeError(f"the result is of type {column.type} instead of {field.type}") from error
    return pa.RecordBatch.from_arrays([column], schema=reply)


def _parameters(frames: Iterator[FlightData]) -> bytes:
    """Return the metadata of the message that precedes the schema."""
    for frame in frames:
        if frame.app_metadata:
            return frame.app_metadata
        if frame.header:
            break
    raise InvalidRequestError("the parameters of the function must be sent before the schema of its table")


def _results(
    call: Call, run: FunctionCall, incoming: pa.Schema, batches: Iterator[pa.RecordBatch]
) -> Generator[pa.RecordBatch, None, None]:
    assert isinstance(run.function, TableInOutFunction)
    with UserCodeBoundary(call, "function", str(run.path)):
        yield from run.function.process(call, run.parameters, incoming, batches)
