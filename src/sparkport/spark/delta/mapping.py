"""Column mapping: the names that columns have in files, statistics and partition values."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from sparkport.errors import NotFoundError
from sparkport.spark.delta.log.actions import Metadata
from sparkport.spark.delta.log.spark_fields import SparkField, SparkType, struct_fields, struct_json

_PHYSICAL_NAME = "delta.columnMapping.physicalName"
_ID = "delta.columnMapping.id"
_INNER_TYPES = ("elementType", "keyType", "valueType")


def mapping_mode(metadata: Metadata) -> str:
    """Return how columns are found in files: `none`, `name` or `id`."""
    return metadata.configuration.get("delta.columnMapping.mode", "none").lower()


def physical_name(field: SparkField, mode: str) -> str:
    """Return the name of a field of the table's schema in its files."""
    return field.name if mode == "none" else str(field.metadata.get(_PHYSICAL_NAME, field.name))


def field_id(field: SparkField, mode: str) -> int | None:
    """Return the Parquet field id of a field, or None if columns go by name."""
    return column_id(field) if mode == "id" else None


def column_id(field: SparkField) -> int | None:
    """Return the number of a field, which files carry in every mapping mode; None without mapping."""
    number = field.metadata.get(_ID)
    return None if number is None else int(number)


def physical_path(metadata: Metadata, names: Sequence[str]) -> tuple[str, ...]:
    """Return the physical names of a column, or of a field of structs in it."""
    mode = mapping_mode(metadata)
    fields = metadata.fields
    path: list[str] = []
    for name in names:
        field = next((field for field in fields if field.name == name), None)
        if field is None:
            raise NotFoundError("column", ".".join(names), [other.name for other in fields])
        path.append(physical_name(field, mode))
        fields = struct_fields(field.type)
    return tuple(path)


def mapped_fields(
    fields: Iterable[SparkField], name_in_files: Callable[[SparkField], str]
) -> tuple[list[SparkField], int]:
    """Return fields with a number and a name in files, as those in them; and the last number."""
    numbers = itertools.count(1)
    mapped = [_mapped(field, numbers, name_in_files) for field in fields]
    return mapped, next(numbers) - 1


def _mapped(
    field: SparkField, numbers: Iterator[int], name_in_files: Callable[[SparkField], str]
) -> SparkField:
    def inside(kind: SparkType) -> SparkType:
        if isinstance(kind, str):
            return kind
        if kind["type"] == "struct":
            return struct_json([_mapped(inner, numbers, name_in_files) for inner in struct_fields(kind)])
        return {key: inside(value) if key in _INNER_TYPES else value for key, value in kind.items()}

    mapping = {_ID: next(numbers), _PHYSICAL_NAME: name_in_files(field)}
    return replace(field, type=inside(field.type), metadata={**field.metadata, **mapping})
