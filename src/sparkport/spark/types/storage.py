"""Spark's types: their JSON form, and the Arrow type their values have in files and results."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import pyarrow as pa

from sparkport.spark.delta.log.spark_fields import SparkType
from sparkport.spark.types.errors import UnsupportedTypeError

_SIMPLE: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ltz": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "void": pa.null(),
}
_SQL_WORDS = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_TEXT = re.compile(r"(char|varchar)\(\d+\)|string collate \w+", re.IGNORECASE)
_TIME = re.compile(r"time(\([0-6]\))?")
_DAY_TIME = re.compile(r"interval (day|hour|minute|second)( to (hour|minute|second))?")
_YEAR_MONTH = re.compile(r"interval (year|month)( to month)?")


def storage_type(spark_type: SparkType) -> pa.DataType:
    """Return the Arrow type of a Spark type's values; what is nested is nullable.

    Raises UnsupportedTypeError for VARIANT, calendar intervals, GEOMETRY and whatever comes next.
    """
    if isinstance(spark_type, str):
        return _leaf(spark_type)
    match spark_type["type"]:
        case "array":
            return pa.list_(storage_type(spark_type["elementType"]))
        case "map":
            return pa.map_(storage_type(spark_type["keyType"]), storage_type(spark_type["valueType"]))
        case "struct":
            return pa.struct([(field["name"], storage_type(field["type"])) for field in spark_type["fields"]])
        case "udt":
            return storage_type(spark_type["sqlType"])
        case other:
            raise UnsupportedTypeError(str(other))


def leaves(spark_type: SparkType) -> Iterator[str]:
    """Yield the types that a type is made of in the end."""
    if isinstance(spark_type, str):
        yield spark_type
        return
    members = [field["type"] for field in spark_type.get("fields", ())]
    inner = (spark_type.get(key) for key in ("elementType", "keyType", "valueType", "sqlType"))
    for member in (*members, *filter(None, inner)):
        yield from leaves(member)


def is_year_month(spark_type: SparkType) -> bool:
    """Return whether this is an interval of months, which files hold as a plain number."""
    if not isinstance(spark_type, str) or not spark_type.startswith("interval"):
        return False
    return _YEAR_MONTH.fullmatch(spark_type) is not None


def array_of(element: SparkType) -> SparkType:
    """Return the type of arrays."""
    return {"type": "array", "elementType": element, "containsNull": True}


def map_of(key: SparkType, value: SparkType) -> SparkType:
    """Return the type of maps."""
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}


def struct_of(fields: Iterable[tuple[str, SparkType]]) -> SparkType:
    """Return the type of structs; Delta refuses NOT NULL inside arrays and maps, so nothing has it."""
    members = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in fields]
    return {"type": "struct", "fields": members}


def shape(spark_type: SparkType) -> object:
    """Return a value that is equal for types whose values are stored alike.

    Nullability and metadata of what is nested do not matter, names do.
    """
    if isinstance(spark_type, str):
        return spark_type.replace(" ", "")
    match spark_type["type"]:
        case "array":
            return ("array", shape(spark_type["elementType"]))
        case "map":
            return ("map", shape(spark_type["keyType"]), shape(spark_type["valueType"]))
        case "struct":
            return ("struct", *((field["name"], shape(field["type"])) for field in spark_type["fields"]))
        case other:
            return (other, repr(spark_type))


def has_map(spark_type: SparkType) -> bool:
    """Return whether the type is a map or contains one; Spark refuses such types as keys of maps."""
    if isinstance(spark_type, str):
        return False
    match spark_type["type"]:
        case "map":
            return True
        case "array":
            return has_map(spark_type["elementType"])
        case _:
            return any(has_map(field["type"]) for field in spark_type.get("fields", ()))


def sql_text(spark_type: SparkType) -> str:
    """Return the type as Spark's SQL writes it."""
    if isinstance(spark_type, str):
        return _SQL_WORDS.get(spark_type, spark_type)
    match spark_type["type"]:
        case "array":
            return f"array<{sql_text(spark_type['elementType'])}>"
        case "map":
            return f"map<{sql_text(spark_type['keyType'])}, {sql_text(spark_type['valueType'])}>"
        case "struct":
            members = (f"{field['name']}: {sql_text(field['type'])}" for field in spark_type["fields"])
            return f"struct<{', '.join(members)}>"
        case other:
            return str(other)


def _leaf(word: str) -> pa.DataType:
    if word in _SIMPLE:
        return _SIMPLE[word]
    if found := _DECIMAL.fullmatch(word):
        return pa.decimal128(int(found[1]), int(found[2]))
    if _TEXT.fullmatch(word):
        return pa.string()
    if _TIME.fullmatch(word):
        return pa.time64("us")
    if _DAY_TIME.fullmatch(word):
        return pa.duration("us")
    if _YEAR_MONTH.fullmatch(word):
        return pa.int32()
    raise UnsupportedTypeError(word)
