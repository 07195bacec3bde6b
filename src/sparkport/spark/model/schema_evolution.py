"""The Spark schema of a table after an ALTER: what Delta and others have noted on columns stays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from sparkport.catalog.ddl import RenameField, TableChange
from sparkport.spark.model.columns import ROWID_KEY, rowid_spark_field
from sparkport.spark.types import ARROW_KEY, DEFAULT_KEY, spark_field

_SPARK_DEFAULT = "CURRENT_DEFAULT"
_COMMENT = "comment"

SparkField = dict[str, Any]


def evolved(
    spark_schema: Mapping[str, Any], old: pa.Schema, new: pa.Schema, change: TableChange
) -> tuple[dict[str, Any], bool]:
    """Return the Spark schema for the new columns, and whether stored values can stay as they are.

    The columns have no row id; the Spark schema keeps its own.
    """
    own = [field for field in spark_schema["fields"] if ROWID_KEY not in (field.get("metadata") or {})]
    hidden = [field for field in spark_schema["fields"] if ROWID_KEY in (field.get("metadata") or {})]
    stays = True
    fields: list[SparkField] = []
    gone = _removed(old, new)
    left = [(field, old.field(at)) for at, field in enumerate(own) if at != gone]
    for at, wanted in enumerate(new):
        if at >= len(left):
            fields.append(spark_field(wanted))
            continue
        stored, before = left[at]
        if wanted.equals(before, check_metadata=True):
            fields.append(stored)
        elif wanted.type == before.type:
            fields.append(_noted(stored, before, wanted))
        else:
            grafted = _with_fields(stored, wanted, change)
            stays = stays and grafted is not None
            fields.append(grafted or spark_field(wanted))
    if hidden:
        fields.append(_out_of_the_way(hidden[0], new))
    return {"type": "struct", "fields": fields}, stays


def bare(field: Mapping[str, Any]) -> SparkField:
    """Return a field without metadata, by which Spark would look for physical names in a staged file."""
    return {"name": field["name"], "type": field["type"], "nullable": True, "metadata": {}}


def _out_of_the_way(hidden: SparkField, new: pa.Schema) -> SparkField:
    """Return the column of the row ids under a name that no column of the user has."""
    if hidden["name"].lower() not in (name.lower() for name in new.names):
        return hidden
    return {**hidden, "name": rowid_spark_field(new)["name"]}


def _removed(old: pa.Schema, new: pa.Schema) -> int | None:
    if len(new) >= len(old):
        return None
    return next((at for at, name in enumerate(new.names) if name != old.names[at]), len(new))


def _noted(stored: SparkField, before: pa.Field, wanted: pa.Field) -> SparkField:
    """Return the column under another name, nullability, comment or default."""
    notes = dict(stored.get("metadata") or {})
    old, new = before.metadata or {}, wanted.metadata or {}
    if old.get(b"default") != new.get(b"default"):
        notes.pop(_SPARK_DEFAULT, None)
        _put(notes, DEFAULT_KEY, new.get(b"default"))
    if old.get(b"comment") != new.get(b"comment"):
        _put(notes, _COMMENT, new.get(b"comment"))
    return {**stored, "name": wanted.name, "nullable": wanted.nullable, "metadata": notes}


def _put(notes: dict[str, Any], key: str, value: bytes | None) -> None:
    if value is None:
        notes.pop(key, None)
    else:
        notes[key] = value.decode()


def _with_fields(stored: SparkField, wanted: pa.Field, change: TableChange) -> SparkField | None:
    """Return a struct column with other fields, or None if it is not stored as a struct."""
    if not isinstance(wanted.type, pa.StructType) or not isinstance(stored["type"], dict):
        return None
    fresh = spark_field(wanted)
    renamed = change.path[1:] if isinstance(change, RenameField) else ()
    new_name = change.new_name if isinstance(change, RenameField) else ""
    kind = _grafted(stored["type"], fresh["type"], renamed, new_name)
    if kind is None:
        return None
    notes = {key: value for key, value in stored["metadata"].items() if key != ARROW_KEY}
    if ARROW_KEY in fresh["metadata"]:
        notes[ARROW_KEY] = fresh["metadata"][ARROW_KEY]
    return {**stored, "type": kind, "metadata": notes}


def _grafted(
    stored: dict[str, Any],
    fresh: Any,  # noqa: ANN401  (JSON is untyped)
    renamed: tuple[str, ...],
    new_name: str,
) -> dict[str, Any] | None:
    """Return a fresh struct type whose fields are those that are stored, as far as they are the same."""
    if stored["type"] != "struct" or not isinstance(fresh, dict) or fresh["type"] != "struct":
        return None
    known = {field["name"].lower(): field for field in stored["fields"]}
    fields: list[SparkField] = []
    for field in fresh["fields"]:
        is_renamed = len(renamed) == 1 and field["name"] == new_name
        name = renamed[0].lower() if is_renamed else field["name"].lower()
        before = known.get(name)
        if before is None:
            fields.append(field)
            continue
        kind = before["type"]
        if isinstance(kind, dict) and kind["type"] == "struct":
            deeper = renamed[1:] if renamed and renamed[0].lower() == name else ()
            kind = _grafted(kind, field["type"], deeper, new_name)
            if kind is None:
                return None
        elif not isinstance(kind, dict) and isinstance(field["type"], dict):
            return None
        fields.append({**before, "name": field["name"], "type": kind})
    return {"type": "struct", "fields": fields}
