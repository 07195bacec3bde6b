"""Row filters that need no DuckDB: comparisons of columns with constants, put together by AND, OR and NOT.

They are evaluated by Arrow, in a small part of the time, and told to the engine, which can leave out files.
Only what Arrow evaluates exactly as DuckDB does is taken; everything else is for DuckDB.
"""

from __future__ import annotations

import functools
import json
import operator
from collections.abc import Callable
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

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
    Or,
)
from sparkport.expressions.evaluation import serialize_statement

_OPERATORS = {
    "COMPARE_EQUAL": ComparisonOperator.EQUAL,
    "COMPARE_NOTEQUAL": ComparisonOperator.NOT_EQUAL,
    "COMPARE_LESSTHAN": ComparisonOperator.LESS,
    "COMPARE_LESSTHANOREQUALTO": ComparisonOperator.LESS_OR_EQUAL,
    "COMPARE_GREATERTHAN": ComparisonOperator.GREATER,
    "COMPARE_GREATERTHANOREQUALTO": ComparisonOperator.GREATER_OR_EQUAL,
}
_KERNELS = {
    ComparisonOperator.EQUAL: (pc.equal, operator.eq),
    ComparisonOperator.NOT_EQUAL: (pc.not_equal, operator.ne),
    ComparisonOperator.LESS: (pc.less, operator.lt),
    ComparisonOperator.LESS_OR_EQUAL: (pc.less_equal, operator.le),
    ComparisonOperator.GREATER: (pc.greater, operator.gt),
    ComparisonOperator.GREATER_OR_EQUAL: (pc.greater_equal, operator.ge),
}
_INTEGERS = frozenset({"TINYINT", "SMALLINT", "INTEGER", "BIGINT"})
_INTEGER_TYPES = frozenset(
    {pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32()}
)
_TEXT_TYPES = frozenset({pa.string(), pa.large_string()})
_MAX_CACHED = 1024

Value: TypeAlias = "pa.Array[Any] | pa.Scalar[Any]"


class _OtherError(Exception):
    """A part that is for DuckDB."""


@functools.lru_cache(_MAX_CACHED)
def parse_condition(expression: str) -> Expression | None:
    """Return a condition as a predicate, None if it is not of the simple kind."""
    tree = json.loads(serialize_statement(f"SELECT ({expression}\n)"))
    try:
        return _lowered(tree["statements"][0]["node"]["select_list"][0])
    except (_OtherError, LookupError, TypeError, RecursionError):
        return None


def evaluate_condition(predicate: Expression, batch: pa.RecordBatch) -> pa.BooleanArray | None:
    """Return the value of a condition for each row, None if columns have types that are for DuckDB."""
    try:
        value = _evaluated(
            predicate, {name.lower(): index for index, name in enumerate(batch.schema.names)}, batch
        )
    except (_OtherError, pa.ArrowException, KeyError):
        return None
    if isinstance(value, pa.Scalar):
        return pa.array([value.as_py()] * batch.num_rows, pa.bool_())
    return value if pa.types.is_boolean(value.type) else None


def _lowered(node: dict[str, Any]) -> Expression:
    match node:
        case {"class": "COLUMN_REF", "column_names": [name]}:
            return Column(name)
        case {"class": "CONSTANT", "value": {"is_null": False, "type": {"id": kind}, "value": value}}:
            return _constant(kind, value)
        case {
            "class": "CAST",
            "try_cast": False,
            "cast_type": {"id": "BOOLEAN"},
            "child": {"class": "CONSTANT"},
        }:
            text = node["child"]["value"]["value"]
            if text not in {"t", "f"}:
                raise _OtherError
            return Constant(pa.scalar(text == "t"))
        case {"class": "COMPARISON", "type": kind, "left": left, "right": right} if kind in _OPERATORS:
            return Comparison(_OPERATORS[kind], _lowered(left), _lowered(right))
        case {"class": "CONJUNCTION", "type": kind, "children": children}:
            parts = tuple(map(_lowered, children))
            return And(parts) if kind == "CONJUNCTION_AND" else Or(parts)
        case {"class": "OPERATOR", "type": "OPERATOR_NOT", "children": [child]}:
            return Not(_lowered(child))
        case {"class": "OPERATOR", "type": "OPERATOR_IS_NULL", "children": [child]}:
            return IsNull(_lowered(child))
        case {"class": "OPERATOR", "type": "OPERATOR_IS_NOT_NULL", "children": [child]}:
            return Not(IsNull(_lowered(child)))
        case {"class": "OPERATOR", "type": "COMPARE_IN", "children": [child, *options]}:
            return In(_lowered(child), tuple(map(_lowered, options)))
        case _:
            raise _OtherError


def _constant(kind: str, value: object) -> Constant:
    if kind == "VARCHAR" and isinstance(value, str):
        return Constant(pa.scalar(value, pa.string()))
    if kind in _INTEGERS and isinstance(value, int):
        return Constant(pa.scalar(value, pa.int64()))
    if kind == "BOOLEAN" and isinstance(value, bool):
        return Constant(pa.scalar(value))
    raise _OtherError


def _evaluated(part: Expression, columns: dict[str, int], batch: pa.RecordBatch) -> Value:
    def inside(child: Expression) -> Value:
        return _evaluated(child, columns, batch)

    match part:
        case Column(name):
            return batch.column(columns[name.lower()])
        case Constant(value):
            return value
        case Comparison(kind, left, right):
            return _compared(kind, inside(left), inside(right))
        case And(children):
            return _joined(pc.and_kleene, [_condition(inside(child)) for child in children])
        case Or(children):
            return _joined(pc.or_kleene, [_condition(inside(child)) for child in children])
        case Not(child):
            return pc.invert(_condition(inside(child)))
        case IsNull(child):
            return pc.is_null(inside(child))
        case In(child, options):
            value = inside(child)
            equal = [_compared(ComparisonOperator.EQUAL, value, inside(option)) for option in options]
            return _joined(pc.or_kleene, equal)
        case _:
            raise _OtherError


def _joined(kernel: Callable[[Value, Value], Value], values: list[Value]) -> Value:
    return functools.reduce(kernel, values)


def _condition(value: Value) -> Value:
    if not pa.types.is_boolean(value.type):
        raise _OtherError
    return value


def _compared(kind: ComparisonOperator, left: Value, right: Value) -> Value:
    for types in (_INTEGER_TYPES, _TEXT_TYPES):
        if left.type in types and right.type in types:
            break
    else:
        raise _OtherError
    array, plain = _KERNELS[kind]
    if isinstance(left, pa.Scalar) and isinstance(right, pa.Scalar):
        return pa.scalar(plain(left.as_py(), right.as_py()))
    # Of different widths Arrow takes the wider one, in which all values are the same.
    return array(left, right)
