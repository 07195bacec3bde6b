"""The bodies of Flight SQL's actions and their results."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from google.protobuf.message import Message

from sparkport.errors import InvalidRequestError
from sparkport.protocol import flight_pb2 as pb
from sparkport.protocol import flight_sql_pb2 as sql
from sparkport.protocol import schemas
from sparkport.protocol.flight_sql.commands import identifier, parse, transaction_id, unwrap, wrap


@dataclass(frozen=True, slots=True)
class Prepare:
    """Prepare a statement."""

    sql: str
    transaction_id: str | None


@dataclass(frozen=True, slots=True)
class EndTransaction:
    """Commit or roll back a transaction."""

    transaction_id: str
    commits: bool


def prepare(data: bytes) -> Prepare:
    """Decode CreatePreparedStatement."""
    message = unwrap(sql.ActionCreatePreparedStatementRequest, data)
    return Prepare(message.query, transaction_id(message))


def encode_prepared(handle: bytes, arrow_schema: pa.Schema | None, parameters: pa.Schema) -> bytes:
    """Return the result of CreatePreparedStatement.

    A statement that returns no rows has no dataset schema, by which clients know that it is an update.
    """
    return wrap(
        sql.ActionCreatePreparedStatementResult(
            prepared_statement_handle=handle,
            dataset_schema=b"" if arrow_schema is None else schemas.encode(arrow_schema),
            parameter_schema=schemas.encode(parameters) if len(parameters) else b"",
        )
    )


def close(data: bytes) -> bytes:
    """Decode ClosePreparedStatement to the handle."""
    return unwrap(sql.ActionClosePreparedStatementRequest, data).prepared_statement_handle


def begin_transaction(data: bytes) -> None:
    """Decode BeginTransaction."""
    unwrap(sql.ActionBeginTransactionRequest, data)


def encode_transaction(handle: str) -> bytes:
    """Return the result of BeginTransaction."""
    return wrap(sql.ActionBeginTransactionResult(transaction_id=handle.encode()))


def end_transaction(data: bytes) -> EndTransaction:
    """Decode EndTransaction."""
    message = unwrap(sql.ActionEndTransactionRequest, data)
    if message.action not in {message.END_TRANSACTION_COMMIT, message.END_TRANSACTION_ROLLBACK}:
        raise InvalidRequestError("EndTransaction must commit or roll back")
    handle = identifier("transaction", message.transaction_id)
    return EndTransaction(handle, message.action == message.END_TRANSACTION_COMMIT)


def cancel_query(data: bytes) -> list[bytes]:
    """Decode CancelQuery to the tickets of the query."""
    return _tickets(unwrap(sql.ActionCancelQueryRequest, data).info)


def cancel_flight_info(data: bytes) -> list[bytes]:
    """Decode CancelFlightInfo to the tickets of the query."""
    return _tickets(parse(sql.CancelFlightInfoRequest, data).info)


def encode_cancelled_query() -> bytes:
    """Return the result of CancelQuery."""
    result = sql.ActionCancelQueryResult
    return wrap(result(result=result.CANCEL_RESULT_CANCELLED))


def encode_cancelled_info() -> bytes:
    """Return the result of CancelFlightInfo."""
    result = sql.CancelFlightInfoResult
    return result(status=result.CANCEL_STATUS_CANCELLED).SerializeToString()


def renew(data: bytes) -> bytes:
    """Decode RenewFlightEndpoint to the ticket of the endpoint."""
    endpoint = parse(pb.FlightEndpoint, parse(sql.RenewFlightEndpointRequest, data).endpoint)
    return endpoint.ticket.ticket


def encode_poll(info: bytes) -> bytes:
    """Return the answer to PollFlightInfo for a query that needs no more polls."""
    return sql.PollInfo(info=info, progress=1.0).SerializeToString()


def encode_count(count: int) -> bytes:
    """Return what DoPut answers to a statement that has changed rows."""
    return _put_result(sql.DoPutUpdateResult(record_count=count))


def encode_bound(handle: bytes) -> bytes:
    """Return what DoPut answers to parameters."""
    return _put_result(sql.DoPutPreparedStatementResult(prepared_statement_handle=handle))


def _put_result(message: Message) -> bytes:
    return pb.PutResult(app_metadata=message.SerializeToString()).SerializeToString()


def _tickets(data: bytes) -> list[bytes]:
    return [endpoint.ticket.ticket for endpoint in parse(pb.FlightInfo, data).endpoint]
