"""Read the filters that DuckDB pushes down as one predicate tree.

The wire form is DuckDB's serialised expressions in JSON that is not quite JSON: NaN and
the infinities stand bare and integers go beyond 64 bits. What this module does not know
becomes `Unknown`, since a scan never fails over a filter that DuckDB applies again
itself; what contradicts the format raises InvalidRequestError.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from sparkport.catalog.predicates import (
    And,
    Case,
    Cast,
    Coalesce,
    Column,
    Comparison,
    ComparisonOperator,
    Constant,
    Expression,
    Function,
    In,
    IsNull,
    Not,
    Or,
    Unknown,
)
from sparkport.errors import InvalidRequestError
from sparkport.protocol.airport.duckdb_types import (
    MAX_DEPTH,
    Node,
    arrow_type,
    field,
    has_enum,
    nodes,
    scalar,
)

_COMPARISONS = {
    "COMPARE_EQUAL": ComparisonOperator.EQUAL,
    "COMPARE_NOTEQUAL": ComparisonOperator.NOT_EQUAL,
    "COMPARE_LESSTHAN": ComparisonOperator.LESS,
    "COMPARE_LESSTHANOREQUALTO": ComparisonOperator.LESS_OR_EQUAL,
    "COMPARE_GREATERTHAN": ComparisonOperator.GREATER,
    "COMPARE_GREATERTHANOREQUALTO": ComparisonOperator.GREATER_OR_EQUAL,
    "COMPARE_DISTINCT_FROM": ComparisonOperator.DISTINCT,
    "COMPARE_NOT_DISTINCT_FROM": ComparisonOperator.NOT_DISTINCT,
}
_ORDERINGS = {
    ComparisonOperator.LESS,
    ComparisonOperator.LESS_OR_EQUAL,
    ComparisonOperator.GREATER,
    ComparisonOperator.GREATER_OR_EQUAL,
}
_MAX_BYTES = 4 << 20
_MAX_BYTES_OF_NOTHING = 256
# Their argument names travel as aliases, which a Function does not carry.
_NAMED_ARGUMENTS = {"struct_pack", "struct_insert", "struct_update"}


def decode(json_filters: str | bytes) -> Expression | None:
    """Return the predicate that a scan's `json_filters` means; None where nothing is filtered."""
    # Parsed JSON takes many times the room of its text. What is not pushed down DuckDB does itself.
    if not json_filters or len(json_filters) > _MAX_BYTES:
        return None
    document = _parse(json_filters)
    scope = _Scope(_column_names(document))
    filters = tuple(scope.expression(node, 0) for node in nodes(document, "filters"))
    match filters:
        case ():
            return None
        case (single,):
            return single
        case _:
            return And(filters)


def refers_to_nothing(json_filters: str | bytes) -> bool:
    """Return whether a query refers to no column at all, as one that only counts rows.

    DuckDB names the columns that a query refers to, and if there are none asks for one all the same.
    """
    # So short that nothing else is parsed for it.
    if not 0 < len(json_filters) <= _MAX_BYTES_OF_NOTHING:
        return False
    document = _parse(json_filters)
    return _column_names(document) == () and not nodes(document, "filters")


def _parse(text: str | bytes) -> Node:
    try:
        document: object = json.loads(text)
    except RecursionError as error:
        raise InvalidRequestError("filter: the JSON is nested too deeply") from error
    except ValueError as error:
        raise InvalidRequestError(f"filter: not JSON: {error}") from error
    if isinstance(document, dict):
        return document
    raise InvalidRequestError("filter: the JSON is not an object")


def _column_names(document: Node) -> tuple[str, ...] | None:
    """Return the names that references count through; a listing's filters come without."""
    if "column_binding_names_by_index" not in document:
        return None
    names = field(document, "column_binding_names_by_index", list)
    if all(isinstance(name, str) for name in names):
        return tuple(names)
    raise InvalidRequestError("filter: 'column_binding_names_by_index' is not a list of names")


def _is_enum(node: Node) -> bool:
    value = node.get("value")
    spec = value.get("type") if isinstance(value, dict) else node.get("return_type")
    return isinstance(spec, dict) and has_enum(spec)


def _compare(operator: ComparisonOperator, left: Expression, right: Expression, *nodes: Node) -> Expression:
    if operator in _ORDERINGS and any(_is_enum(node) for node in nodes):
        return Unknown("the order of an ENUM")
    return Comparison(operator, left, right)


@dataclass(frozen=True, slots=True)
class _Scope:
    """The columns that references point to."""

    names: tuple[str, ...] | None

    def expression(self, node: Node, depth: int) -> Expression:
        expression_class = field(node, "expression_class", str)
        if depth > MAX_DEPTH:
            return Unknown(f"nesting deeper than {MAX_DEPTH}")
        if (read := _CLASSES.get(expression_class)) is None:
            return Unknown(f"expression class {expression_class}")
        return read(self, node, depth + 1)

    def member(self, node: Node, key: str, depth: int) -> Expression:
        return self.expression(field(node, key, dict), depth)

    def members(self, node: Node, key: str, depth: int, *, at_least: int = 0) -> tuple[Expression, ...]:
        parts = nodes(node, key)
        if len(parts) < at_least:
            raise InvalidRequestError(
                f"filter: {field(node, 'type', str)} has {len(parts)} {key}, not {at_least} or more"
            )
        return tuple(self.expression(part, depth) for part in parts)

    def column(self, node: Node, _depth: int) -> Expression:
        if self.names is None:
            return Unknown("a column without a name")
        index = field(field(node, "binding", dict), "column_index", int)
        if not 0 <= index < len(self.names):
            raise InvalidRequestError(f"filter: column index {index} of {len(self.names)} columns")
        if node.get("depth", 0) != 0:
            return Unknown("a column of an outer query")
        return Column(self.names[index])

    def constant(self, node: Node, _depth: int) -> Expression:
        value = field(node, "value", dict)
        constant = scalar(value)
        if constant is None:
            return Unknown(f"a constant of type {field(field(value, 'type', dict), 'id', str)}")
        return Constant(constant)

    def comparison(self, node: Node, depth: int) -> Expression:
        left, right = self.member(node, "left", depth), self.member(node, "right", depth)
        comparison_type = field(node, "type", str)
        if (operator := _COMPARISONS.get(comparison_type)) is None:
            return Unknown(f"comparison {comparison_type}")
        return _compare(operator, left, right, field(node, "left", dict), field(node, "right", dict))

    def conjunction(self, node: Node, depth: int) -> Expression:
        children = self.members(node, "children", depth, at_least=1)
        match field(node, "type", str):
            case "CONJUNCTION_AND":
                return And(children)
            case "CONJUNCTION_OR":
                return Or(children)
            case other:
                return Unknown(f"conjunction {other}")

    def between(self, node: Node, depth: int) -> Expression:
        tested = self.member(node, "input", depth)
        above = ComparisonOperator.GREATER_OR_EQUAL
        below = ComparisonOperator.LESS_OR_EQUAL
        if not field(node, "lower_inclusive", bool):
            above = ComparisonOperator.GREATER
        if not field(node, "upper_inclusive", bool):
            below = ComparisonOperator.LESS
        source = field(node, "input", dict)
        lower, upper = self.member(node, "lower", depth), self.member(node, "upper", depth)
        return And(
            (
                _compare(above, tested, lower, source, field(node, "lower", dict)),
                _compare(below, tested, upper, source, field(node, "upper", dict)),
            )
        )

    def operator(self, node: Node, depth: int) -> Expression:
        children = self.members(node, "children", depth, at_least=1)
        operator_type = field(node, "type", str)
        match operator_type, children:
            case "OPERATOR_NOT", (child,):
                return Not(child)
            case "OPERATOR_IS_NULL", (child,):
                return IsNull(child)
            case "OPERATOR_IS_NOT_NULL", (child,):
                return Not(IsNull(child))
            case "OPERATOR_COALESCE", _:
                return Coalesce(children)
            case "COMPARE_IN", (child, _, *_):
                return In(child, children[1:])
            case "COMPARE_NOT_IN", (child, _, *_):
                return Not(In(child, children[1:]))
            case (("OPERATOR_NOT" | "OPERATOR_IS_NULL" | "OPERATOR_IS_NOT_NULL"), _):
                raise InvalidRequestError(f"filter: {operator_type} has {len(children)} children, not 1")
            case (("COMPARE_IN" | "COMPARE_NOT_IN"), _):
                raise InvalidRequestError(f"filter: {operator_type} has no options")
            case _:
                return Unknown(f"operator {operator_type}")

    def cast(self, node: Node, depth: int) -> Expression:
        child = self.member(node, "child", depth)
        lenient = field(node, "try_cast", bool)
        spec = field(node, "return_type", dict)
        target = arrow_type(spec)
        if target is None or has_enum(spec):
            return Unknown(f"a cast to {field(spec, 'id', str)}")
        return Cast(child, target, lenient)

    def case(self, node: Node, depth: int) -> Expression:
        branches = tuple(
            (self.member(check, "when_expr", depth), self.member(check, "then_expr", depth))
            for check in nodes(node, "case_checks")
        )
        otherwise = self.member(node, "else_expr", depth)
        if not branches:
            raise InvalidRequestError("filter: a CASE has no branches")
        return Case(branches, otherwise)

    def function(self, node: Node, depth: int) -> Expression:
        name = field(node, "name", str)
        arguments = self.members(node, "children", depth)
        owner = field(node, "catalog_name", str)
        if owner not in {"", "system"}:
            return Unknown(f"function {name} of catalog {owner}")
        data = node.get("function_data")
        if name in _NAMED_ARGUMENTS or (isinstance(data, dict) and "lambda_expr" in data):
            return Unknown(f"function {name}, whose arguments are not all children")
        return Function(name, arguments)


_CLASSES: dict[str, Callable[[_Scope, Node, int], Expression]] = {
    "BOUND_COLUMN_REF": _Scope.column,
    "BOUND_CONSTANT": _Scope.constant,
    "BOUND_COMPARISON": _Scope.comparison,
    "BOUND_CONJUNCTION": _Scope.conjunction,
    "BOUND_BETWEEN": _Scope.between,
    "BOUND_OPERATOR": _Scope.operator,
    "BOUND_CAST": _Scope.cast,
    "BOUND_CASE": _Scope.case,
    "BOUND_FUNCTION": _Scope.function,
}
