"""Filter Arrow data by a predicate, keeping every row that DuckDB would keep.

DuckDB filters the rows of a scan again, so an extra row only costs time, but a missing row
is a wrong answer. Hence each part of the predicate is either evaluated exactly as
DuckDB does or left out, and leaving a part out never makes the rest stricter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from sparkport.catalog.predicates import (
    And,
    Case,
    Cast,
    Coalesce,
    Column,
    Comparison,
    Constant,
    Expression,
    Function,
    In,
    IsNull,
    Not,
    Or,
    Unknown,
    weaken,
)
from sparkport.memory.casts import convert
from sparkport.memory.comparisons import compare, is_in
from sparkport.memory.functions import apply
from sparkport.memory.values import InexactError, Value, call, has_unknown_extension, load, load_scalar

# What Arrow and pyarrow raise on overflow, unsupported types and values that do not fit.
_REFUSALS = (
    InexactError,
    pa.ArrowException,
    ArithmeticError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)


def filter_batch(batch: pa.RecordBatch, predicate: Expression | None) -> pa.RecordBatch:
    """Return at least the rows for which DuckDB finds the predicate true."""
    if predicate is None or batch.num_rows == 0:
        return batch
    evaluation = _Evaluation(batch)
    weaker = weaken(predicate, evaluation.understands)
    if weaker is None:
        return batch
    mask = evaluation.combine(weaker)
    if isinstance(mask, pa.Scalar):
        return batch if mask.as_py() else batch.slice(0, 0)
    assert isinstance(mask, pa.BooleanArray)
    if mask.true_count == batch.num_rows:
        return batch
    try:
        columns = [_filter(column, mask) for column in batch.columns]
    except pa.ArrowNotImplementedError:
        # Arrow cannot filter columns of some types, such as run-end encoded ones; DuckDB can.
        return batch
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def applied_part(batch: pa.RecordBatch, predicate: Expression) -> Expression | None:
    """Return the part of the predicate that `filter_batch` applies to this batch."""
    return weaken(predicate, _Evaluation(batch).understands)


def _filter(column: pa.Array[Any], mask: pa.BooleanArray) -> pa.Array[Any]:
    # Arrow cannot filter views.
    if pa.types.is_string_view(column.type):
        return column.cast(pa.large_string()).filter(mask).cast(column.type)
    if pa.types.is_binary_view(column.type):
        return column.cast(pa.large_binary()).filter(mask).cast(column.type)
    return column.filter(mask)


class _Evaluation:
    """The parts of one predicate that could be evaluated on one batch, with their results."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch
        self._results: dict[int, Value] = {}

    def understands(self, part: Expression) -> bool:
        try:
            result = self._value(part)
        except _REFUSALS:
            return False
        self._results[id(part)] = result
        return bool(result.type == pa.bool_())

    def combine(self, expression: Expression) -> Value:
        """Return the result of an expression whose parts are all understood."""
        match expression:
            case And(parts):
                return _reduce("and_kleene", [self.combine(part) for part in parts], empty=True)
            case Or(parts):
                return _reduce("or_kleene", [self.combine(part) for part in parts], empty=False)
            case _:
                return self._results[id(expression)]

    def _value(self, expression: Expression) -> Value:
        match expression:
            case Column(name):
                return self._column(name)
            case Constant(scalar):
                return load_scalar(scalar)
            case And(parts):
                return _reduce("and_kleene", [self._truth(part) for part in parts], empty=True)
            case Or(parts):
                return _reduce("or_kleene", [self._truth(part) for part in parts], empty=False)
            case Not(child):
                return call("invert", self._truth(child))
            case Function(name, arguments):
                return apply(name, [self._value(argument) for argument in arguments])
            case Cast(child, target, lenient):
                return convert(self._value(child), target, lenient=lenient)
            case Unknown(reason):
                raise InexactError(reason)
            case _:
                return self._test_or_choice(expression)

    def _test_or_choice(self, expression: Comparison | IsNull | In | Case | Coalesce) -> Value:
        match expression:
            case Comparison(operator, left, right):
                return compare(operator, self._value(left), self._value(right))
            case IsNull(child):
                return _is_null(self._value(child))
            case In(child, options):
                return is_in(self._value(child), [self._value(option) for option in options])
            case Case(branches, otherwise):
                result = self._value(otherwise)
                for condition, chosen in reversed(branches):
                    result = _choose(self._truth(condition), self._value(chosen), result)
                return result
            case Coalesce(parts):
                values = [self._value(part) for part in parts]
                _require_one_type(values)
                return call("coalesce", *values)

    def _truth(self, expression: Expression) -> Value:
        value = self._value(expression)
        if value.type != pa.bool_():
            raise InexactError(f"{value.type} as a condition")
        return value

    def _column(self, name: str) -> Value:
        index = self._batch.schema.get_field_index(name)
        if index < 0:
            raise InexactError(f"no single column '{name}'")
        if has_unknown_extension(self._batch.schema.field(index)):
            raise InexactError(f"column '{name}' of an unknown extension type")
        return load(self._batch.column(index))


def _reduce(kernel: str, values: Sequence[Value], *, empty: bool) -> Value:
    result: Value = pa.scalar(empty, pa.bool_())
    for position, value in enumerate(values):
        result = value if position == 0 else call(kernel, result, value)
    return result


def _is_null(value: Value) -> Value:
    if isinstance(value.type, pa.UnionType):
        raise InexactError("unions keep their nulls in their members")
    return call("is_null", value)


def _choose(condition: Value, chosen: Value, otherwise: Value) -> Value:
    _require_one_type([chosen, otherwise])
    certain = call("coalesce", condition, pa.scalar(False, pa.bool_()))
    return call("if_else", certain, chosen, otherwise)


def _require_one_type(values: Sequence[Value]) -> None:
    if len({value.type for value in values}) != 1:
        raise InexactError("values of several types")
