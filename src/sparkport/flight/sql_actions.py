"""The actions of Flight SQL: for each how to decode its body, handle it and encode the result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparkport.catalog.sql import SqlDescription
from sparkport.flight.handlers import sql_control, sql_statements
from sparkport.flight.request import Request
from sparkport.flight.route import Route
from sparkport.protocol.flight_sql import actions
from sparkport.protocol.flight_sql import sessions as sql_sessions


def _as_is(data: bytes) -> bytes:
    return data


def _no_result(request: Request, body: object, answer: object) -> None:
    del request, body, answer


def _prepared(request: Request, body: object, answer: tuple[bytes, SqlDescription]) -> bytes:
    del request, body
    handle, description = answer
    return actions.encode_prepared(handle, description.arrow_schema, description.parameters)


def _only_answer(encode: Callable[[Any], bytes]) -> Callable[[Request, object, Any], bytes]:
    """Return an encoder that needs the answer alone."""

    def encode_answer(request: Request, body: object, answer: Any) -> bytes:  # noqa: ANN401  (the encoder's)
        del request, body
        return encode(answer)

    return encode_answer


SQL_ACTIONS: dict[str, Route[Any, Any]] = {
    "CreatePreparedStatement": Route(
        "Prepare a statement (Flight SQL)", actions.prepare, sql_statements.prepare, _prepared
    ),
    "ClosePreparedStatement": Route(
        "Close a prepared statement (Flight SQL)", actions.close, sql_statements.close, _no_result
    ),
    "BeginTransaction": Route(
        "Begin a transaction (Flight SQL)",
        actions.begin_transaction,
        sql_control.begin_transaction,
        _only_answer(actions.encode_transaction),
    ),
    "EndTransaction": Route(
        "Commit or roll back a transaction (Flight SQL)",
        actions.end_transaction,
        sql_control.end_transaction,
        _no_result,
    ),
    "CancelQuery": Route(
        "Cancel a query (Flight SQL)",
        actions.cancel_query,
        sql_control.cancel,
        _only_answer(lambda _: actions.encode_cancelled_query()),
    ),
    "CancelFlightInfo": Route(
        "Cancel a query",
        actions.cancel_flight_info,
        sql_control.cancel,
        _only_answer(lambda _: actions.encode_cancelled_info()),
    ),
    "RenewFlightEndpoint": Route(
        "Extend the time of an endpoint", actions.renew, sql_control.renew, _only_answer(_as_is)
    ),
    "SetSessionOptions": Route(
        "Set options of the session",
        sql_sessions.decode_options,
        sql_control.set_options,
        _only_answer(sql_sessions.encode_errors),
    ),
    "GetSessionOptions": Route(
        "Return the options of the session",
        _as_is,
        sql_control.get_options,
        _only_answer(sql_sessions.encode_options),
    ),
    "CloseSession": Route(
        "End the session",
        _as_is,
        sql_control.close_session,
        _only_answer(lambda _: sql_sessions.encode_closed()),
    ),
}
