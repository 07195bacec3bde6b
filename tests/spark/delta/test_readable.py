"""Which tables need no Spark SQL to be read, and how columns are found in files."""

from __future__ import annotations

import pytest

from sparkport.errors import NotFoundError
from sparkport.spark.delta.log.actions import Metadata, Protocol
from sparkport.spark.delta.log.spark_fields import SparkField, SparkType, struct_json
from sparkport.spark.delta.mapping import field_id, physical_name, physical_path
from sparkport.spark.delta.readable import unreadable_reason


def column(kind: SparkType, **details: object) -> SparkField:
    """Return the column `a` of a schema."""
    return SparkField("a", kind, metadata=details)


def table(*fields: SparkField, **configuration: str) -> Metadata:
    """Return the metadata of a table."""
    return Metadata("id", None, None, fields, configuration=configuration)


def widened(old: str, new: str) -> SparkField:
    """Return a column whose type changed."""
    return column(new, **{"delta.typeChanges": [{"fromType": old, "toType": new}]})


@pytest.mark.parametrize(
    "protocol",
    [
        Protocol(1, 2),
        Protocol(2, 5),
        Protocol(3, 7, frozenset({"deletionVectors", "columnMapping", "timestampNtz", "v2Checkpoint"})),
        Protocol(3, 7, frozenset({"typeWidening-preview", "vacuumProtocolCheck"}), frozenset({"unheardOf"})),
    ],
)
def test_known_features_are_readable(protocol: Protocol) -> None:
    """Features of writers never matter."""
    assert unreadable_reason(protocol, table(column("long"))) is None


@pytest.mark.parametrize(
    ("protocol", "reason"),
    [
        (Protocol(4, 7), "the table needs reader version 4"),
        (Protocol(3, 7, frozenset({"catalogManaged"})), "the table uses the reader feature catalogManaged"),
        (Protocol(3, 7, frozenset({"z", "b"})), "the table uses the reader feature b, z"),
    ],
)
def test_unknown_features_are_named(protocol: Protocol, reason: str) -> None:
    """What must be understood and is not is left to Spark."""
    assert unreadable_reason(protocol, table(column("long"))) == reason


@pytest.mark.parametrize(
    "kind",
    [
        "decimal(38,18)",
        "timestamp_ntz",
        {"type": "array", "elementType": "string", "containsNull": True},
        {"type": "map", "keyType": "string", "valueType": struct_json([column("date")])},
    ],
)
def test_known_types_are_readable(kind: SparkType) -> None:
    """All of Delta's types but those that Arrow does not know."""
    assert unreadable_reason(Protocol(1, 2), table(column(kind))) is None


@pytest.mark.parametrize(
    ("kind", "named"),
    [
        ("variant", "variant"),
        ("void", "void"),
        ({"type": "array", "elementType": "variant", "containsNull": True}, "variant"),
        (struct_json([column("geometry(4326)")]), "geometry(4326)"),
        ({"type": "map", "keyType": "string", "valueType": "interval"}, "interval"),
        ({"type": "udt", "class": "x"}, "udt"),
    ],
)
def test_unknown_types_are_named(kind: SparkType, named: str) -> None:
    """A column of an unknown type is found at any depth."""
    assert unreadable_reason(Protocol(1, 2), table(column(kind))) == f"column 'a' has the type {named}"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("byte", "long"),
        ("integer", "double"),
        ("float", "double"),
        ("date", "timestamp_ntz"),
        ("short", "decimal(10,0)"),
        ("long", "decimal(20,0)"),
        ("decimal(5,2)", "decimal(8,4)"),
    ],
)
def test_widened_types_are_readable(old: str, new: str) -> None:
    """The type changes that the protocol allows can be cast."""
    assert unreadable_reason(Protocol(1, 2), table(widened(old, new))) is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("long", "integer"),
        ("long", "double"),
        ("integer", "string"),
        ("integer", "decimal(10,1)"),
        ("long", "decimal(19,0)"),
        ("decimal(5,2)", "decimal(6,4)"),
        ("string", "decimal(20,0)"),
    ],
)
def test_other_type_changes_are_not(old: str, new: str) -> None:
    """A reader must refuse a change that it does not know."""
    reason = f"column 'a' changed its type from {old} to {new}"

    assert unreadable_reason(Protocol(1, 2), table(widened(old, new))) == reason


def test_unknown_mapping_and_collations_are_told() -> None:
    """Columns that are found or compared in another way are left to Spark."""
    odd = table(column("long"), **{"delta.columnMapping.mode": "hash"})
    collated = table(column("string", __COLLATIONS={"a": "UNICODE"}))

    assert unreadable_reason(Protocol(2, 5), odd) == "the table maps columns by hash"
    assert unreadable_reason(Protocol(1, 2), collated) == "column 'a' has a collation"


def test_physical_names_count_only_with_mapping() -> None:
    """Without column mapping a leftover physical name is no name."""
    field = column("long", **{"delta.columnMapping.physicalName": "col-1", "delta.columnMapping.id": 4})

    assert [physical_name(field, mode) for mode in ("none", "name", "id")] == ["a", "col-1", "col-1"]
    assert [field_id(field, mode) for mode in ("none", "name", "id")] == [None, None, 4]


def test_path_of_a_nested_field_is_physical() -> None:
    """Each step of a path has its own physical name."""
    inner = column("long", **{"delta.columnMapping.physicalName": "col-2"})
    outer = column(struct_json([inner]), **{"delta.columnMapping.physicalName": "col-1"})
    metadata = table(outer, **{"delta.columnMapping.mode": "name"})

    assert physical_path(metadata, ["a", "a"]) == ("col-1", "col-2")
    with pytest.raises(NotFoundError, match="column 'b' not found"):
        physical_path(metadata, ["b"])
    with pytest.raises(NotFoundError, match=r"column 'a\.a\.a' not found"):
        physical_path(metadata, ["a", "a", "a"])
