"""What a query may consist of: rules over Spark's plans, written as JSON by Spark itself.

Two plans of a statement are checked. The one from the parser, before anything is resolved:
resolving already reads files and computes constants. And the analysed one, in which no name is left
that could mean something else. Both must consist of known parts; the names of tables are
looked up in the catalog by the caller.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from sparkport.errors import InvalidRequestError, PermissionDeniedError

Node = Mapping[str, Any]

_CATALYST = "org.apache.spark.sql.catalyst."
_PLANS = f"{_CATALYST}plans.logical."
_ANALYSIS = f"{_CATALYST}analysis."
_EXPRESSIONS = f"{_CATALYST}expressions."
_RELATION = "org.apache.spark.sql.execution.datasources.LogicalRelation"

_QUERY_NODES = frozenset(
    _PLANS + name
    for name in (
        "Aggregate",
        "CTERelationDef",
        "CTERelationRef",
        "Distinct",
        "Except",
        "Expand",
        "Filter",
        "Generate",
        "GlobalLimit",
        "Intersect",
        "Join",
        "LateralJoin",
        "LocalLimit",
        "LocalRelation",
        "Offset",
        "OneRowRelation",
        "Pivot",
        "Project",
        "Range",
        "RebalancePartitions",
        "Repartition",
        "RepartitionByExpression",
        "ResolvedHint",
        "Sample",
        "Sort",
        "SubqueryAlias",
        "Union",
        "UnionLoop",
        "UnionLoopRef",
        "Unpivot",
        "UnresolvedHint",
        "Window",
        "WithCTE",
    )
)
_UNRESOLVED = frozenset(
    _ANALYSIS + name
    for name in (
        "GetViewColumnByNameAndOrdinal",
        "MultiAlias",
        "RelationTimeTravel",
        "UnresolvedAlias",
        "UnresolvedAttribute",
        "UnresolvedExtractValue",
        "UnresolvedFieldName",
        "UnresolvedFunction",
        "UnresolvedGenerator",
        "UnresolvedHaving",
        "UnresolvedInlineTable",
        "UnresolvedNamedLambdaVariable",
        "UnresolvedOrdinal",
        "UnresolvedRegex",
        "UnresolvedRelation",
        "UnresolvedStar",
        "UnresolvedStarExceptOrReplace",
        "UnresolvedSubqueryColumnAliases",
        "UnresolvedTVFAliases",
        "UnresolvedTableValuedFunction",
    )
)
_FUNCTIONS = {
    f"{_ANALYSIS}UnresolvedFunction": "nameParts",
    f"{_ANALYSIS}UnresolvedGenerator": "name",
    f"{_ANALYSIS}UnresolvedTableValuedFunction": "name",
}
# They call Java by name, read a file that an argument names, or tell where the server's files are and whose.
_REFUSED_FUNCTIONS = frozenset(
    {
        "input_file_name",
        "current_user",
        "session_user",
        "user",
        "reflect",
        "java_method",
        "try_reflect",
        "from_avro",
        "to_avro",
        "schema_of_avro",
        "from_protobuf",
        "to_protobuf",
    }
)
_TABLE_FUNCTIONS = frozenset(
    {
        "range",
        "explode",
        "explode_outer",
        "posexplode",
        "posexplode_outer",
        "inline",
        "inline_outer",
        "stack",
        "json_tuple",
        "variant_explode",
        "variant_explode_outer",
        "collations",
        "sql_keywords",
    }
)
_REFUSED_EXPRESSIONS = frozenset(
    _EXPRESSIONS + name
    for name in (
        "CallMethodViaReflection",
        "TryReflect",
        "ScalaUDF",
        "PythonUDAF",
        "PythonUDTF",
        "PythonUDF",
        "FromAvro",
        "ToAvro",
        "SchemaOfAvro",
        "FromProtobuf",
        "ToProtobuf",
        "VariableReference",
        "InputFileName",
        "CurrentUser",
    )
)
_ATTRIBUTE = f"{_EXPRESSIONS}AttributeReference"
_FILE_FIELDS = {"file_path", "file_modification_time"}  # of Spark's hidden column on the files of a table
_PYTHON = f"{_EXPRESSIONS}PythonUDF"


def check_parsed(plan: Any) -> int:  # noqa: ANN401  (JSON)
    """Make sure that a parsed statement is a query; return how often it names a table.

    Raises InvalidRequestError for what is no query, and PermissionDeniedError for parts that are refused.
    """
    if not _is_query(plan[0]["class"]):
        raise _no_query(plan[0]["class"])
    tables = 0
    for node in _nodes(plan):
        kind = node["class"]
        if kind in _FUNCTIONS:
            _check_function(node)
        if _is_query(kind):
            tables += kind == f"{_ANALYSIS}UnresolvedRelation"
        elif not kind.startswith(_EXPRESSIONS) or kind in _REFUSED_EXPRESSIONS:
            raise _refused(kind)
    return tables


def check_analysed(
    plan: Any,  # noqa: ANN401  (JSON)
    tables: Collection[tuple[str, ...]],
    python_functions: Collection[str],
) -> None:
    """Make sure that an analysed query reads these tables only and calls nothing it must not.

    Raises PermissionDeniedError.
    """
    for node in _nodes(plan):
        kind = node["class"]
        if kind == _RELATION:
            if _identifier(node) not in tables:
                raise PermissionDeniedError("query reads tables of the warehouse only")
        elif kind == _ATTRIBUTE and _tells_of_files(node.get("dataType")):
            raise PermissionDeniedError(f"query does not allow Spark's own column '{node.get('name')}'")
        elif kind == _PYTHON and str(node.get("name")).lower() in python_functions:
            pass  # the server's own
        elif kind in _REFUSED_EXPRESSIONS or not (kind in _QUERY_NODES or kind.startswith(_EXPRESSIONS)):
            raise _refused(kind)


def _nodes(value: Any) -> Iterator[Node]:  # noqa: ANN401  (JSON)
    """Yield all nodes of a plan, those inside expressions and subqueries too."""
    waiting = [value]
    while waiting:
        match waiting.pop():
            case dict() as found:
                if "class" in found:
                    yield found
                waiting.extend(found.values())
            case list() as several:
                waiting.extend(several)


def _check_function(node: Node) -> None:
    name = node[_FUNCTIONS[node["class"]]]
    # Of a generator it is an identifier, of the others a list written as text.
    last = str(name["funcName"] if isinstance(name, dict) else name).rpartition(", ")[2].strip("[]")
    if last.lower() in _REFUSED_FUNCTIONS:
        raise PermissionDeniedError(f"query does not allow the function '{last}'")
    if node["class"].endswith("TableValuedFunction") and last.lower() not in _TABLE_FUNCTIONS:
        raise PermissionDeniedError(f"query does not allow the table function '{last}'")


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
    return kind in _QUERY_NODES or kind in _UNRESOLVED


def _refused(kind: str) -> Exception:
    if kind.startswith((_EXPRESSIONS, _ANALYSIS)):
        return PermissionDeniedError(f"query does not allow this ({_simple(kind)})")
    return _no_query(kind)


def _no_query(kind: str) -> Exception:
    return InvalidRequestError(
        f"query takes one statement that only reads: SELECT, WITH, VALUES ({_simple(kind)})"
    )


def _simple(kind: str) -> str:
    return kind.rpartition(".")[2].rstrip("$")
