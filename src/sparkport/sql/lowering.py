"""The queries for the rows that a change writes."""

from __future__ import annotations

import pyarrow as pa

from sparkport.catalog.lookup import find_column
from sparkport.errors import InvalidRequestError
from sparkport.sql.changes import Delete, Insert, Update
from sparkport.sql.names import quoted

_DEFAULT = b"default"


def insert_query(change: Insert, columns: pa.Schema, types: dict[str, str], given: list[str]) -> str:
    """Return a query with all columns of the table, for the rows of an INSERT.

    `given` are the names of the columns that the rows have, `types` those of DuckDB's types by column.
    """
    positions = [find_column(columns, name) for name in given]
    if len(set(positions)) != len(positions):
        raise InvalidRequestError("a column is given twice")
    names = [f"c{number}" for number in range(len(positions))]
    by_column = dict(zip(positions, names, strict=True))
    selected = []
    for position, field in enumerate(columns):
        value = quoted("source", by_column[position]) if position in by_column else _default(field)
        selected.append(f"CAST({value} AS {types[field.name]}) AS {quoted(field.name)}")
    return f"SELECT {', '.join(selected)} FROM (\n{change.query}\n) AS source({', '.join(names)})"


def update_query(
    change: Update, columns: pa.Schema, types: dict[str, str], view: str, rowid: str
) -> tuple[tuple[str, ...], str]:
    """Return the columns that an UPDATE sets, and a query for their new values with the row id last."""
    names: list[str] = []
    selected = []
    for column, expression in change.assignments:
        field = columns.field(find_column(columns, column))
        if field.name in names:
            raise InvalidRequestError(f"column '{field.name}' is set twice")
        names.append(field.name)
        value = _default(field) if expression.strip().upper() == "DEFAULT" else f"(\n{expression}\n)"
        selected.append(f"CAST({value} AS {types[field.name]}) AS {quoted(field.name)}")
    row_id = f"{quoted(change.alias, rowid)} AS {quoted(rowid)}"
    return tuple(names), _selection(change, f"{', '.join(selected)}, {row_id}", view)


def delete_query(change: Delete, view: str, rowid: str) -> str:
    """Return a query for the row ids of the rows that a DELETE removes."""
    return _selection(change, f"DISTINCT {quoted(change.alias, rowid)} AS {quoted(rowid)}", view)


def _selection(change: Update | Delete, selected: str, view: str) -> str:
    sources = f",\n{change.sources}\n" if change.sources else ""
    condition = f"WHERE (\n{change.condition}\n)" if change.condition else ""
    return f"{change.common}\nSELECT {selected} FROM {view} AS {quoted(change.alias)}{sources} {condition}"


def _default(field: pa.Field) -> str:
    expression = (field.metadata or {}).get(_DEFAULT)
    return f"({expression.decode()})" if expression else "NULL"
