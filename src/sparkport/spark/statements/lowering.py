"""The queries for the rows that a change writes, in Spark SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from sparkport.catalog.lookup import find_column
from sparkport.errors import InvalidRequestError, NotImplementedByServerError
from sparkport.spark.delta.log.spark_fields import SparkField
from sparkport.spark.query.tables import is_plain_name
from sparkport.spark.sql_names import quoted
from sparkport.spark.statements.changes import Clause, MergeDelete, MergeInsert, MergeUpdate
from sparkport.spark.types import arrow_field
from sparkport.spark.types.storage import sql_text
from sparkport.sql.changes import Delete, Update

ROWID = "rowid"
_DEFAULT = "DEFAULT"


@dataclass(frozen=True, slots=True)
class Target:
    """The table that a change writes to: one version of it, its columns and the column of its row ids.

    `snapshot` names the version to the table. Without a `version` it is what a transaction sees, as queries
    do anyway. Without a `rowid` the change can be described, but not run.
    """

    schema: str
    name: str
    version: int | None
    snapshot: str
    fields: tuple[SparkField, ...]
    columns: pa.Schema
    rowid: str

    def written(self, alias: str) -> str:
        """Return the table as it is written after FROM."""
        # Spark knows a table of another name by an alias only.
        given = alias or ("" if is_plain_name(self.name) and is_plain_name(self.schema) else self.name)
        named = f" AS {quoted(given)}" if given else ""
        version = "" if self.version is None else f" VERSION AS OF {self.version}"
        return f"{quoted(self.schema, self.name)}{version}{named}"

    def row_id(self, alias: str) -> str:
        """Return the row id as it is written after SELECT; a column of the table itself would be hidden."""
        return f"{quoted(alias or self.name, self.rowid)} + 0 AS {ROWID}" if self.rowid else f"0L AS {ROWID}"

    def cast(self, column: str, value: str) -> str:
        """Return a value in the type of a column, where that is one of Spark's own."""
        field = self.fields[find_column(self.columns, column)]
        if not is_plain(field):
            return f"(\n{value}\n)"
        return f"CAST((\n{value}\n) AS {sql_text(field.type)})"


def is_plain(field: SparkField) -> bool:
    """Return whether clients see a column as Spark does."""
    if not isinstance(field.type, str):
        return False
    return bool(arrow_field(field).type == arrow_field(SparkField(field.name, field.type)).type)


def insert_query(query: str, target: Target, given: Sequence[str], marks: int = 0) -> str:
    """Return a query for the columns of an INSERT, which are named c0, c1 and so on, and for some marks."""
    names = [f"c{number}" for number in range(len(given))]
    passed = [f"m{number}" for number in range(marks)]
    selected = [f"{target.cast(column, name)} AS {name}" for column, name in zip(given, names, strict=True)]
    columns = ", ".join([*selected, *passed])
    return f"SELECT {columns} FROM (\n{query}\n) AS source({', '.join([*names, *passed])})"


def update_query(change: Update, target: Target) -> str:
    """Return a query for the new values of an UPDATE, with the row id last."""
    values = [(column, expression) for column, expression in change.assignments if not is_default(expression)]
    selected = [target.cast(column, expression) for column, expression in values]
    return _selection(selected, target, change.alias, condition=change.condition)


def delete_query(change: Delete, target: Target) -> str:
    """Return a query for the row ids of the rows that a DELETE removes."""
    return _selection([], target, change.alias, condition=change.condition)


def merge_update_query(change: MergeUpdate, target: Target) -> tuple[tuple[str, ...], str]:
    """Return the columns that a MERGE sets, and a query for their new values with the row id last."""
    clauses = [_assigned(clause, target, change.source_alias) for clause in change.clauses]
    names = tuple(dict.fromkeys(_spelled(target, column) for clause in clauses for column, _ in clause))
    table = change.alias or target.name
    selected = []
    for name in names:
        values = [
            next((value for column, value in clause if _spelled(target, column) == name), quoted(table, name))
            for clause in clauses
        ]
        if len(clauses) > 1 and not is_plain(target.fields[find_column(target.columns, name)]):
            raise NotImplementedByServerError(
                f"MERGE sets column '{name}' in one clause only: Spark has no type for it"
            )
        selected.append(target.cast(name, _first(change.clauses, values)))
    joined = f"JOIN {change.source} ON (\n{change.condition}\n)"
    return names, _selection(selected, target, change.alias, joined, _any(change.clauses))


def merge_delete_query(change: MergeDelete, target: Target) -> str:
    """Return a query for the row ids of the rows that a MERGE removes."""
    kind = "SEMI" if change.of_matched else "ANTI"
    condition = f"({change.condition}\n)"
    if change.of_matched:
        condition += f" AND ({_any(change.clauses) or 'TRUE'}\n)"
    joined = f"LEFT {kind} JOIN {change.source} ON {condition}"
    return _selection([], target, change.alias, joined, "" if change.of_matched else _any(change.clauses))


def merge_insert_query(change: MergeInsert, target: Target) -> tuple[tuple[str, ...], str]:
    """Return the columns that a MERGE inserts, and a query for the rows without a match."""
    assigned = _assigned(change.clause, target, change.source_alias)
    selected = [target.cast(column, value) for column, value in assigned]
    joined = f"LEFT ANTI JOIN {target.written(change.alias)} ON (\n{change.condition}\n)"
    columns = tuple(column for column, _ in assigned)
    query = f"SELECT {_numbered(selected)} FROM {change.source} {joined}"
    return columns, f"{query} WHERE (\n{change.clause.condition}\n)" if change.clause.condition else query


def is_default(expression: str) -> bool:
    """Return whether a value is the word DEFAULT."""
    return expression.strip().upper() == _DEFAULT


def _selection(
    selected: Sequence[str], target: Target, alias: str, joined: str = "", condition: str = ""
) -> str:
    columns = ", ".join(part for part in (_numbered(selected), target.row_id(alias)) if part)
    where = f"WHERE (\n{condition}\n)" if condition else ""
    return f"SELECT {columns} FROM {target.written(alias)} {joined} {where}"


def _numbered(selected: Sequence[str]) -> str:
    return ", ".join(f"{value} AS c{number}" for number, value in enumerate(selected))


def _assigned(clause: Clause, target: Target, source: str) -> tuple[tuple[str, str], ...]:
    if clause.assignments is None:
        return tuple((name, quoted(source, name)) for name in target.columns.names)
    if any(is_default(value) for _, value in clause.assignments):
        raise InvalidRequestError("MERGE is not offered with DEFAULT: leave the column out, or give a value")
    names = [_spelled(target, column) for column, _ in clause.assignments]
    if len(set(names)) < len(names):
        raise InvalidRequestError("a column is set twice")
    return clause.assignments


def _spelled(target: Target, column: str) -> str:
    return str(target.columns.names[find_column(target.columns, column)])


def _any(clauses: Sequence[Clause]) -> str:
    if not all(clause.condition for clause in clauses):
        return ""
    return " OR ".join(f"(\n{clause.condition}\n)" for clause in clauses)


def _first(clauses: Sequence[Clause], values: Sequence[str]) -> str:
    """Return the value of the first clause whose condition holds."""
    if len(clauses) == 1:
        return values[0]
    cases = [
        f"WHEN (\n{clause.condition or 'TRUE'}\n) THEN (\n{value}\n)"
        for clause, value in zip(clauses, values, strict=True)
    ]
    return f"CASE {' '.join(cases)} END"
