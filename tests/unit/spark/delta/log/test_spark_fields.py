"""Fields of Spark schemas: their JSON, and what is checked in it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkport.spark.delta.log.spark_fields import (
    SparkField,
    SparkType,
    decode_struct,
    struct_fields,
    struct_json,
)

NAMES = st.text(max_size=5)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=5,
)


def fields(types: st.SearchStrategy[SparkType]) -> st.SearchStrategy[SparkField]:
    """Return fields with any name and metadata."""
    return st.builds(SparkField, NAMES, types, st.booleans(), st.dictionaries(NAMES, JSON, max_size=3))


def nested(types: st.SearchStrategy[SparkType]) -> st.SearchStrategy[SparkType]:
    """Return structs, arrays and maps of types."""
    return (
        st.lists(fields(types), max_size=3).map(struct_json)
        | st.builds(
            lambda item, null: {"type": "array", "elementType": item, "containsNull": null},
            types,
            st.booleans(),
        )
        | st.builds(lambda key, value: {"type": "map", "keyType": key, "valueType": value}, types, types)
    )


TYPES = st.recursive(st.sampled_from(["long", "string", "decimal(10,2)"]), nested, max_leaves=6)


@given(st.lists(fields(TYPES), max_size=4))
def test_schemas_come_back_from_their_json(schema: list[SparkField]) -> None:
    """Nothing of a type or of metadata is lost, whoever has put it there."""
    text = json.dumps(struct_json(schema))
    raw = json.loads(text)

    assert decode_struct(raw) == tuple(schema)
    assert struct_fields(raw) == tuple(schema)
    assert json.loads(json.dumps(struct_json(decode_struct(raw)))) == raw


@pytest.mark.parametrize("metadata", [{}, {"metadata": None}, {"metadata": {}}])
def test_metadata_may_be_missing(metadata: dict[str, Any]) -> None:
    """Some writers leave it out where it is empty."""
    raw = {"type": "struct", "fields": [{"name": "a", "type": "long", "nullable": False, **metadata}]}

    assert decode_struct(raw) == (SparkField("a", "long", nullable=False),)


def test_only_structs_have_fields() -> None:
    """What an array or a map is made of are no fields of it."""
    struct = struct_json([SparkField("a", "long")])

    assert struct_fields(struct) == (SparkField("a", "long"),)
    assert struct_fields("long") == ()
    assert struct_fields({"type": "array", "elementType": struct, "containsNull": True}) == ()


LACKING = "a field of schemaString has no name, type or nullability"


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ([], "schemaString is not a struct"),
        ({"type": "struct"}, "schemaString is not a struct"),
        ({"type": "struct", "fields": ["a"]}, LACKING),
        ({"type": "struct", "fields": [{"name": "a", "type": "long"}]}, LACKING),
        ({"type": "struct", "fields": [{"name": 1, "type": "long", "nullable": True}]}, LACKING),
        ({"type": "struct", "fields": [{"name": "a", "nullable": True}]}, LACKING),
        (
            {"type": "struct", "fields": [{"name": "a", "type": "long", "nullable": True, "metadata": []}]},
            "the metadata of a field of schemaString is not an object",
        ),
        ({"type": "struct", "fields": [{"name": "a", "type": 1, "nullable": True}]}, "field 'a' has no type"),
    ],
)
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_damage_is_found_at_every_depth(raw: Any, reason: str, depth: int) -> None:
    """A schema that Spark has not written is refused, before anybody relies on it."""
    for _ in range(depth):
        # At the top it is no struct; inside of another it is no type.
        if not isinstance(raw, dict):
            reason = "field 'outer' has no type"
        array = {"type": "array", "elementType": raw, "containsNull": True}
        raw = {"type": "struct", "fields": [{"name": "outer", "type": array, "nullable": True}]}

    with pytest.raises(ValueError, match=f"^{reason}$"):
        decode_struct(raw)
