"""Which tables can be read without Spark SQL."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from sparkport.spark.delta.features import Work, unsupported_features
from sparkport.spark.delta.log.actions import Metadata, Protocol
from sparkport.spark.delta.log.spark_fields import SparkField, SparkType, struct_fields

NEWEST_READER = 3
"""The newest reader version of the protocol: since then tables list features instead."""

_MAPPING_MODES = frozenset({"none", "name", "id"})
_PRIMITIVES = frozenset(
    {
        "string",
        "long",
        "integer",
        "short",
        "byte",
        "float",
        "double",
        "boolean",
        "binary",
        "date",
        "timestamp",
        "timestamp_ntz",
    }
)
_DECIMAL = re.compile(r"decimal\((\d+), *(-?\d+)\)")
_DECLARED = "__CHAR_VARCHAR_TYPE_STRING"
_CHAR = re.compile(r"\bchar\(")
_INTEGERS = ("byte", "short", "integer", "long")
_INTEGER_DIGITS = {"byte": 10, "short": 10, "integer": 10, "long": 20}  # that a decimal must have for them


def unreadable_reason(protocol: Protocol, metadata: Metadata) -> str | None:
    """Return why a table's files cannot be read by Arrow alone, or None if they can."""
    if protocol.min_reader > NEWEST_READER:
        return f"the table needs reader version {protocol.min_reader}"
    unknown = unsupported_features(protocol, Work.READ)
    if unknown:
        return f"the table uses the reader feature {', '.join(unknown)}"
    mode = metadata.configuration.get("delta.columnMapping.mode", "none").lower()
    if mode not in _MAPPING_MODES:
        return f"the table maps columns by {mode}"
    return _schema_reason(metadata.fields)


def has_padding(field: SparkField) -> bool:
    """Return whether a column is or contains a CHAR(n), which Spark fills up with spaces as it reads."""
    return _CHAR.search(field.metadata.get(_DECLARED, "")) is not None


def are_nested_plain(field: SparkField) -> bool:
    """Return whether all that is nested in a column may be NULL, and has types that Arrow can write."""
    if isinstance(field.type, str):
        return True
    inner = list(with_nested(_fields_within(field.type)))
    types = [field.type, *(nested.type for nested in inner)]
    return (
        all(nested.nullable for nested in inner)
        and all(map(_may_have_nulls, types))
        and all(_is_known(leaf) for kind in types for leaf in _leaves(kind))
    )


def _may_have_nulls(kind: SparkType) -> bool:
    """Return whether the elements of an array, and the values of a map, may be NULL at every depth."""
    match kind:
        case {"type": "array", "elementType": element, **more}:
            return bool(more.get("containsNull", True)) and _may_have_nulls(element)
        case {"type": "map", "keyType": key, "valueType": value, **more}:
            has_nulls = bool(more.get("valueContainsNull", True))
            return has_nulls and _may_have_nulls(key) and _may_have_nulls(value)
        case _:
            return True


def _schema_reason(fields: Iterable[SparkField]) -> str | None:
    for field in with_nested(fields):
        bad = next((kind for kind in _leaves(field.type) if not _is_known(kind)), None)
        if bad is not None:
            return f"column '{field.name}' has the type {bad}"
        if has_padding(field):
            return f"column '{field.name}' is padded with spaces"
        if "__COLLATIONS" in field.metadata:
            return f"column '{field.name}' has a collation"
        for change in field.metadata.get("delta.typeChanges") or ():
            old, new = str(change["fromType"]), str(change["toType"])
            if not _is_widening(old, new):
                return f"column '{field.name}' changed its type from {old} to {new}"
    return None


def with_nested(fields: Iterable[SparkField]) -> Iterator[SparkField]:
    """Yield fields and, after each, those of structs in it at every depth."""
    for field in fields:
        yield field
        yield from with_nested(_fields_within(field.type))


def _fields_within(spark_type: SparkType) -> Iterator[SparkField]:
    """Yield the fields of a struct, or of the structs that an array or map is made of."""
    match spark_type:
        case {"type": "array", "elementType": element}:
            yield from _fields_within(element)
        case {"type": "map", "keyType": key, "valueType": value}:
            yield from _fields_within(key)
            yield from _fields_within(value)
        case _:
            yield from struct_fields(spark_type)


def _leaves(kind: object) -> Iterator[str]:
    """Return the names of the types in a type, but for the fields of structs."""
    match kind:
        case {"type": "struct"}:
            return
        case {"type": "array", "elementType": element}:
            yield from _leaves(element)
        case {"type": "map", "keyType": key, "valueType": value}:
            yield from _leaves(key)
            yield from _leaves(value)
        case {"type": other}:
            yield str(other)
        case other:
            yield str(other)


def _is_known(kind: str) -> bool:
    return kind in _PRIMITIVES or _DECIMAL.fullmatch(kind) is not None


def _is_widening(old: str, new: str) -> bool:
    match old, new:
        case ("float", "double") | ("byte" | "short" | "integer", "double") | ("date", "timestamp_ntz"):
            return True
    if old in _INTEGERS and new in _INTEGERS:
        return _INTEGERS.index(old) <= _INTEGERS.index(new)
    wider = _DECIMAL.fullmatch(new)
    if wider is None:
        return False
    precision, scale = int(wider[1]), int(wider[2])
    if old in _INTEGER_DIGITS:
        return precision - scale >= _INTEGER_DIGITS[old]
    narrower = _DECIMAL.fullmatch(old)
    if narrower is None:
        return False
    more_scale = scale - int(narrower[2])
    return more_scale >= 0 and precision - int(narrower[1]) >= more_scale
