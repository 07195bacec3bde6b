"""Run INSERT, UPDATE and DELETE: through the statements of the catalog."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, assert_never

import pyarrow as pa

from sparkport.arrow.conform import conform_batch, conform_column
from sparkport.catalog.call import Call
from sparkport.catalog.dml import Statement, StatementTable, committed
from sparkport.catalog.lookup import current_arrow_schema
from sparkport.catalog.rowid import ROWID, without_rowid
from sparkport.catalog.scan import TimePoint
from sparkport.catalog.tables import Table, VersionedTable
from sparkport.errors import NotFoundError
from sparkport.sql import syntax
from sparkport.sql.analysis import Analysis
from sparkport.sql.changes import Change, Delete, Insert, Update, parse_change
from sparkport.sql.lowering import delete_query, insert_query, update_query
from sparkport.sql.names import Named
from sparkport.sql.parameters import parameter_schema, value_rows
from sparkport.sql.syntax import Tree
from sparkport.toolkit import buffered


def parameters(analysis: Analysis) -> pa.Schema:
    """Return the parameters of an INSERT, UPDATE or DELETE, which is analysed but not run."""
    return _lower(analysis, parse_change(analysis.statement.text), None).parameters


def run(analysis: Analysis, values: pa.RecordBatch | None) -> int:
    """Run an INSERT, UPDATE or DELETE and return how many rows it has changed."""
    lowered = _lower(analysis, parse_change(analysis.statement.text), values)
    runs = [[]] if lowered.has_all_rows else value_rows(values, len(lowered.parameters))
    statement = lowered.begin()
    with committed(analysis.call, statement) as outcome:
        for row in runs:
            for batch in _fetched(analysis, lowered.query, row):
                statement.write(lowered.conform(batch))
    return outcome.affected_rows


@dataclass(frozen=True, slots=True)
class _Lowered:
    """A change as a query for its rows, and the statement of the catalog that takes them."""

    query: str
    parameters: pa.Schema
    begin: Callable[[], Statement]
    conform: Callable[[pa.RecordBatch], pa.RecordBatch]
    has_all_rows: bool = False


def _fetched(analysis: Analysis, query: str, values: list[Any]) -> Iterator[pa.RecordBatch]:
    return analysis.call.checked(analysis.database.execute(query, values))


def _lower(analysis: Analysis, parsed: Change, values: pa.RecordBatch | None) -> _Lowered:
    named = analysis.names.table(parsed.target)
    match parsed:
        case Insert():
            return _lower_insert(analysis, parsed, named, values)
        case Update():
            return _lower_update(analysis, parsed, named)
        case Delete():
            return _lower_delete(analysis, parsed, named)
        case _:
            assert_never(parsed)


def _lower_insert(
    analysis: Analysis, parsed: Insert, named: Named, values: pa.RecordBatch | None
) -> _Lowered:
    call, table = analysis.call, named.table
    columns = without_rowid(current_arrow_schema(call, table))
    tree = syntax.parse_query(analysis.database, parsed.query)
    analysis.binding.bind(tree)
    given = list(parsed.columns) or columns.names
    if parsed.by_name:
        described = analysis.database.execute(f"SELECT * FROM (\n{parsed.query}\n) LIMIT 0")
        given = described.table().schema.names
    hints = _insert_hints(tree, [columns.field(name) for name in _spelled(columns, given)])
    query = insert_query(parsed, columns, _type_names(analysis, columns), given)
    declared = _declared(tree, analysis, hints)
    # VALUES (?, ?, ...) is the parameters themselves: all of their rows at once.
    has_all_rows = values is not None and values.num_columns > 0 and _is_parameters(tree, len(given))
    if has_all_rows:
        assert values is not None
        value_rows(values.slice(0, 0), len(declared))  # the right number of them
        names = [f"p{number}" for number in range(values.num_columns)]
        renamed = values.rename_columns(names)
        view = analysis.binding.register_rows(renamed.schema, [renamed])
        query = insert_query(
            Insert(parsed.target, parsed.columns, f"SELECT * FROM {view}", by_name=False),
            columns,
            _type_names(analysis, columns),
            given,
        )
    return _Lowered(
        query,
        declared,
        lambda: buffered.begin_insert(call, table, returning=False),
        lambda batch: conform_batch(batch, columns),
        has_all_rows=has_all_rows,
    )


def _lower_update(analysis: Analysis, parsed: Update, named: Named) -> _Lowered:
    call, table = analysis.call, named.table
    columns = without_rowid(current_arrow_schema(call, table))
    pin = _pin(call, table)
    view, rowid = analysis.binding.rows_of_target(named, pin, "UPDATE")
    names, query = update_query(parsed, columns, _type_names(analysis, columns), view, rowid)
    declared = _declared(_bound(analysis, query, view), analysis, {}, columns)
    fields = [columns.field(name) for name in names]

    def conform(batch: pa.RecordBatch) -> pa.RecordBatch:
        values = [conform_column(batch.column(index), field) for index, field in enumerate(fields)]
        return pa.RecordBatch.from_arrays([*values, batch.column(len(fields))], names=[*names, ROWID])

    return _Lowered(
        query,
        declared,
        lambda: buffered.begin_update(_based_on(call, table, pin), table, names, returning=False),
        conform,
    )


def _lower_delete(analysis: Analysis, parsed: Delete, named: Named) -> _Lowered:
    call, table = analysis.call, named.table
    columns = without_rowid(current_arrow_schema(call, table))
    pin = _pin(call, table)
    view, rowid = analysis.binding.rows_of_target(named, pin, "DELETE")
    query = delete_query(parsed, view, rowid)
    declared = _declared(_bound(analysis, query, view), analysis, {}, columns)
    return _Lowered(
        query,
        declared,
        lambda: buffered.begin_delete(_based_on(call, table, pin), table, returning=False),
        lambda batch: batch.rename_columns([ROWID]),
    )


def _bound(analysis: Analysis, query: str, view: str) -> Tree:
    """Bind the tables that a lowered query names beside its target."""
    tree = syntax.parse_query(analysis.database, query)
    target = view.rpartition(".")[2].strip('"')
    others = [node for node in syntax.nodes(tree) if node.get("type") == "BASE_TABLE"]
    analysis.binding.bind(
        {"others": [node for node in others if node["table_name"] != target], "c": _cte(tree)}
    )
    return tree


def _cte(tree: Tree) -> list[Tree]:
    return [{"cte_map": node["cte_map"]} for node in syntax.nodes(tree) if node.get("cte_map")]


def _declared(
    tree: Tree, analysis: Analysis, hints: dict[str, pa.DataType], columns: pa.Schema | None = None
) -> pa.Schema:
    types = analysis.column_types()
    if columns is not None:
        types = {field.name.lower(): field.type for field in columns} | types
    found = parameter_schema(tree, types)
    return pa.schema(
        [
            pa.field(
                field.name, hints.get(field.name, field.type) if pa.types.is_null(field.type) else field.type
            )
            for field in found
        ]
    )


def _spelled(columns: pa.Schema, given: list[str]) -> list[str]:
    known = {name.lower(): name for name in columns.names}
    for name in given:
        if name.lower() not in known:
            raise NotFoundError("column", name, columns.names)
    return [known[name.lower()] for name in given]


def _values(tree: Tree) -> list[list[Tree]]:
    """Return the rows of VALUES, or the columns of a SELECT as one row."""
    node = tree["statements"][0]["node"]
    if node["type"] != "SELECT_NODE":
        return []
    source = node["from_table"]
    if source["type"] == "EXPRESSION_LIST":
        return list(source["values"])
    return [node["select_list"]]


def _insert_hints(tree: Tree, fields: list[pa.Field]) -> dict[str, pa.DataType]:
    """Return the types of the parameters that are stored as they are."""
    return {
        str(value["identifier"]): field.type
        for row in _values(tree)
        for value, field in zip(row, fields, strict=False)
        if value.get("class") == "PARAMETER"
    }


def _is_parameters(tree: Tree, count: int) -> bool:
    rows = _values(tree)
    if tree["statements"][0]["node"]["from_table"]["type"] != "EXPRESSION_LIST" or len(rows) != 1:
        return False
    return [value.get("identifier") for value in rows[0]] == [str(number + 1) for number in range(count)]


def _type_names(analysis: Analysis, columns: pa.Schema) -> dict[str, str]:
    """Return the names of DuckDB's types of columns."""
    view = analysis.binding.register_rows(analysis.binding.columns_for_duckdb(columns))
    rows = analysis.database.execute(f"DESCRIBE SELECT * FROM {view}").rows()
    return {field.name: row[1] for field, row in zip(columns, rows, strict=True)}


def _pin(call: Call, table: Table) -> TimePoint | None:
    """Return the snapshot that an UPDATE or DELETE reads its rows from."""
    if call.transaction_id is None and isinstance(table, VersionedTable):
        return table.snapshot(call, None).time_point
    return None


def _based_on(call: Call, table: Table, pin: TimePoint | None) -> Call:
    if pin is None or not isinstance(table, StatementTable):
        return call
    return call.based_on(pin.value)
