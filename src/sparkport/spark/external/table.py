"""Tables and views of a Spark catalog that Spark SQL reads, and Delta tables that Arrow does."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from sparkport.catalog.call import Call
from sparkport.catalog.lookup import find_column
from sparkport.catalog.scan import ScanOptions, Snapshot, TimePoint
from sparkport.catalog.tables import ColumnStatistics, TableConstraints, TableKind
from sparkport.errors import ConflictError, InvalidRequestError, PreconditionError
from sparkport.spark.engine import Engine
from sparkport.spark.errors import RejectedStatementError
from sparkport.spark.external.relations import Relation, comparable_columns, relation_columns
from sparkport.spark.model.columns import TableColumn
from sparkport.spark.planned_scan import PlannedDeltaScan
from sparkport.spark.read import sql_scan
from sparkport.spark.read.sql_query import narrowed
from sparkport.spark.read.sql_scan import Query
from sparkport.spark.session.jobs import Jobs
from sparkport.spark.storage.filesystem import is_local
from sparkport.spark.table import DeltaTable
from sparkport.spark.types import decode_batches
from sparkport.spark.warehouse.listing import TableEntry


class RelationTable:
    """What all tables that Spark SQL reads by name have in common."""

    def __init__(self, relation: Relation, engine: Engine) -> None:
        self._relation = relation
        self._engine = engine

    @property
    def name(self) -> str:
        """The table's name."""
        return self._relation.path[-1]

    @property
    def comment(self) -> str:
        """The table's documentation."""
        return self._relation.comment

    @property
    def arrow_schema(self) -> pa.Schema:
        """The present columns, as Spark analyses them."""
        return exact_schema(self._relation.spark_schema)


class SessionTable(RelationTable):
    """A table in any format, or a view. It has no history: a scan reads its present rows."""

    @property
    def table_kind(self) -> TableKind:
        """Whether it is a view."""
        return TableKind.VIEW if self._relation.is_view else TableKind.TABLE

    def scan(self, call: Call, options: ScanOptions) -> pa.RecordBatchReader:
        """Read the rows: projected, filtered, cut to the limit."""
        if options.time_point is not None:
            raise InvalidRequestError(f"table '{self.name}' does not support time travel")
        call.check()
        read = functools.partial(_newest, self._relation.name)
        spark_schema = self._relation.spark_schema
        stored = stored_rows(self._engine.jobs, call, str(self), read, spark_schema, options)
        return decoded_rows(self._readable(stored), spark_schema, options)

    def _readable(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield batches. Raises PreconditionError where Spark rejects the view's own statement."""
        try:
            yield from batches
        except RejectedStatementError as error:
            raise PreconditionError(f"table '{self}' cannot be read: {error}") from error

    def __str__(self) -> str:
        return str(self._relation)


class NamedDeltaTable:
    """A Delta table that another catalog has the name of, read by its log as those of the warehouse are."""

    def __init__(self, relation: Relation, engine: Engine) -> None:
        assert relation.root is not None
        # With its catalog in the name, no transaction of the warehouse takes it for a table there.
        schema = ".".join(relation.path[:-1])
        entry = TableEntry(schema, relation.path[-1], relation.root, relation.version)
        self._root = relation.root
        self._comment = relation.comment
        self._table = DeltaTable(entry, engine)

    @property
    def name(self) -> str:
        """The table's name."""
        return self._table.name

    @property
    def comment(self) -> str:
        """The table's documentation: what the catalog says, else what the table itself does."""
        return self._comment or self._table.comment

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns of the newest version."""
        return self._table.arrow_schema

    @property
    def constraints(self) -> TableConstraints:
        """The constraints of the newest version."""
        return self._table.constraints

    def snapshot(self, call: Call, time_point: TimePoint | None) -> Snapshot:
        """Fix the version that the call reads."""
        return self._table.snapshot(call, time_point)

    def plan_scan(self, call: Call, options: ScanOptions) -> PlannedDeltaScan:
        """Decide what a scan reads."""
        return self._table.plan_scan(call, options)

    def slice_count(self, call: Call, options: ScanOptions) -> int:
        """Cut large tables by their files."""
        return self._table.slice_count(call, options)

    def scan(self, call: Call, options: ScanOptions) -> pa.RecordBatchReader:
        """Read one version."""
        return self._table.scan(call, options)

    def column_statistics(self, call: Call, column: str) -> ColumnStatistics:
        """Return what the log is sure of."""
        if is_local(self._root):
            return self._table.column_statistics(call, column)
        # The catalog's version rises a little later than that of a table far away, and until then
        # clients would go on with statistics that are no longer true.
        unknown = pa.scalar(None, self.arrow_schema.field(find_column(self.arrow_schema, column)).type)
        return ColumnStatistics(unknown, unknown, has_null=True, has_not_null=True, distinct_count=0)


def exact_schema(spark_schema: str) -> pa.Schema:
    """Return the columns that clients see for a Spark schema in JSON."""
    return pa.schema([column.exact for column in relation_columns(spark_schema)])


def scan_query(
    engine: Engine, call: Call, table: str, read: Query, spark_schema: str, options: ScanOptions
) -> pa.RecordBatchReader:
    """Return the rows of what `read` gives, which must still have the columns that clients know."""
    call.check()
    return decoded_rows(
        stored_rows(engine.jobs, call, table, read, spark_schema, options), spark_schema, options
    )


def stored_rows(
    jobs: Jobs, call: Call, table: str, read: Query, spark_schema: str, options: ScanOptions
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of what `read` gives with the values that Spark has."""
    if options.slice is not None and options.slice.index > 0:
        return iter(())  # all of it is in the first
    columns = _projection(spark_schema, options)
    query = functools.partial(_query, table, read, spark_schema, columns, options)
    return sql_scan.scan(jobs, call, table, query, [column.stored for column in columns])


def decoded_rows(
    stored: Iterable[pa.RecordBatch], spark_schema: str, options: ScanOptions
) -> pa.RecordBatchReader:
    """Return stored rows with the values that clients see."""
    projected = pa.schema([column.exact for column in _projection(spark_schema, options)])
    batches = itertools.chain.from_iterable(decode_batches(batch, projected) for batch in stored)
    return pa.RecordBatchReader.from_batches(projected, batches)


def _projection(spark_schema: str, options: ScanOptions) -> list[TableColumn]:
    columns, full = relation_columns(spark_schema), exact_schema(spark_schema)
    names = full.names if options.columns is None else options.columns
    return [columns[find_column(full, name)] for name in names]


def _newest(name: str, session: SparkSession) -> DataFrame:
    # Else Spark reads the files that it found the last time.
    session.catalog.refreshTable(name)
    return session.table(name)


def _query(
    table: str,
    read: Query,
    spark_schema: str,
    columns: Sequence[TableColumn],
    options: ScanOptions,
    session: SparkSession,
) -> DataFrame:
    frame = read(session)
    current = {column.logical: column.stored.type for column in relation_columns(frame.schema.json())}
    if any(current.get(column.logical) != column.stored.type for column in columns):
        raise ConflictError(table, "its columns have changed")
    rows = narrowed(frame, comparable_columns(spark_schema), columns, options.filter)
    # The filter may let more pass than the client will, so that there is no telling where to stop.
    if options.filter is None and options.limit is not None and options.limit > 0:
        return rows.limit(options.limit)
    return rows
