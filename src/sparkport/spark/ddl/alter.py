"""ALTER TABLE on a Delta table: one change, one commit, rows rewritten only where their values change."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from sparkport.catalog.call import Call
from sparkport.catalog.ddl import (
    ChangeColumnType,
    RemoveColumn,
    RemoveField,
    RenameColumn,
    RenameField,
    TableChange,
)
from sparkport.catalog.rowid import without_rowid
from sparkport.catalog.scan import ScanOptions
from sparkport.errors import (
    ConflictError,
    ConstraintViolationError,
    PreconditionError,
    UnsupportedOperationError,
)
from sparkport.expressions import referenced_columns
from sparkport.expressions.alterations import Alteration, TableShape, plan_alteration
from sparkport.spark.commit.conflicts import retry_on_conflict
from sparkport.spark.commit.folder_lock import while_writing
from sparkport.spark.commit.staged_frame import staged_rows
from sparkport.spark.commit.staging import Stage
from sparkport.spark.ddl import alter_connect
from sparkport.spark.delta.log.spark_fields import SparkField, struct_json
from sparkport.spark.delta.mapping import mapping_mode
from sparkport.spark.delta_jvm import metadata_commit
from sparkport.spark.delta_jvm.metadata_commit import MetadataChange
from sparkport.spark.delta_jvm.transaction import MakeRows
from sparkport.spark.model.columns import TableColumn, table_columns
from sparkport.spark.model.constraints import (
    CONSTRAINTS_KEY,
    constraint_properties,
    delta_checks,
    own_constraints,
)
from sparkport.spark.model.schema_evolution import evolve_schema, without_metadata
from sparkport.spark.read.snapshot import TableSnapshot
from sparkport.spark.row_ids.provisional import null_if_provisional
from sparkport.spark.row_ids.statistics import with_indexed_ids
from sparkport.spark.types import encode, spark_field, storage_type
from sparkport.spark.versions import TableVersions

_MAX_TRIES = 5
_UNLOCKED_TRIES = 2
_BY_NAME = (RemoveColumn, RenameColumn, RemoveField, RenameField)
_GENERATED = "delta.generationExpression"


@dataclass(frozen=True, slots=True)
class _Plan:
    """A change planned for one version of a table."""

    base: TableSnapshot
    columns: tuple[TableColumn, ...]
    old: pa.Schema
    alteration: Alteration
    fields: tuple[SparkField, ...]
    stays: bool

    @property
    def new(self) -> pa.Schema:
        """The new columns, without the row id."""
        return self.alteration.shape.arrow_schema

    @property
    def is_recomputed(self) -> bool:
        """Whether all rows have to be read and rewritten."""
        return bool(self.base.state.files) and (self.alteration.recomputed or not self.stays)

    @property
    def is_filled(self) -> bool:
        """Whether all rows get the value of a new column."""
        return bool(self.base.state.files) and self.alteration.filled is not None


def alter(call: Call, table: TableVersions, change: TableChange) -> int | None:
    """Make one change in one commit, again after a conflict; return the version that it made, None if none.

    Other statements of this server run on while expressions are evaluated; they wait only for the commit,
    and for all of an ALTER that has lost to them before. Over Spark Connect the version is the newest
    one, which others may have made.
    """

    def attempt(number: int) -> int | None:
        if number < _UNLOCKED_TRIES:
            return _alter(call, table, change, table.lock.exclusive(call))
        with table.lock.exclusive(call):
            return _alter(call, table, change, contextlib.nullcontext())

    return retry_on_conflict(call, attempt, max_tries=_MAX_TRIES)


def _alter(
    call: Call,
    table: TableVersions,
    change: TableChange,
    commit_lock: contextlib.AbstractContextManager[None],
) -> int | None:
    """Make the change, and hold `commit_lock` for the commit alone."""
    call.check()
    plan = _plan(call, table, change)
    if plan is None:
        return None
    _check_possible(call, table, plan, change)
    if not table.engine.capabilities.delta_transactions:
        _check_rows(call, table, plan)
        altered = alter_connect.work(table, plan.base.state, plan.alteration, change)
        with commit_lock:
            _check_unchanged(table, plan)
            table.engine.jobs.run(call, str(table), while_writing(table.root, str(table), altered))
        return table.log.newest_version()
    stage = Stage(table.engine.staging)
    try:
        rows = _new_rows(call, table, plan, stage)
        work = functools.partial(metadata_commit.commit_metadata, _log_change(table, plan, change, rows))
        with commit_lock:
            _check_unchanged(table, plan)
            return table.engine.jobs.run(
                call, str(table), while_writing(table.root, str(table), work)
            ).version
    finally:
        stage.remove()


def _check_unchanged(table: TableVersions, plan: _Plan) -> None:
    """Raise ConflictError if the change was planned for another version, or for another table."""
    newest = table.log.snapshot()
    planned = plan.base
    if newest.version != planned.version or newest.metadata.table_id != planned.metadata.table_id:
        raise ConflictError(table.name, "another statement changed it during the ALTER")


def _plan(call: Call, table: TableVersions, change: TableChange) -> _Plan | None:
    base = table.newest()
    columns = table_columns(base.metadata)
    old = without_rowid(pa.schema([column.exact for column in columns]))
    shape = TableShape(old, own_constraints(base.metadata))
    alteration = plan_alteration(call, table.name, shape, change)
    if alteration is None:
        return None
    fields, stays = evolve_schema(base.metadata.fields, old, alteration.shape.arrow_schema, change)
    return _Plan(base, columns, old, alteration, fields, stays)


def _log_change(
    table: TableVersions, plan: _Plan, change: TableChange, rows: MakeRows | None
) -> MetadataChange:
    metadata = plan.base.metadata
    kept = {key: text for key, text in metadata.configuration.items() if key != CONSTRAINTS_KEY}
    partitions = metadata.partition_columns
    if isinstance(change, RenameColumn):
        names = dict(zip(plan.old.names, plan.new.names, strict=True))
        partitions = tuple(names[name] for name in partitions)
    return MetadataChange(
        str(table),
        table.root,
        metadata.table_id,
        plan.base.version,
        plan.fields,
        with_indexed_ids(kept | constraint_properties(plan.alteration.shape.constraints), plan.fields),
        partitions,
        plan.alteration.reads_rows,
        rows,
        plan.alteration.comment,
    )


def _check_possible(call: Call, table: TableVersions, plan: _Plan, change: TableChange) -> None:
    """Raise an error for a change that would break the table for Spark or that Delta does not allow."""
    metadata = plan.base.metadata
    if not isinstance(change, (*_BY_NAME, ChangeColumnType)):
        return
    if isinstance(change, _BY_NAME) and mapping_mode(metadata) == "none":
        raise PreconditionError(
            f"cannot rename or drop columns of table '{table.name}': it has no column mapping; set its"
            " property delta.columnMapping.mode to 'name' first"
        )
    path = _path(plan.old, change)
    if isinstance(change, RemoveColumn | ChangeColumnType) and path[0] in metadata.partition_columns:
        raise UnsupportedOperationError(
            "column", path[0], "this change: the table is partitioned by the column"
        )
    if isinstance(change, RemoveColumn) and "clustering" in plan.base.state.protocol.writer_features:
        raise UnsupportedOperationError("table", table.name, "DROP COLUMN: it uses liquid clustering")
    if any(_GENERATED in field.metadata for field in metadata.fields):
        raise UnsupportedOperationError("table", table.name, "this change: it has generated columns")
    if delta_checks(metadata) and table.engine.capabilities.delta_transactions:
        work = functools.partial(metadata_commit.dependent_checks, table.root, path)
        for text in table.engine.jobs.run(call, str(table), work):
            raise PreconditionError(
                f"column '{path[0]}' is used by Delta's CHECK ({text}); drop that constraint first"
            )


def _path(old: pa.Schema, change: TableChange) -> tuple[str, ...]:
    match change:
        case RemoveColumn(name) | RenameColumn(name) | ChangeColumnType(name):
            path: tuple[str, ...] = (name,)
        case RemoveField(path) | RenameField(path):
            pass
        case _:
            raise TypeError(f"{type(change).__name__} does not name one column")
    spelled = next(name for name in old.names if name.lower() == path[0].lower())
    return (spelled, *path[1:])


def _new_rows(call: Call, table: TableVersions, plan: _Plan, stage: Stage) -> MakeRows | None:
    """Check and stage what the new rows are made of; return None if the old rows stay."""
    if plan.is_recomputed:
        _stage_all(call, table, plan, stage)
        return functools.partial(_staged_rows, plan.fields, stage)
    if plan.is_filled:
        added = plan.new.field(len(plan.new) - 1)
        value = encode(plan.alteration.filled, added)
        stage.add(pa.record_batch([value], [added.name]))
        stage.close()
        fresh = plan.fields[len(plan.new) - 1]
        return functools.partial(_filled_rows, table.root, plan.base.version, fresh, value[0], stage)
    _check_rows(call, table, plan)
    return None


def _stage_all(call: Call, table: TableVersions, plan: _Plan, stage: Stage) -> None:
    """Convert, check and stage all rows, batch by batch; only the columns of keys stay in memory."""
    for column, new in zip(plan.columns, plan.new, strict=False):
        is_same = column.exact.type == new.type
        if is_same and (column.is_text_of_another or not _is_storable(column)):
            raise UnsupportedOperationError(
                "table", table.name, f"this change: column '{new.name}' has a type that cannot be rewritten"
            )
    logical = [field.name for field in plan.fields]
    keys = _key_columns(plan)
    kept: list[pa.RecordBatch] = []
    for batch in plan.base.scan(call.outside_transaction(), ScanOptions()):
        call.check()
        rows = plan.alteration.convert(batch.select(plan.old.names))
        plan.alteration.check(call, table.name, pa.Table.from_batches([rows]))
        if keys:
            kept.append(rows.select(keys))
        arrays = [encode(array, field) for array, field in zip(rows.columns, plan.new, strict=True)]
        if len(plan.columns) > len(plan.old):
            arrays.append(null_if_provisional(batch.column(len(plan.old))))
        stage.add(pa.RecordBatch.from_arrays(arrays, logical))
    stage.close()
    if kept:
        plan.alteration.check_keys(table.name, pa.Table.from_batches(kept))


def _is_storable(column: TableColumn) -> bool:
    return bool(storage_type(spark_field(column.exact).type) == column.stored.type)


def _check_rows(call: Call, table: TableVersions, plan: _Plan) -> None:
    """Raise ConstraintViolationError if rows that stay break what is new."""
    if not plan.alteration.reads_rows or not plan.base.state.files:
        return
    outside = call.outside_transaction()
    if len(plan.new) > len(plan.old):
        options = ScanOptions(columns=tuple(plan.old.names[:1]), limit=1)
        if plan.base.scan(outside, options).read_all().num_rows:
            raise ConstraintViolationError("NOT NULL", table.name, column=plan.new.names[-1])
        return
    checked = {name for text in plan.alteration.to_check.checks for name in referenced_columns(text)}
    checked |= {name.lower() for name in _key_columns(plan)}
    checked |= {
        new.name.lower() for old, new in zip(plan.old, plan.new, strict=True) if old.nullable > new.nullable
    }
    names = [name for name in plan.old.names if name.lower() in checked] or plan.old.names[:1]
    keys = _key_columns(plan)
    kept: list[pa.RecordBatch] = []
    for batch in plan.base.scan(outside, ScanOptions(columns=tuple(names))):
        call.check()
        plan.alteration.check(call, table.name, pa.Table.from_batches([batch]))
        if keys:
            kept.append(batch.select(keys))
    if kept:
        plan.alteration.check_keys(table.name, pa.Table.from_batches(kept))


def _key_columns(plan: _Plan) -> list[str]:
    constraints = plan.alteration.to_check
    keys = [*constraints.unique_keys, constraints.primary_key]
    return list(dict.fromkeys(name for key in keys for name in key))


def _staged_rows(fields: Sequence[SparkField], stage: Stage, session: SparkSession) -> DataFrame:
    plain = [without_metadata(field) for field in fields]
    if not stage.rows:
        return session.createDataFrame([], StructType.fromJson(struct_json(plain)))
    return staged_rows(plain, [stage], session)


def _filled_rows(
    root: str, version: int, field: SparkField, value: pa.Scalar, stage: Stage, session: SparkSession
) -> DataFrame:
    """Return the rows of a version with one more column that has the same value in every row."""
    old = session.read.format("delta").option("versionAsOf", version).load(root)
    schema = StructType.fromJson(struct_json([without_metadata(field)]))
    if _is_simple(value.type):
        return old.withColumn(field.name, sf.lit(value.as_py()).cast(schema[0].dataType))
    return old.crossJoin(sf.broadcast(staged_rows([without_metadata(field)], [stage], session)))


def _is_simple(arrow_type: pa.DataType) -> bool:
    """Return whether Spark reads Python's values of a type exactly."""
    is_number = (
        pa.types.is_integer(arrow_type) or pa.types.is_floating(arrow_type) or pa.types.is_decimal(arrow_type)
    )
    return bool(is_number or pa.types.is_string(arrow_type) or pa.types.is_boolean(arrow_type))
