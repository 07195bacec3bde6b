"""The Spark schema of a table after an ALTER, which keeps the metadata that others have set on columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from sparkport.catalog.ddl import RenameField, TableChange
from sparkport.spark.delta.log.spark_fields import SparkField, SparkType, struct_fields, struct_json
from sparkport.spark.model.columns import ROWID_KEY, rowid_spark_field
from sparkport.spark.types import ARROW_KEY, DEFAULT_KEY, spark_field

_SPARK_DEFAULT = "CURRENT_DEFAULT"
_COMMENT = "comment"


def evolve_schema(
    spark_fields: Sequence[SparkField], old: pa.Schema, new: pa.Schema, change: TableChange
) -> tuple[tuple[SparkField, ...], bool]:
    """Return the Spark fields for the new columns, and whether stored values can stay as they are.

    `old` and `new` have no row id; that of the Spark fields is kept.
    """
    own = [field for field in spark_fields if ROWID_KEY not in field.metadata]
    hidden = [field for field in spark_fields if ROWID_KEY in field.metadata]
    stays = True
    fields: list[SparkField] = []
    removed = _removed_index(old, new)
    kept = [(field, old.field(index)) for index, field in enumerate(own) if index != removed]
    for index, target in enumerate(new):
        if index >= len(kept):
            fields.append(spark_field(target))
            continue
        stored, before = kept[index]
        if target.equals(before, check_metadata=True):
            fields.append(stored)
        elif target.type == before.type:
            fields.append(_with_metadata_of(stored, before, target))
        else:
            merged = _with_fields(stored, target, change)
            stays = stays and merged is not None
            fields.append(merged or spark_field(target))
    if hidden:
        fields.append(_with_free_name(hidden[0], new))
    return tuple(fields), stays


def without_metadata(field: SparkField) -> SparkField:
    """Return a field without metadata, which would make Spark look for physical names in a staged file."""
    return SparkField(field.name, field.type)


def _with_free_name(hidden: SparkField, new: pa.Schema) -> SparkField:
    """Return the column of the row ids, renamed if a column of the user has its name."""
    if hidden.name.lower() not in (name.lower() for name in new.names):
        return hidden
    return replace(hidden, name=rowid_spark_field(new).name)


def _removed_index(old: pa.Schema, new: pa.Schema) -> int | None:
    if len(new) >= len(old):
        return None
    return next((index for index, name in enumerate(new.names) if name != old.names[index]), len(new))


def _with_metadata_of(stored: SparkField, before: pa.Field, target: pa.Field) -> SparkField:
    """Return the column with another name, nullability, comment or default."""
    metadata = dict(stored.metadata)
    old, new = before.metadata or {}, target.metadata or {}
    if old.get(b"default") != new.get(b"default"):
        metadata.pop(_SPARK_DEFAULT, None)
        _put(metadata, DEFAULT_KEY, new.get(b"default"))
    if old.get(b"comment") != new.get(b"comment"):
        _put(metadata, _COMMENT, new.get(b"comment"))
    return replace(stored, name=target.name, nullable=target.nullable, metadata=metadata)


def _put(metadata: dict[str, Any], key: str, value: bytes | None) -> None:
    if value is None:
        metadata.pop(key, None)
    else:
        metadata[key] = value.decode()


def _with_fields(stored: SparkField, target: pa.Field, change: TableChange) -> SparkField | None:
    """Return a struct column with other fields, or None if it is not stored as a struct."""
    if not isinstance(target.type, pa.StructType) or not isinstance(stored.type, dict):
        return None
    fresh = spark_field(target)
    renamed = change.path[1:] if isinstance(change, RenameField) else ()
    new_name = change.new_name if isinstance(change, RenameField) else ""
    spark_type = _merge_struct(stored.type, fresh.type, renamed, new_name)
    if spark_type is None:
        return None
    metadata = {key: value for key, value in stored.metadata.items() if key != ARROW_KEY}
    if ARROW_KEY in fresh.metadata:
        metadata[ARROW_KEY] = fresh.metadata[ARROW_KEY]
    return replace(stored, type=spark_type, metadata=metadata)


def _merge_struct(
    stored: SparkType, fresh: SparkType, renamed: tuple[str, ...], new_name: str
) -> SparkType | None:
    """Return the fresh struct type with the stored definition of every field that stays."""
    if not _is_struct(stored) or not _is_struct(fresh):
        return None
    by_name = {field.name.lower(): field for field in struct_fields(stored)}
    fields: list[SparkField] = []
    for field in struct_fields(fresh):
        is_renamed = len(renamed) == 1 and field.name == new_name
        name = renamed[0].lower() if is_renamed else field.name.lower()
        before = by_name.get(name)
        if before is None:
            fields.append(field)
            continue
        spark_type: SparkType | None = before.type
        if _is_struct(before.type):
            deeper = renamed[1:] if renamed and renamed[0].lower() == name else ()
            spark_type = _merge_struct(before.type, field.type, deeper, new_name)
        elif isinstance(before.type, str) and not isinstance(field.type, str):
            spark_type = None
        if spark_type is None:
            return None
        fields.append(replace(before, name=field.name, type=spark_type))
    return struct_json(fields)


def _is_struct(spark_type: SparkType) -> bool:
    return isinstance(spark_type, dict) and spark_type["type"] == "struct"
