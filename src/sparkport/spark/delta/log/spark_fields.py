"""Fields of Spark schemas, as the `schemaString` of a log and Spark's own JSON have them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

SparkType: TypeAlias = "str | dict[str, Any]"
"""A type as in Spark's schema JSON: a word, or an object for what is nested."""


@dataclass(frozen=True, slots=True)
class SparkField:
    """A column, or a field of a struct. Others keep what they like in its metadata, which is preserved."""

    name: str
    type: SparkType
    nullable: bool = True
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> SparkField:
        """Return the field for JSON that Spark has written, or that `decode_struct` has checked."""
        return cls(raw["name"], raw["type"], raw["nullable"], raw.get("metadata") or {})

    def to_json(self) -> dict[str, Any]:
        """Return the field as Spark writes it."""
        return {
            "name": self.name,
            "type": self.type,
            "nullable": self.nullable,
            "metadata": dict(self.metadata),
        }


def struct_json(fields: Iterable[SparkField]) -> dict[str, Any]:
    """Return the struct type with these fields: as JSON text, the schema of a table."""
    return {"type": "struct", "fields": [field.to_json() for field in fields]}


def struct_fields(spark_type: SparkType) -> tuple[SparkField, ...]:
    """Return the fields of a struct type, and none for any other type."""
    match spark_type:
        case {"type": "struct", "fields": list() as fields}:
            return tuple(map(SparkField.from_json, fields))
        case _:
            return ()


def decode_struct(raw: object) -> tuple[SparkField, ...]:
    """Return the fields of a struct type after a check of all fields in it. Raises ValueError."""
    match raw:
        case {"type": "struct", "fields": list() as fields}:
            return tuple(map(_decode_field, fields))
        case _:
            raise ValueError("schemaString is not a struct")


def _decode_field(raw: object) -> SparkField:
    # There are many fields in a large warehouse, and patterns of dictionaries take their time.
    if (
        not isinstance(raw, dict)
        or not isinstance(name := raw.get("name"), str)
        or not isinstance(raw.get("nullable"), bool)
        or "type" not in raw
    ):
        raise ValueError("a field of schemaString has no name, type or nullability")
    metadata = raw.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        raise ValueError("the metadata of a field of schemaString is not an object")
    _check_type(raw["type"], name)
    return SparkField.from_json(raw)


def _check_type(raw: object, name: str) -> None:
    if isinstance(raw, str):
        return
    match raw:
        case {"type": "struct"}:
            decode_struct(raw)
        case {"type": "array", "elementType": element}:
            _check_type(element, name)
        case {"type": "map", "keyType": key, "valueType": value}:
            _check_type(key, name)
            _check_type(value, name)
        case _:
            raise ValueError(f"field {name!r} has no type")
