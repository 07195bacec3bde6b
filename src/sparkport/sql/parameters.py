"""Parameters of statements: which types they have, and their values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from sparkport.errors import InvalidRequestError
from sparkport.sql.syntax import Tree, nodes

_TYPES = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "UTINYINT": pa.uint8(),
    "USMALLINT": pa.uint16(),
    "UINTEGER": pa.uint32(),
    "UBIGINT": pa.uint64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "VARCHAR": pa.string(),
    "BLOB": pa.binary(),
    "DATE": pa.date32(),
    "TIME": pa.time64("us"),
    "TIMESTAMP": pa.timestamp("us"),
    "TIMESTAMP WITH TIME ZONE": pa.timestamp("us", "UTC"),
}
_UNKNOWN = pa.null()


def parameter_schema(tree: Tree, columns: Mapping[str, pa.DataType]) -> pa.Schema:
    """Return a field for each parameter of a query, of the type of what it is compared with or cast to.

    `columns` are the types of the columns of all tables in the query, by their lower-case names.
    """
    types: dict[str, pa.DataType] = {}
    identifiers: set[str] = set()
    for node in nodes(tree):
        if node.get("class") == "PARAMETER":
            identifiers.add(str(node["identifier"]))
        for parameter, kind in _hints(node, columns):
            types.setdefault(parameter, kind)
    return pa.schema([pa.field(name, types.get(name, _UNKNOWN)) for name in _ordered(identifiers)])


def value_rows(parameters: pa.RecordBatch | None, count: int) -> list[list[Any]]:
    """Return the values for each run of a statement. Raises InvalidRequestError for a wrong number."""
    given = 0 if parameters is None else parameters.num_columns
    if given != count:
        raise InvalidRequestError(f"the statement has {count} parameters, but {given} were given")
    if parameters is None or not count:
        return [[]]
    columns = [column.to_pylist() for column in parameters.columns]
    return [list(row) for row in zip(*columns, strict=True)]


def _ordered(identifiers: Iterable[str]) -> list[str]:
    """Return parameters in the order of their numbers."""
    if not all(identifier.isdecimal() for identifier in identifiers):
        raise InvalidRequestError("parameters have no names: write them as ? or $1")
    numbers = sorted(int(identifier) for identifier in identifiers)
    if numbers != list(range(1, len(numbers) + 1)):
        raise InvalidRequestError("parameters must be numbered from 1 without gaps")
    return [str(number) for number in numbers]


def _hints(node: Tree, columns: Mapping[str, pa.DataType]) -> Iterator[tuple[str, pa.DataType]]:
    """Yield the parameters among the parts of an expression, with the type that the others tell."""
    match node.get("class"):
        case "COMPARISON":
            parts = [node["left"], node["right"]]
        case "BETWEEN":
            parts = [node["input"], node["lower"], node["upper"]]
        case "OPERATOR" if node.get("type") in {"COMPARE_IN", "COMPARE_NOT_IN"}:
            parts = node["children"]
        case "CAST":
            kind = _cast_type(node["cast_type"])
            if kind is not None and node["child"].get("class") == "PARAMETER":
                yield str(node["child"]["identifier"]), kind
            return
        case _:
            return
    known = next((kind for part in parts if (kind := _column_type(part, columns)) is not None), None)
    if known is None:
        return
    for part in parts:
        if part.get("class") == "PARAMETER":
            yield str(part["identifier"]), known


def _column_type(part: Tree, columns: Mapping[str, pa.DataType]) -> pa.DataType | None:
    if part.get("class") == "COLUMN_REF":
        return columns.get(str(part["column_names"][-1]).lower())
    if part.get("class") == "CAST":
        return _cast_type(part["cast_type"])
    return None


def _cast_type(cast_type: Mapping[str, Any]) -> pa.DataType | None:
    info = cast_type.get("type_info") or {}
    if cast_type["id"] == "DECIMAL":
        return pa.decimal128(info.get("width", 18), info.get("scale", 3))
    return _TYPES.get(cast_type["id"])
