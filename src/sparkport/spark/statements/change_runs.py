"""Run INSERT, UPDATE, DELETE, MERGE and TRUNCATE: through the statements of the tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, assert_never, cast

import numpy as np
import pyarrow as pa

from sparkport.arrow.conform import batch_of, conform_column
from sparkport.catalog.call import Call
from sparkport.catalog.dml import Statement, StatementTable, committed
from sparkport.catalog.guards import GuardedTable
from sparkport.catalog.lookup import current_arrow_schema, find_column
from sparkport.catalog.rowid import ROWID, without_rowid
from sparkport.catalog.scan import ScanOptions
from sparkport.errors import InvalidRequestError, UnsupportedOperationError
from sparkport.expressions.evaluation import evaluate_default
from sparkport.spark.model.columns import ROWID_KEY
from sparkport.spark.query.placeholders import count_parameters, with_values
from sparkport.spark.statements import lowering
from sparkport.spark.statements.changes import Change, MergeDelete, MergeInsert, MergeUpdate
from sparkport.spark.statements.lowering import Target
from sparkport.spark.statements.value_lists import are_parameters, with_default_marks
from sparkport.spark.table import DeltaTable
from sparkport.sql.changes import Delete, Insert, Update
from sparkport.sql.parameters import value_rows

_QUERIES_AT_ONCE = 32
_DEFAULT = b"default"


class Queries(Protocol):
    """Runs the queries of changes."""

    def schema_for_parameters(self, call: Call, parameters: Sequence[str]) -> pa.Schema:
        """Return the columns of a query."""
        raise NotImplementedError

    def execute(self, call: Call, parameters: Sequence[str], options: ScanOptions) -> pa.RecordBatchReader:
        """Run a query."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Lowered:
    """A change as a query for its rows, and the statement of the table that takes them.

    `given` are the columns of the query, which is run by the call `reads`. With `is_parameters` the rows of
    an INSERT are its parameters. With `is_unique` a row that is there twice is an error, else its last values
    count.
    """

    query: str
    given: tuple[str, ...]
    begin: Callable[[], Statement]
    conform: Callable[[pa.RecordBatch], pa.RecordBatch]
    reads: Call
    is_parameters: bool = False
    is_unique: bool = False


@dataclass(frozen=True, slots=True)
class Written:
    """The table that a change writes to; `part` is what the caller sees of it, if that is not all of it."""

    table: DeltaTable
    part: GuardedTable | None = None

    @property
    def statements(self) -> StatementTable:
        """What begins the statements: of a caller who sees a part of the table, only for rows in it."""
        return self.table if self.part is None else cast("StatementTable", self.part)


def lower(call: Call, queries: Queries, change: Change, table: Written, *, is_run: bool) -> Lowered:
    """Return how a change runs. Raises for what the table cannot do.

    If the change is to be run now, rows without row ids get theirs.
    """
    match change:
        case Insert():
            target = _target(call, table)
            given = change.columns or tuple(target.columns.names)
            if change.by_name:
                source = with_values(change.query, [None] * count_parameters(change.query))
                given = tuple(queries.schema_for_parameters(call, [source]).names)
            values, marked = with_default_marks(change.query)
            query = lowering.insert_query(values, target, given, len(marked))
            lowered = _inserting(call, table, target, given, query, marked)
            return replace(lowered, is_parameters=are_parameters(change.query, len(given)))
        case MergeInsert():
            target = _target(call, table)
            given, query = lowering.merge_insert_query(change, target)
            return _inserting(call, table, target, given, query)
        case Update():
            return _lower_update(call, change, table, is_run=is_run)
        case MergeUpdate():
            target, changing = _with_ids(call, table, is_run=is_run)
            names, query = lowering.merge_update_query(change, target)
            return _updating(changing, table, target, names, (), query, is_unique=True)
        case Delete():
            target, changing = _with_ids(call, table, is_run=is_run)
            return _deleting(changing, table, lowering.delete_query(change, target))
        case MergeDelete():
            target, changing = _with_ids(call, table, is_run=is_run)
            return _deleting(changing, table, lowering.merge_delete_query(change, target))
        case _:
            assert_never(change)


def run(call: Call, queries: Queries, lowered: Lowered, values: pa.RecordBatch | None, count: int) -> int:
    """Run a change with `count` parameters, for all rows of them at once; return how many rows changed."""
    value_rows(None if values is None else values.slice(0, 0), count)
    statement = lowered.begin()
    with committed(call, statement) as outcome:
        fill(call, queries, lowered, statement, values, count)
    return outcome.affected_rows


def fill(
    call: Call,
    queries: Queries,
    lowered: Lowered,
    statement: Statement,
    values: pa.RecordBatch | None = None,
    count: int = 0,
) -> None:
    """Give the rows of a change to its statement."""
    seen: list[np.ndarray] = []
    for batch in _rows(call, queries, lowered, values, count):
        if lowered.is_unique:
            seen.append(batch.column(batch.num_columns - 1).to_numpy(zero_copy_only=False))
        statement.write(lowered.conform(batch))
    if seen and len(np.unique(ids := np.concatenate(seen))) < len(ids):
        raise InvalidRequestError(
            "MERGE would change a row more than once: several rows of the source match it"
        )


def _rows(
    call: Call, queries: Queries, lowered: Lowered, values: pa.RecordBatch | None, count: int
) -> Iterator[pa.RecordBatch]:
    if lowered.is_parameters and values is not None:
        yield values
        return
    runs = value_rows(values, count)
    for start in range(0, len(runs), _QUERIES_AT_ONCE):
        texts = [with_values(lowered.query, row) for row in runs[start : start + _QUERIES_AT_ONCE]]
        text = texts[0] if len(texts) == 1 else " UNION ALL ".join(f"(\n{text}\n)" for text in texts)
        with queries.execute(lowered.reads, [text], ScanOptions()) as reader:
            yield from call.checked(reader)


def _lower_update(call: Call, change: Update, table: Written, *, is_run: bool) -> Lowered:
    assigned = tuple(dict.fromkeys(column for column, _ in change.assignments))
    target, changing = _with_ids(call, table, assigned, is_run=is_run)
    names = [target.columns.names[find_column(target.columns, column)] for column, _ in change.assignments]
    if len(set(names)) < len(names):
        raise InvalidRequestError("a column is set twice")
    expressions = [expression for _, expression in change.assignments]
    given = [name for name, text in zip(names, expressions, strict=True) if not lowering.is_default(text)]
    defaults = tuple(name for name in names if name not in given)
    return _updating(changing, table, target, tuple(given), defaults, lowering.update_query(change, target))


def _updating(
    call: Call,
    table: Written,
    target: Target,
    given: tuple[str, ...],
    defaults: tuple[str, ...],
    query: str,
    *,
    is_unique: bool = False,
) -> Lowered:
    fields = [target.columns.field(find_column(target.columns, name)) for name in given]

    def conform(batch: pa.RecordBatch) -> pa.RecordBatch:
        values = [conform_column(batch.column(index), field) for index, field in enumerate(fields)]
        values += [_default(call, target.columns.field(name), batch.num_rows) for name in defaults]
        return pa.RecordBatch.from_arrays(
            [*values, batch.column(len(fields))], names=[*given, *defaults, ROWID]
        )

    return Lowered(
        query,
        given,
        lambda: table.statements.begin_update(call, (*given, *defaults), returning=False),
        conform,
        _reading(call, table),
        is_unique=is_unique,
    )


def _deleting(call: Call, table: Written, query: str) -> Lowered:
    return Lowered(
        query,
        (),
        lambda: table.statements.begin_delete(call, returning=False),
        lambda batch: batch.rename_columns([ROWID]),
        _reading(call, table),
    )


def _inserting(
    call: Call,
    table: Written,
    target: Target,
    given: tuple[str, ...],
    query: str,
    marked: tuple[int, ...] = (),
) -> Lowered:
    positions = [find_column(target.columns, name) for name in given]
    if len(set(positions)) < len(positions):
        raise InvalidRequestError("a column is given twice")

    def column(batch: pa.RecordBatch, position: int, field: pa.Field) -> pa.Array:
        if position not in positions:
            return _default(call, field, batch.num_rows)
        at = positions.index(position)
        values = conform_column(batch.column(at), field)
        if at not in marked:
            return values
        is_default = batch.column(len(given) + marked.index(at)).to_numpy(zero_copy_only=False)
        rows = np.arange(batch.num_rows)
        both = pa.concat_arrays([values, _default(call, field, batch.num_rows)])
        return both.take(pa.array(np.where(is_default, rows + batch.num_rows, rows)))

    def conform(batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = [column(batch, position, field) for position, field in enumerate(target.columns)]
        return batch_of(arrays, target.columns, batch.num_rows)

    return Lowered(query, given, lambda: table.statements.begin_insert(call, returning=False), conform, call)


def _default(call: Call, field: pa.Field, count: int) -> pa.Array:
    expression = (field.metadata or {}).get(_DEFAULT)
    if not expression:
        return pa.nulls(count, field.type)
    values = evaluate_default(call, expression.decode(), field, count).combine_chunks()
    return conform_column(values, field)


def _reading(call: Call, table: Written) -> Call:
    """Return the call that reads the rows which a change writes to.

    The query names the version itself; where the caller sees a part of it, the call does.
    """
    return call if table.part is not None else call.based_on(None)


def _target(call: Call, written: Written) -> Target:
    table, part = written.table, written.part
    snapshot = table.versions.at(call, None)
    is_staged = table.versions.engine.transactions.is_staged(call)
    if snapshot.state.own_writes and not is_staged:
        raise UnsupportedOperationError(
            "table", table.name, "changes in Spark SQL of rows that the same transaction has changed"
        )
    fields = snapshot.metadata.fields
    columns = without_rowid(snapshot.arrow_schema if part is None else current_arrow_schema(call, part))
    return Target(
        table.versions.schema,
        table.name,
        None if is_staged or part is not None else snapshot.version,
        table.versions.pin(call, snapshot).value,
        tuple(field for field in fields if ROWID_KEY not in field.metadata and field.name in columns.names),
        columns,
        next((field.name for field in fields if ROWID_KEY in field.metadata), ""),
    )


def _with_ids(
    call: Call, table: Written, columns: tuple[str, ...] = (), *, is_run: bool
) -> tuple[Target, Call]:
    """Return a table whose rows all have ids, and the call for a statement on that version of it.

    `columns` are those that an UPDATE sets.
    """
    if is_run:
        # To begin one gives ids to the rows that have none, if the caller may do it.
        if table.part is None or not columns:
            table.statements.begin_delete(call, returning=False).abort()
        else:
            table.statements.begin_update(call, columns, returning=False).abort()
    target = _target(call, table)
    return target, call.based_on(target.snapshot)
