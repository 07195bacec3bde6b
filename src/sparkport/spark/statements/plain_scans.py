"""Run a plain SELECT as a scan of its table: without Spark SQL, and large ones in several parts."""

from __future__ import annotations

import datetime as dt
import decimal
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, assert_never, cast

import pyarrow as pa
import pyarrow.compute as pc

from sparkport.catalog.call import Call
from sparkport.catalog.guards import GuardedTable
from sparkport.catalog.lookup import current_arrow_schema
from sparkport.catalog.predicates import (
    And,
    Column,
    Comparison,
    ComparisonOperator,
    Constant,
    Expression,
    In,
    IsNull,
    Not,
)
from sparkport.catalog.rowid import without_rowid
from sparkport.catalog.scan import PlannedScan, ScanOptions, ScanSlice, TimePoint, TimeUnit
from sparkport.catalog.tables import PlanningTable, VersionedTable
from sparkport.spark.delta.log.spark_fields import SparkField
from sparkport.spark.model.columns import ROWID_KEY, column_of
from sparkport.spark.statements.lowering import is_plain
from sparkport.spark.statements.plain_select import (
    Compared,
    Constants,
    Nulls,
    OneOf,
    PlainCondition,
    PlainSelect,
)
from sparkport.spark.table import DeltaTable

UNBOUND = object()
"""Stands for the value of a parameter that is not known yet."""

_COMPARE: Mapping[ComparisonOperator, Callable[..., pa.Array]] = {
    ComparisonOperator.EQUAL: pc.equal,
    ComparisonOperator.NOT_EQUAL: pc.not_equal,
    ComparisonOperator.LESS: pc.less,
    ComparisonOperator.LESS_OR_EQUAL: pc.less_equal,
    ComparisonOperator.GREATER: pc.greater,
    ComparisonOperator.GREATER_OR_EQUAL: pc.greater_equal,
}
# The values that Spark compares with a column as they are, by its type in Delta.
_COMPARABLE: Mapping[str, type] = {
    **dict.fromkeys(("byte", "short", "integer", "long"), int),
    "string": str,
    "boolean": bool,
    "date": dt.date,
    "timestamp": dt.datetime,
    "timestamp_ntz": dt.datetime,
}


class Source(PlanningTable, VersionedTable, Protocol):
    """What rows are read from: a table, or what a caller sees of it."""


@dataclass(frozen=True, slots=True)
class PlainScan:
    """A scan that answers a statement: columns by their names in the table, and the columns of the answer."""

    table: Source
    options: ScanOptions
    names: tuple[str, ...]
    arrow_schema: pa.Schema
    conditions: tuple[tuple[PlainCondition, pa.DataType], ...]
    limit: int | None

    @property
    def parameters(self) -> pa.Schema:
        """The parameters that have no value yet, in their order."""
        kinds = [
            kind for condition, kind in self.conditions for value in _values_of(condition) if value is UNBOUND
        ]
        return pa.schema([pa.field(str(number), kind) for number, kind in enumerate(kinds, 1)])

    def parts(self, call: Call) -> tuple[str, ...]:
        """Return the parts that can be read side by side, all of one version of the table."""
        if self.limit is not None or call.transaction_id is not None:
            return ("",)
        pin = self.table.snapshot(call, None).time_point
        count = self._planned(call, pin).slice_count
        if count == 1 or pin is None:
            return ("",)
        return tuple(json.dumps([pin.unit, pin.value, index, count]) for index in range(count))

    def read(self, call: Call, part: str) -> pa.RecordBatchReader:
        """Return the rows of a part, all of them if it is empty."""
        pin, scan_slice = None, None
        if part:
            unit, value, index, count = json.loads(part)
            pin, scan_slice = TimePoint(TimeUnit(unit), value), ScanSlice(index, count)
        reader = self._planned(call, pin).read(call, scan_slice)
        return pa.RecordBatchReader.from_batches(self.arrow_schema, self._rows(reader))

    def _planned(self, call: Call, pin: TimePoint | None) -> PlannedScan:
        return self.table.plan_scan(call, replace(self.options, time_point=pin))

    def _rows(self, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        missing = self.limit
        with reader:
            for scanned in reader if missing != 0 else ():
                # The scan may have let more rows pass than the conditions do.
                batch = _filtered(scanned, self.conditions)
                if missing is not None:
                    batch = batch.slice(0, missing)
                    missing -= batch.num_rows
                columns = [batch.column(name) for name in self.names]
                yield pa.RecordBatch.from_arrays(columns, schema=self.arrow_schema)
                if missing == 0:
                    return


def plain_scan(
    call: Call, table: DeltaTable, select: PlainSelect, part: GuardedTable | None = None
) -> PlainScan | None:
    """Return the scan that answers a plain SELECT, None if only Spark knows what it means.

    `part` is what the caller sees of the table, if that is not all of it.
    """
    fields = {
        field.name.lower(): field
        for field in table.versions.at(call, None).metadata.fields
        if ROWID_KEY not in field.metadata
    }
    if part is not None:
        shown = {field.name: field for field in without_rowid(current_arrow_schema(call, part))}
        fields = {
            name: replace(field, nullable=shown[field.name].nullable)
            for name, field in fields.items()
            if field.name in shown
        }
    chosen = _chosen(fields, select)
    conditions = _typed(fields, select.conditions)
    if chosen is None or conditions is None:
        return None
    names = tuple(field.name for field, _ in chosen)
    exact = [column_of(field).exact.remove_metadata().with_name(name) for field, name in chosen]
    tested = (_spelled(fields, condition.column) for condition, _ in conditions)
    options = ScanOptions(
        columns=tuple(dict.fromkeys((*names, *tested))),
        filter=_hint(fields, [typed for typed in conditions if UNBOUND not in _values_of(typed[0])]),
        limit=select.limit if not conditions else None,
    )
    source = table if part is None else cast("Source", part)
    return PlainScan(source, options, names, pa.schema(exact), conditions, select.limit)


def constant_rows(constants: Constants) -> pa.Table:
    """Return the one row of values, in the types that Spark gives them."""
    types = {bool: pa.bool_(), int: pa.int32(), str: pa.string()}
    fields = [pa.field(name, types[type(value)], nullable=False) for name, value in constants.values]
    arrays = [pa.array([value], types[type(value)]) for _, value in constants.values]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _chosen(fields: Mapping[str, SparkField], select: PlainSelect) -> list[tuple[SparkField, str]] | None:
    """Return the fields that a SELECT names, None if it names others or values that Spark pads."""
    wanted = select.columns or tuple((field.name, field.name) for field in fields.values())
    chosen = [(fields.get(column.lower()), name) for column, name in wanted]
    known = [(field, name) for field, name in chosen if field is not None]
    if len(known) < len(chosen) or any(not column_of(field).is_as_stored for field, _ in known):
        return None
    lower_names = [name.lower() for _, name in known]
    return known if known and len(set(lower_names)) == len(lower_names) else None


def _typed(
    fields: Mapping[str, SparkField], conditions: Sequence[PlainCondition]
) -> tuple[tuple[PlainCondition, pa.DataType], ...] | None:
    """Return each condition with the type of its column, None if Spark would convert one of them."""
    typed = []
    for condition in conditions:
        field = fields.get(condition.column.lower())
        if field is None or not column_of(field).is_as_stored:
            return None
        kind = column_of(field).exact.type
        if not all(_fits(field, kind, value) for value in _values_of(condition)):
            return None
        typed.append((condition, kind))
    return tuple(typed)


def _values_of(condition: PlainCondition) -> tuple[Any, ...]:
    match condition:
        case Compared():
            return (condition.value,)
        case OneOf():
            return condition.values
        case Nulls():
            return ()
        case _:
            assert_never(condition)


def _fits(field: SparkField, kind: pa.DataType, value: Any) -> bool:  # noqa: ANN401  (of any type)
    """Return whether a value has the type of a column, so that comparing them needs no conversion."""
    if not is_plain(field):
        return False
    if value is UNBOUND:
        return field.type in _COMPARABLE or str(field.type).startswith("decimal")
    if isinstance(field.type, str) and field.type.startswith("decimal"):
        is_exact = type(value) in (int, decimal.Decimal)
    else:
        is_exact = type(value) is _COMPARABLE.get(str(field.type))
    if isinstance(value, dt.datetime):
        is_exact = is_exact and (value.tzinfo is None) == (field.type == "timestamp_ntz")
    if not is_exact:
        return False
    try:
        pa.scalar(value, kind)
    except (pa.ArrowException, OverflowError, ValueError):
        return False
    return True


def _hint(
    fields: Mapping[str, SparkField], conditions: Sequence[tuple[PlainCondition, pa.DataType]]
) -> Expression | None:
    """Return the conditions as a filter for the scan."""
    parts = [
        _expression(_spelled(fields, condition.column), condition, kind) for condition, kind in conditions
    ]
    return And(tuple(parts)) if len(parts) > 1 else parts[0] if parts else None


def _expression(name: str, condition: PlainCondition, kind: pa.DataType) -> Expression:
    column = Column(name)
    match condition:
        case Compared():
            return Comparison(condition.operator, column, Constant(pa.scalar(condition.value, kind)))
        case OneOf():
            return In(column, tuple(Constant(pa.scalar(value, kind)) for value in condition.values))
        case Nulls():
            return IsNull(column) if condition.is_null else Not(IsNull(column))
        case _:
            assert_never(condition)


def _spelled(fields: Mapping[str, SparkField], name: str) -> str:
    return fields[name.lower()].name


def _filtered(
    batch: pa.RecordBatch, conditions: Sequence[tuple[PlainCondition, pa.DataType]]
) -> pa.RecordBatch:
    """Return the rows for which all conditions are true."""
    names = {name.lower(): index for index, name in enumerate(batch.schema.names)}
    for condition, kind in conditions:
        column = batch.column(names[condition.column.lower()])
        match condition:
            case Compared():
                mask = _COMPARE[condition.operator](column, pa.scalar(condition.value, kind))
            case OneOf():
                mask = pc.is_in(column, value_set=pa.array(condition.values, kind))
            case Nulls():
                mask = pc.is_null(column) if condition.is_null else pc.is_valid(column)
            case _:
                assert_never(condition)
        batch = batch.filter(mask)
    return batch
