from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from sparkport.errors import InvalidRequestError
from sparkport.spark.delta.log.spark_fields import SparkField, struct_fields, struct_json
from sparkport.spark.types import UnsupportedTypeError, arrow_field, spark_field, storage_type
from tests.behaviour.samples import GEOMETRY, SAMPLES

LONG_ARRAY = {"type": "array", "elementType": "long", "containsNull": True}


def struct(*fields: tuple[str, Any]) -> dict[str, Any]:
    """Return Spark's JSON of a struct."""
    return struct_json(SparkField(name, kind) for name, kind in fields)


def column(kind: Any, **metadata: str) -> SparkField:
    """Return a nullable column."""
    return SparkField("c", kind, metadata=metadata)


@pytest.mark.parametrize("name", SAMPLES)
def test_every_field_comes_back(name: str) -> None:
    """A field that went through a Spark schema is the same in all details."""
    field = pa.field("c", SAMPLES[name].type, metadata={"owner": "me"})

    assert arrow_field(spark_field(field)).equals(field, check_metadata=True)


def test_geometry_keeps_its_metadata() -> None:
    """Extension types that are not registered here are field metadata, which is kept."""
    assert arrow_field(spark_field(GEOMETRY)).equals(GEOMETRY, check_metadata=True)


@pytest.mark.parametrize(
    ("kind", "spark_type"),
    [
        (pa.int64(), "long"),
        (pa.string(), "string"),
        (pa.decimal128(10, 2), "decimal(10,2)"),
        (pa.timestamp("us", "UTC"), "timestamp"),
        (pa.timestamp("us"), "timestamp_ntz"),
        (pa.list_(pa.int64()), LONG_ARRAY),
        (
            pa.map_(pa.string(), pa.date32()),
            {"type": "map", "keyType": "string", "valueType": "date", "valueContainsNull": True},
        ),
        (pa.struct([("a", pa.bool_())]), struct(("a", "boolean"))),
    ],
)
def test_plain_types_stay_plain(kind: pa.DataType, spark_type: Any) -> None:
    """What Spark's own type reads as needs no metadata."""
    assert spark_field(pa.field("c", kind)) == column(spark_type)


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.field("l", pa.int64())),
        pa.list_(pa.field("item", pa.int64(), nullable=False)),
        pa.struct([pa.field("a", pa.int8(), metadata={"k": "v"})]),
        pa.large_string(),
        pa.timestamp("us", "Europe/Paris"),
    ],
)
def test_all_else_is_kept_in_metadata(kind: pa.DataType) -> None:
    """Names of items, nullability and layouts that Spark has no word for are not lost."""
    field = pa.field("c", kind)

    assert list(spark_field(field).metadata) == ["sparkport.arrow"]
    assert arrow_field(spark_field(field)).equals(field, check_metadata=True)


def test_comments_and_defaults_are_under_keys_of_their_own() -> None:
    """Spark shows the comment; the default is DuckDB's SQL and not for Spark."""
    field = pa.field("c", pa.int32(), nullable=False, metadata={"comment": "größe", "default": "1 + 1"})

    stored = spark_field(field)

    metadata = {"comment": "größe", "sparkport.default": "1 + 1"}
    assert stored == SparkField("c", "integer", nullable=False, metadata=metadata)
    assert arrow_field(stored).equals(field, check_metadata=True)


def test_a_comment_changed_in_spark_is_seen() -> None:
    """The comment is not part of the exact field that is kept."""
    stored = spark_field(pa.field("c", pa.uint8(), metadata={"comment": "old"}))
    stored = replace(stored, metadata={**stored.metadata, "comment": "new"})

    assert arrow_field(stored).metadata == {b"comment": b"new"}
    assert arrow_field(stored).type == pa.uint8()


def test_the_default_of_a_plain_table_is_shown() -> None:
    """Where only Spark has a default, clients see that."""
    assert arrow_field(column("integer", CURRENT_DEFAULT="5")).metadata == {b"default": b"5"}


def test_a_renamed_column_keeps_its_type() -> None:
    """The name and the nullability are those of the Spark field."""
    stored = spark_field(pa.field("old", pa.uint8(), nullable=False))

    renamed = arrow_field(replace(stored, name="new", nullable=True))

    assert renamed == pa.field("new", pa.uint8())


def test_a_widened_column_is_plain() -> None:
    """Metadata that does not fit the column any more is ignored."""
    stored = spark_field(pa.field("c", pa.uint8(), metadata={"k": "v"}))

    widened = arrow_field(replace(stored, type="integer"))

    assert widened.equals(pa.field("c", pa.int32()), check_metadata=True)


def test_fields_of_a_struct_are_matched_by_name() -> None:
    """What is still stored as before keeps its exact type; what was added or renamed is plain."""
    exact = pa.list_(pa.struct([("a", pa.uint8()), ("b", pa.uint16())]))
    stored = spark_field(pa.field("c", exact))
    changed = {"type": "array", "elementType": struct(("new", "short"), ("b", "integer"), ("d", "long"))}

    expected = pa.list_(pa.struct([("new", pa.int16()), ("b", pa.uint16()), ("d", pa.int64())]))
    assert arrow_field(replace(stored, type=changed)).type == expected


def test_values_of_a_map_fall_back_alone() -> None:
    """A change of a map's values leaves the keys exact."""
    stored = spark_field(pa.field("c", pa.map_(pa.uint8(), pa.uint8())))
    changed = {"type": "map", "keyType": "short", "valueType": "long"}

    assert arrow_field(replace(stored, type=changed)).type == pa.map_(pa.uint8(), pa.int64())


def test_a_changed_union_is_a_plain_struct() -> None:
    """A union is stored as a struct; with other fields it is nothing but one."""
    union = pa.sparse_union([pa.field("n", pa.int64())])
    stored = spark_field(pa.field("c", union))
    changed = replace(stored, type=struct(("tag", "byte"), ("n", "long"), ("m", "long")))

    assert arrow_field(changed).type == pa.struct([("tag", pa.int8()), ("n", pa.int64()), ("m", pa.int64())])


def test_nullability_inside_does_not_matter() -> None:
    """Delta may store the nullability of what is nested either way."""
    stored = spark_field(pa.field("c", pa.list_(pa.uint8())))
    changed = {"type": "array", "elementType": "short", "containsNull": False}

    assert arrow_field(replace(stored, type=changed)).type == pa.list_(pa.uint8())


@pytest.mark.parametrize(
    ("spark_type", "kind"),
    [
        ("boolean", pa.bool_()),
        ("byte", pa.int8()),
        ("short", pa.int16()),
        ("integer", pa.int32()),
        ("long", pa.int64()),
        ("float", pa.float32()),
        ("double", pa.float64()),
        ("string", pa.string()),
        ("char(3)", pa.string()),
        ("varchar(3)", pa.string()),
        ("string collate UNICODE_CI", pa.string()),
        ("binary", pa.binary()),
        ("date", pa.date32()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestamp_ntz", pa.timestamp("us")),
        ("decimal(38,18)", pa.decimal128(38, 18)),
        ("time(6)", pa.time64("us")),
        ("interval day to second", pa.duration("us")),
        ("interval hour", pa.duration("us")),
        ("interval year to month", pa.month_day_nano_interval()),
        ("void", pa.null()),
        (LONG_ARRAY, pa.list_(pa.int64())),
        ({"type": "udt", "sqlType": "double"}, pa.float64()),
    ],
)
def test_plain_spark_types_have_their_usual_arrow_types(spark_type: Any, kind: pa.DataType) -> None:
    """Tables of others read as Spark itself gives them."""
    assert arrow_field(column(spark_type)).equals(pa.field("c", kind), check_metadata=True)


def test_months_are_stored_as_a_number() -> None:
    """Files hold Spark's year-month intervals as 32-bit integers."""
    assert storage_type("interval year to month") == pa.int32()


@pytest.mark.parametrize(
    "spark_type", ["variant", "interval", "geometry(4326)", {"type": "array", "elementType": "variant"}]
)
def test_an_unsupported_type_names_its_column(spark_type: Any) -> None:
    """The catalog can leave out the column and say which."""
    with pytest.raises(
        UnsupportedTypeError, match=r"column 'c' has type .*, which is not supported; cast it to another type"
    ) as caught:
        arrow_field(column(spark_type))

    assert caught.value.column == "c"


@pytest.mark.parametrize("damage", ["?", "AAAA", ""])
def test_damaged_metadata_names_its_column(damage: str) -> None:
    """A column whose exact type cannot be read is not passed off as another type."""
    with pytest.raises(UnsupportedTypeError, match="column 'c' has type unknown"):
        arrow_field(column("long", **{"sparkport.arrow": damage}))


def test_names_that_spark_cannot_tell_apart_are_refused() -> None:
    """Spark does not see the case of names inside a struct."""
    with pytest.raises(InvalidRequestError, match="fields 'a' and 'A', which Spark cannot tell apart"):
        spark_field(pa.field("c", pa.struct([("a", pa.int8()), ("A", pa.int8())])))


@pytest.mark.parametrize(
    ("names", "stored"),
    [(["n", "t"], ["tag", "n", "t"]), (["Tag", "x", "X", ""], ["tag", "Tag_0", "x", "X_2", "_3"])],
)
def test_members_of_a_union_get_names_of_their_own(names: list[str], stored: list[str]) -> None:
    """A member is named as in the union, unless Spark would take it for another."""
    union = pa.sparse_union([pa.field(name, pa.int64()) for name in names])

    fields = struct_fields(spark_field(pa.field("c", union)).type)

    assert [field.name for field in fields] == stored


def test_maps_as_keys_become_arrays() -> None:
    """Spark has no maps whose keys contain maps."""
    inner = pa.map_(pa.string(), pa.int64())
    key = {"type": "map", "keyType": "string", "valueType": "long", "valueContainsNull": True}

    stored = spark_field(pa.field("c", pa.map_(inner, pa.int8())))

    assert stored.type == {
        "type": "array",
        "elementType": struct(("key", key), ("value", "byte")),
        "containsNull": True,
    }


@pytest.mark.parametrize("make", [pa.list_, lambda inner: pa.struct([("m", inner)])])
def test_keys_that_contain_maps_become_arrays(make: Callable[[pa.DataType], pa.DataType]) -> None:
    """A map may be anywhere in the key."""
    stored = spark_field(pa.field("c", pa.map_(make(pa.map_(pa.string(), pa.int64())), pa.int8())))

    assert isinstance(stored.type, dict)
    assert stored.type["type"] == "array"


@pytest.mark.parametrize(
    ("kind", "spark_type"),
    [
        (pa.decimal128(5, -2), "decimal(7,0)"),
        (pa.decimal128(3, 5), "decimal(5,5)"),
        (pa.decimal256(38, 38), "decimal(38,38)"),
        (pa.decimal128(38, -1), "string"),
        (pa.decimal256(39, 0), "string"),
    ],
)
def test_decimals_fit_into_sparks(kind: pa.DataType, spark_type: str) -> None:
    """Spark's decimals have at most 38 digits and no negative scale; all else is text."""
    assert spark_field(pa.field("c", kind)).type == spark_type
