"""What a query may consist of: rules over Spark's plans, written as JSON by Spark itself.

Two plans of a statement are checked. The one from the parser, before anything is resolved:
resolving already reads files and computes constants. And the analysed one, in which no name is left
that could mean something else. Both must consist of known parts; the names of tables are
looked up in the catalog by the caller.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from sparkport.errors import InvalidRequestError, NotFoundError, PermissionDeniedError
from sparkport.spark.query.allowed_functions import (
    FUNCTIONS,
    GENERATORS,
    REFUSED_FUNCTIONS,
    REFUSED_TABLE_FUNCTIONS,
    TABLE_FUNCTIONS,
)
from sparkport.spark.query.arguments import Node, Tree, check_arguments, trees
from sparkport.spark.query.plan_classes import (
    ANALYSIS,
    EXPRESSIONS,
    OPERATORS,
    UNRESOLVED,
    UNRESOLVED_VALUES,
    VALUES,
)

_RELATION = "org.apache.spark.sql.execution.datasources.LogicalRelation"
_UNRESOLVED_RELATION = f"{ANALYSIS}UnresolvedRelation"
_FUNCTION = f"{ANALYSIS}UnresolvedFunction"
_GENERATOR = f"{ANALYSIS}UnresolvedGenerator"
_TABLE_FUNCTION = f"{ANALYSIS}UnresolvedTableValuedFunction"
_BUILT_IN = ("system", "builtin")

_ATTRIBUTE = f"{EXPRESSIONS}AttributeReference"
_FILE_FIELDS = {"file_path", "file_modification_time"}  # of Spark's hidden column on the files of a table
_PYTHON = f"{EXPRESSIONS}PythonUDF"
_STATIC_CALL = f"{EXPRESSIONS}objects.StaticInvoke"
# With it the analysis pads the values of CHAR columns; nothing in SQL is written so.
_PADDING = "org.apache.spark.sql.catalyst.util.CharVarcharCodegenUtils"


def check_parsed(plan: Any, own_functions: Collection[str]) -> int:  # noqa: ANN401  (JSON)
    """Make sure that a parsed statement is a query; return how often it names a table.

    Raises InvalidRequestError for what is no query, NotFoundError for functions that nobody knows,
    and PermissionDeniedError for parts that are refused.
    """
    if not _is_query(plan[0]["class"]):
        raise _no_query(plan[0]["class"])
    tables = 0
    for tree in _trees(plan):
        kind = tree.node["class"]
        if kind in (_FUNCTION, _GENERATOR, _TABLE_FUNCTION):
            _check_call(tree, own_functions)
        if not (_is_query(kind) or kind in VALUES or kind in UNRESOLVED_VALUES):
            raise _refusal(kind)
        tables += kind == _UNRESOLVED_RELATION
    return tables


def check_analysed(
    plan: Any,  # noqa: ANN401  (JSON)
    tables: Collection[tuple[str, ...]],
    own_functions: Collection[str],
) -> None:
    """Make sure that an analysed query reads these tables only and consists of known parts.

    Raises PermissionDeniedError.
    """
    for tree in _trees(plan):
        node, kind = tree.node, tree.node["class"]
        if kind == _RELATION:
            if _identifier(node) not in tables:
                raise PermissionDeniedError("query reads tables of the warehouse only")
        elif kind == _ATTRIBUTE and _tells_of_files(node.get("dataType")):
            raise PermissionDeniedError(f"query does not allow Spark's own column '{node.get('name')}'")
        elif not (kind in OPERATORS or kind in VALUES or _is_known_call(node, own_functions)):
            raise _refusal(kind)


def _is_known_call(node: Node, own_functions: Collection[str]) -> bool:
    if node["class"] == _PYTHON:
        return str(node.get("name")).lower() in own_functions
    return node["class"] == _STATIC_CALL and str(node.get("staticObject")) == _PADDING


def _trees(value: Any) -> Iterator[Tree]:  # noqa: ANN401  (JSON)
    """Yield all nodes of a plan, those inside expressions and subqueries too."""
    waiting = [value]
    while waiting:
        match waiting.pop():
            case [{"class": _, "num-children": _}, *_] as nodes:
                yield from trees(nodes)
                for node in nodes:
                    waiting.extend(node.values())
            case {"class": _, "num-children": _} as node:
                yield from trees([node])
                waiting.extend(node.values())
            case dict() as fields:
                waiting.extend(fields.values())
            case list() as several:
                waiting.extend(several)


def _check_call(tree: Tree, own_functions: Collection[str]) -> None:
    node, kind = tree.node, tree.node["class"]
    name = node["name"] if kind != _FUNCTION else node["nameParts"]
    if kind == _GENERATOR:
        allowed, refused = GENERATORS, REFUSED_FUNCTIONS
        *path, last = [part for part in (name.get("catalog"), name.get("database"), name["funcName"]) if part]
    else:
        is_table = kind == _TABLE_FUNCTION
        allowed = TABLE_FUNCTIONS if is_table else FUNCTIONS | frozenset(own_functions)
        refused = REFUSED_TABLE_FUNCTIONS if is_table else REFUSED_FUNCTIONS
        *path, last = str(name).removeprefix("[").removesuffix("]").split(", ")
    last = last.lower()
    if last in refused:
        raise PermissionDeniedError(f"query does not allow the function '{last}': {refused[last]}")
    if last not in allowed or node.get("isInternal"):
        raise NotFoundError("function", last, allowed)
    if path and tuple(part.lower() for part in path) not in (_BUILT_IN, _BUILT_IN[1:]):
        raise PermissionDeniedError(
            "query does not allow functions of a catalog: leave out what is before the dot"
        )
    check_arguments(last, tree.children)


def _tells_of_files(kind: Any) -> bool:  # noqa: ANN401  (JSON)
    fields = kind.get("fields", ()) if isinstance(kind, dict) else ()
    return {field.get("name") for field in fields} >= _FILE_FIELDS


def _identifier(node: Node) -> tuple[str, ...]:
    table = node.get("catalogTable")
    found = table.get("identifier") if isinstance(table, dict) else None
    if not isinstance(found, dict):
        return ()
    return str(found.get("database")).lower(), str(found.get("table")).lower()


def _is_query(kind: str) -> bool:
    return kind in OPERATORS or kind in UNRESOLVED


def _refusal(kind: str) -> Exception:
    if kind.startswith((EXPRESSIONS, ANALYSIS)):
        return PermissionDeniedError(f"query does not allow this ({_simple(kind)})")
    return _no_query(kind)


def _no_query(kind: str) -> Exception:
    return InvalidRequestError(
        f"query takes one statement that only reads: SELECT, WITH, VALUES ({_simple(kind)})"
    )


def _simple(kind: str) -> str:
    return kind.rpartition(".")[2].rstrip("$")
