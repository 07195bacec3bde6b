"""Columns that a query passes on as they are: they keep the exact Arrow types of their tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from sparkport.sql.syntax import Tree

Tables = Mapping[tuple[str, str], pa.Schema]
_Source = tuple[str, pa.Schema | None]
_STAR_CHANGES = ("exclude_list", "replace_list", "rename_list", "qualified_exclude_list", "expr", "columns")


def exact_schema(tree: Tree, produced: pa.Schema, tables: Tables) -> pa.Schema:
    """Return the columns of a query, those of DuckDB with the types of the tables where they are known."""
    names = _unique(produced.names)
    types = _passed_on(tree["statements"][0]["node"], tables)
    if types is None or len(types) != len(produced):
        types = [None] * len(produced)
    return pa.schema(
        [pa.field(name, kind or field.type) for name, kind, field in zip(names, types, produced, strict=True)]
    )


def _unique(names: list[str]) -> list[str]:
    """Return names of which no two are the same: Arrow's readers look columns up by name."""
    seen: set[str] = set()
    unique = []
    for name in names:
        candidate, number = name, 0
        while candidate.lower() in seen:
            number += 1
            candidate = f"{name}_{number}"
        seen.add(candidate.lower())
        unique.append(candidate)
    return unique


def _passed_on(node: Tree, tables: Tables) -> list[pa.DataType | None] | None:
    """Return the type of each column that is passed on, None for others; None if they cannot be counted."""
    if node["type"] != "SELECT_NODE":
        return None
    sources = _sources(node["from_table"], tables)
    types: list[pa.DataType | None] = []
    for part in node["select_list"]:
        if part["class"] == "STAR":
            _, columns = sources[0]
            if len(sources) != 1 or columns is None or any(part.get(key) for key in _STAR_CHANGES):
                return None
            types.extend(columns.types)
        elif part["class"] == "COLUMN_REF":
            types.append(_column(part["column_names"], sources))
        else:
            types.append(None)
    return types


def _sources(table: Tree, tables: Tables) -> list[_Source]:
    """Return the tables in FROM by their aliases, without columns where these are not a table's own."""
    if table["type"] == "JOIN":
        return [*_sources(table["left"], tables), *_sources(table["right"], tables)]
    alias = str(table.get("alias") or table.get("table_name") or "").lower()
    if table["type"] != "BASE_TABLE" or table["column_name_alias"]:
        return [(alias, None)]
    found = [
        columns
        for (schema, name), columns in tables.items()
        if name == table["table_name"].lower() and table["schema_name"].lower() in {"", schema}
    ]
    return [(alias, found[0] if len(found) == 1 else None)]


def _column(names: list[str], sources: list[_Source]) -> pa.DataType | None:
    name, qualifier = names[-1].lower(), names[-2].lower() if len(names) > 1 else None
    candidates: list[Any] = []
    for alias, columns in sources:
        if qualifier not in {None, alias}:
            continue
        if columns is None:
            return None
        candidates += [field.type for field in columns if field.name.lower() == name]
    return candidates[0] if len(candidates) == 1 else None
