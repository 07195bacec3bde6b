"""The shape of a schema in a log: Spark's JSON of a struct type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def check_struct(kind: object) -> Mapping[str, Any]:
    """Return a struct type whose fields at every depth are as Spark writes them. Raises ValueError."""
    match kind:
        case {"type": "struct", "fields": list() as fields}:
            for field in fields:
                _check_field(field)
            return {"type": "struct", "fields": fields}
        case _:
            raise ValueError("schemaString is not a struct")


def _check_field(field: object) -> None:
    match field:
        case {"name": str(), "type": _, "nullable": bool(), "metadata": details} if not isinstance(
            details, dict | None
        ):
            raise ValueError("the metadata of a field of schemaString is no object")
        case {"name": str(name), "type": kind, "nullable": bool()}:
            _check_type(kind, name)
        case _:
            raise ValueError("a field of schemaString has no name, type or nullability")


def _check_type(kind: object, name: str) -> None:
    match kind:
        case str():
            pass
        case {"type": "struct"}:
            check_struct(kind)
        case {"type": "array", "elementType": element}:
            _check_type(element, name)
        case {"type": "map", "keyType": key, "valueType": value}:
            _check_type(key, name)
            _check_type(value, name)
        case _:
            raise ValueError(f"field {name!r} has no type")
