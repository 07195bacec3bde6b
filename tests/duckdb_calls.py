"""Calls of DuckDB's functions, run as the Airport client runs them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import duckdb
import pyarrow as pa

from sparkport.catalog import ClientCall


def run_calls(calls: Iterable[ClientCall], columns: Iterable[str]) -> list[dict[str, Any]]:
    """Return the rows of all calls, of these columns."""
    rows: list[dict[str, Any]] = []
    names = ", ".join(_quoted(name, '"') for name in columns)
    with duckdb.connect() as connection:
        for call in calls:
            arguments = ", ".join(
                [
                    *(_literal(value) for value in call.arguments),
                    *(f"{name} = {_literal(value)}" for name, value in call.named.items()),
                ]
            )
            found = connection.execute(f"SELECT {names} FROM {call.function}({arguments})")
            rows += _in_utc(found.fetch_arrow_table()).to_pylist()
    return rows


def _in_utc(table: pa.Table) -> pa.Table:
    """Return the same instants, which DuckDB gives the zone of the machine."""
    for index, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type) and field.type.tz:
            column = table.column(index).cast(pa.timestamp("us", "UTC"))
            table = table.set_column(index, field.name, column)
    return table


def _literal(value: object) -> str:
    match value:
        case pa.MapScalar():
            entries = (f"{_literal(key)}: {_literal(inner)}" for key, inner in value.as_py())
            return f"MAP {{{', '.join(entries)}}}"
        case dict():
            entries = (f"{_literal(key)}: {_literal(inner)}" for key, inner in value.items())
            return f"{{{', '.join(entries)}}}"
        case list():
            return f"[{', '.join(map(_literal, value))}]"
        case None:
            return "NULL::VARCHAR"
        case str():
            return _quoted(value, "'")
    return str(value)


def _quoted(text: str, mark: str) -> str:
    return mark + text.replace(mark, mark * 2) + mark
