"""Column mapping: the names that columns have in files, statistics and partition values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sparkport.errors import NotFoundError
from sparkport.spark.delta.actions import Metadata

_PHYSICAL_NAME = "delta.columnMapping.physicalName"
_ID = "delta.columnMapping.id"


def mapping_mode(metadata: Metadata) -> str:
    """Return how columns are found in files: `none`, `name` or `id`."""
    return metadata.configuration.get("delta.columnMapping.mode", "none").lower()


def physical_name(field: Mapping[str, Any], mode: str) -> str:
    """Return the name of a field of the table's schema in its files."""
    details = field.get("metadata") or {}
    return str(field["name"] if mode == "none" else details.get(_PHYSICAL_NAME, field["name"]))


def field_id(field: Mapping[str, Any], mode: str) -> int | None:
    """Return the Parquet field id of a field, or None if columns go by name."""
    return column_id(field) if mode == "id" else None


def column_id(field: Mapping[str, Any]) -> int | None:
    """Return the number of a field, which files carry however columns are number; None without mapping."""
    number = (field.get("metadata") or {}).get(_ID)
    return None if number is None else int(number)


def physical_path(metadata: Metadata, names: Sequence[str]) -> tuple[str, ...]:
    """Return the physical names of a column, or of a field of structs in it."""
    mode = mapping_mode(metadata)
    kind: Any = metadata.schema
    path: list[str] = []
    for name in names:
        fields = kind.get("fields") if isinstance(kind, dict) else None
        field = next((field for field in fields or () if field["name"] == name), None)
        if field is None:
            raise NotFoundError("column", ".".join(names), [str(other["name"]) for other in fields or ()])
        path.append(physical_name(field, mode))
        kind = field["type"]
    return tuple(path)
