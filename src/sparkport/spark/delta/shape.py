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
    # There are many fields in a large warehouse, and patterns of dictionaries take their time.
    if (
        not isinstance(field, dict)
        or not isinstance(name := field.get("name"), str)
        or not isinstance(field.get("nullable"), bool)
        or "type" not in field
    ):
        raise ValueError("a field of schemaString has no name, type or nullability")
    details = field.get("metadata")
    if details is not None and not isinstance(details, dict):
        raise ValueError("the metadata of a field of schemaString is not an object")
    _check_type(field["type"], name)


def _check_type(kind: object, name: str) -> None:
    if isinstance(kind, str):
        return
    match kind:
        case {"type": "struct"}:
            check_struct(kind)
        case {"type": "array", "elementType": element}:
            _check_type(element, name)
        case {"type": "map", "keyType": key, "valueType": value}:
            _check_type(key, name)
            _check_type(value, name)
        case _:
            raise ValueError(f"field {name!r} has no type")
