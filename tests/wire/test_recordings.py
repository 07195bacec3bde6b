"""The recordings cover what DuckDB says: every action, exchange, kind of filter and constant."""

from __future__ import annotations

import re

from sparkport.protocol import flight_pb2 as pb

from . import replay
from .replay import Recorded, load

CALLS: list[Recorded] = [
    call for path in sorted(replay.FOLDER.glob("*.json")) for call in load(path.stem).calls
]


def in_filters(pattern: str) -> set[str]:
    """Return what a pattern finds in the filters of all recorded scans."""
    bodies = [pb.Action.FromString(call.messages[0]).body for call in CALLS if call.action == "endpoints"]
    return {found.decode() for body in bodies for found in re.findall(pattern.encode(), body)}


def test_recordings_are_small() -> None:
    """The recordings stay small enough to live beside the code."""
    assert sum(path.stat().st_size for path in replay.FOLDER.iterdir()) < 750_000


def test_every_action_of_the_client_is_recorded() -> None:
    """Each action that DuckDB sends to a server of tables is replayed at least once."""
    assert {call.action for call in CALLS if call.action} == {
        "add_column",
        "add_field",
        "catalog_version",
        "change_column_type",
        "column_statistics",
        "create_schema",
        "create_table",
        "create_transaction",
        "drop_not_null",
        "drop_schema",
        "drop_table",
        "endpoints",
        "flight_info",
        "list_schemas",
        "remove_column",
        "remove_field",
        "rename_column",
        "rename_field",
        "rename_table",
        "set_default",
        "set_not_null",
    }


def test_every_method_of_the_client_is_recorded() -> None:
    """DuckDB uses five of Flight's methods."""
    assert {call.method for call in CALLS} == {
        "DoAction",
        "DoExchange",
        "DoGet",
        "GetFlightInfo",
        "ListFlights",
    }


def test_every_exchange_is_recorded_with_and_without_returning() -> None:
    """INSERT, UPDATE and DELETE are each there with both values of return-chunks."""
    exchanges = [call for call in CALLS if call.method == "DoExchange"]
    flags = {(call.header("airport-operation"), call.header("return-chunks")) for call in exchanges}

    assert flags == {(name, flag) for name in ("insert", "update", "delete") for flag in "01"}


def test_every_kind_of_expression_is_recorded() -> None:
    """All classes of expressions that DuckDB puts into a filter are there."""
    assert in_filters(r'"expression_class":"(\w+)"') == {
        "BOUND_AGGREGATE",
        "BOUND_BETWEEN",
        "BOUND_CASE",
        "BOUND_CAST",
        "BOUND_COLUMN_REF",
        "BOUND_COMPARISON",
        "BOUND_CONJUNCTION",
        "BOUND_CONSTANT",
        "BOUND_FUNCTION",
        "BOUND_OPERATOR",
        "BOUND_REF",
    }


def test_every_type_of_constant_is_recorded() -> None:
    """All types of constants that DuckDB compares with are there."""
    assert in_filters(r'"value":\{"type":\{"id":"([\w ]+)"') == {
        "ARRAY",
        "BIGINT",
        "BIGNUM",
        "BIT",
        "BLOB",
        "BOOLEAN",
        "DATE",
        "DECIMAL",
        "DOUBLE",
        "ENUM",
        "FLOAT",
        "HUGEINT",
        "INTEGER",
        "INTERVAL",
        "LIST",
        "MAP",
        "SMALLINT",
        "STRUCT",
        "TIME",
        "TIMESTAMP",
        "TIMESTAMP WITH TIME ZONE",
        "TIMESTAMP_MS",
        "TIMESTAMP_NS",
        "TIMESTAMP_S",
        "TINYINT",
        "UBIGINT",
        "UHUGEINT",
        "UINTEGER",
        "UNION",
        "USMALLINT",
        "UTINYINT",
        "UUID",
        "VARCHAR",
    }
