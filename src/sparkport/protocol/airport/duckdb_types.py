"""Read DuckDB's serialised types and values as Arrow types and scalars.

Where Arrow has no type of its own: HUGEINT and UHUGEINT are decimal256(39, 0), which no
DuckDB DECIMAL can be; ENUM is its text; JSON is `arrow.json`; BIT, BIGNUM and TIME WITH
TIME ZONE are `arrow.opaque` over the bytes that DuckDB itself exports. Infinite dates and
timestamps keep DuckDB's sentinel numbers. UNION, VARIANT and user-defined types have no
counterpart: the answer is None.
"""

from __future__ import annotations

import base64
import binascii
import re
import reprlib
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, TypeVar

import pyarrow as pa

from sparkport.errors import InvalidRequestError

MAX_DEPTH = 100
"""Deeper types, values and expressions are not understood; Python's stack is the reason."""

HUGEINT = pa.decimal256(39, 0)

_SIMPLE: dict[str, pa.DataType] = {
    "NULL": pa.null(),
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "UTINYINT": pa.uint8(),
    "USMALLINT": pa.uint16(),
    "UINTEGER": pa.uint32(),
    "UBIGINT": pa.uint64(),
    "HUGEINT": HUGEINT,
    "UHUGEINT": HUGEINT,
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "VARCHAR": pa.string(),
    "CHAR": pa.string(),
    "ENUM": pa.string(),
    "BLOB": pa.binary(),
    "BIT": pa.opaque(pa.binary(), "bit", "DuckDB"),
    "BIGNUM": pa.opaque(pa.binary(), "bignum", "DuckDB"),
    "UUID": pa.uuid(),
    "DATE": pa.date32(),
    "TIME": pa.time64("us"),
    "TIME_NS": pa.time64("ns"),
    "TIME WITH TIME ZONE": pa.opaque(pa.binary(8), "time_tz", "DuckDB"),
    "TIMESTAMP": pa.timestamp("us"),
    "TIMESTAMP_S": pa.timestamp("s"),
    "TIMESTAMP_MS": pa.timestamp("ms"),
    "TIMESTAMP_NS": pa.timestamp("ns"),
    "TIMESTAMP WITH TIME ZONE": pa.timestamp("us", tz="UTC"),
    "INTERVAL": pa.month_day_nano_interval(),
}
_NUMBERED = {
    "DATE": pa.int32(),
    "TIME": pa.int64(),
    "TIME_NS": pa.int64(),
    "TIMESTAMP": pa.int64(),
    "TIMESTAMP_S": pa.int64(),
    "TIMESTAMP_MS": pa.int64(),
    "TIMESTAMP_NS": pa.int64(),
    "TIMESTAMP WITH TIME ZONE": pa.int64(),
}
_ESCAPED_BYTE = re.compile(rb"\\x([0-9A-Fa-f]{2})")
_MAX_ARRAY_SIZE = 100_000
# Arrow gives a null ARRAY all its elements, so a short text could ask for much memory.
_MAX_NULL_ELEMENTS = 10_000
_INTERVAL_MICROS = range(-(2**63) // 1000 + 1, 2**63 // 1000)

Node = Mapping[str, object]
T = TypeVar("T")


def field(node: Node, key: str, json_type: type[T]) -> T:
    """Return the member `key`, which must be of the given JSON kind."""
    value = node.get(key)
    if isinstance(value, json_type) and not (json_type is int and isinstance(value, bool)):
        return value
    problem = "is missing" if key not in node else f"is not of type {json_type.__name__}"
    raise InvalidRequestError(f"filter: member '{key}' {problem} in {_shown(node)}")


def nodes(node: Node, key: str) -> list[Node]:
    """Return the member `key`, which must be a list of objects."""
    members = field(node, key, list)
    if all(isinstance(member, dict) for member in members):
        return members
    raise InvalidRequestError(f"filter: member '{key}' is not a list of objects in {_shown(node)}")


def has_enum(spec: Node) -> bool:
    """Return whether the type is an ENUM or contains one: those are ordered by position, not by text."""
    pending: list[object] = [spec]
    while pending:
        match pending.pop():
            case {"id": "ENUM"}:
                return True
            case dict() as members:
                pending.extend(members.values())
            case list() as members:
                pending.extend(members)
    return False


def arrow_type(spec: Node, depth: int = 0) -> pa.DataType | None:
    """Return the Arrow type of a DuckDB type, or None where there is none."""
    name = field(spec, "id", str)
    info = field(spec, "type_info", dict) if spec.get("type_info") is not None else {}
    if depth > MAX_DEPTH:
        return None
    if name == "VARCHAR" and info.get("alias") == "JSON":
        return pa.json_(pa.string())
    # A user-defined type, INET for one, may have its own casts.
    if info.get("alias") and name != "ENUM":
        return None
    if name == "DECIMAL":
        return _decimal_type(info)
    return _SIMPLE.get(name) or _nested_type(name, info, depth)


def scalar(value: Node) -> pa.Scalar[Any] | None:
    """Return a DuckDB value with its exact Arrow type, or None where there is no such type.

    Text that is not UTF-8 becomes a binary scalar.
    """
    try:
        array = _array(value, 0)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise InvalidRequestError(f"filter: no such constant, {_shown(value)}: {error}") from error
    return None if array is None else array[0]


def _shown(node: Node) -> str:
    # reprlib stops at a depth and length; the node may be as large and deep as the caller likes.
    return reprlib.repr(node)


def _decimal_type(info: Node) -> pa.DataType:
    width, scale = field(info, "width", int), field(info, "scale", int)
    if 1 <= width <= 38 and 0 <= scale <= width:  # noqa: PLR2004 (the limits of DECIMAL)
        return pa.decimal128(width, scale)
    raise InvalidRequestError(f"filter: there is no DECIMAL({width},{scale})")


def _nested_type(name: str, info: Node, depth: int) -> pa.DataType | None:
    match name:
        case "LIST" | "ARRAY" | "MAP":
            child = arrow_type(field(info, "child_type", dict), depth + 1)
            if child is None:
                return None
            if name == "ARRAY":
                return pa.list_(child, _array_size(info))
            return pa.list_(child) if name == "LIST" else _map_type(child)
        case "STRUCT":
            fields = []
            for member in nodes(info, "child_types"):
                child = arrow_type(field(member, "second", dict), depth + 1)
                if child is None:
                    return None
                fields.append(pa.field(field(member, "first", str), child))
            return pa.struct(fields)
        case _:
            return None


def _array_size(info: Node) -> int:
    size = field(info, "size", int)
    if 1 <= size <= _MAX_ARRAY_SIZE:
        return size
    raise InvalidRequestError(f"filter: an ARRAY cannot have {size} elements")


def _elements(data_type: pa.DataType) -> int:
    if isinstance(data_type, pa.FixedSizeListType):
        return int(data_type.list_size) * _elements(data_type.value_type)
    if isinstance(data_type, pa.StructType):
        return sum(_elements(child.type) for child in data_type)
    return 1


def _map_type(entry: pa.DataType) -> pa.DataType:
    if isinstance(entry, pa.StructType) and entry.num_fields == 2:  # noqa: PLR2004 (key and value)
        return pa.map_(entry.field(0).type, entry.field(1).type)
    raise InvalidRequestError(f"filter: a MAP has keys and values, not {entry}")


def _array(value: Node, depth: int) -> pa.Array[Any] | None:
    """Return the value as an array of one element: arrays compose, scalars do not."""
    spec = field(value, "type", dict)
    data_type = arrow_type(spec, depth)
    if data_type is None:
        return None
    if field(value, "is_null", bool):
        return pa.nulls(1, data_type) if _elements(data_type) <= _MAX_NULL_ELEMENTS else None
    name = field(spec, "id", str)
    if name == "NULL":
        raise InvalidRequestError("filter: a constant of type NULL is not null")
    if (leaf := _LEAVES.get(name)) is not None:
        return leaf(value, data_type)
    if name in _NUMBERED:
        return pa.array([field(value, "value", int)], _NUMBERED[name]).view(data_type)
    if name in {"LIST", "ARRAY", "STRUCT", "MAP"}:
        return _nested(value, data_type, depth)
    return pa.array([field(value, "value", int)], data_type)


def _nested(value: Node, data_type: pa.DataType, depth: int) -> pa.Array[Any] | None:
    members = []
    for node in nodes(field(value, "value", dict), "children"):
        member = _array(node, depth + 1)
        if member is None:
            return None
        members.append(member)
    if isinstance(data_type, pa.StructType):
        if [member.type for member in members] != [child.type for child in data_type]:
            raise InvalidRequestError(f"filter: the members of {_shown(value)} do not fit its type")
        return pa.StructArray.from_arrays(members, fields=list(data_type))
    if isinstance(data_type, pa.MapType):
        entry = pa.struct(
            [pa.field("key", data_type.key_type, nullable=False), pa.field("value", data_type.item_type)]
        )
        entries = [pa.StructArray.from_arrays(member.flatten(), fields=list(entry)) for member in members]
        joined = pa.concat_arrays(entries) if entries else pa.array([], entry)
        keys, items = joined.flatten()
        return pa.MapArray.from_arrays(pa.array([0, len(joined)], pa.int32()), keys, items)
    assert isinstance(data_type, pa.ListType | pa.FixedSizeListType)
    joined = pa.concat_arrays(members) if members else pa.array([], data_type.value_type)
    if joined.type != data_type.value_type:
        raise InvalidRequestError(f"filter: the elements of {_shown(value)} do not fit its type")
    if isinstance(data_type, pa.FixedSizeListType):
        if len(joined) != data_type.list_size:
            raise InvalidRequestError(f"filter: {len(joined)} elements in an ARRAY of {data_type.list_size}")
        return pa.FixedSizeListArray.from_arrays(joined, type=data_type)
    return pa.ListArray.from_arrays(pa.array([0, len(joined)], pa.int32()), joined, type=data_type)


def _boolean(value: Node, data_type: pa.DataType) -> pa.Array[Any]:
    return pa.array([field(value, "value", bool)], data_type)


def _float(value: Node, data_type: pa.DataType) -> pa.Array[Any]:
    number = value.get("value")
    return pa.array([float(number) if type(number) is int else field(value, "value", float)], data_type)


def _wide(value: Node) -> int:
    """Return a number sent as two halves, `upper` times 2^64 plus `lower`."""
    halves = field(value, "value", dict)
    upper, lower = field(halves, "upper", int), field(halves, "lower", int)
    unsigned = field(field(value, "type", dict), "id", str) == "UHUGEINT"
    limits = range(2**64) if unsigned else range(-(2**63), 2**63)
    if upper in limits and lower in range(2**64):
        return (upper << 64) + lower
    raise InvalidRequestError(f"filter: the halves of {_shown(value)} are out of range")


def _decimal(value: Node, data_type: pa.DataType) -> pa.Array[Any]:
    assert isinstance(data_type, pa.Decimal128Type | pa.Decimal256Type)
    number = _wide(value) if isinstance(value.get("value"), dict) else field(value, "value", int)
    digits = tuple(int(digit) for digit in str(abs(number)))
    # Built from its digits: decimal's arithmetic would round to the context's precision.
    return pa.array([Decimal((int(number < 0), digits, -data_type.scale))], data_type)


def _uuid(value: Node, data_type: pa.DataType) -> pa.Array[Any]:
    # DuckDB flips the top bit so that signed order is the order of UUIDs.
    number = (_wide(value) & (2**128 - 1)) ^ (1 << 127)
    assert isinstance(data_type, pa.BaseExtensionType)
    return pa.ExtensionArray.from_storage(data_type, pa.array([number.to_bytes(16, "big")], pa.binary(16)))


def _bytes(value: Node) -> bytes:
    content = value.get("value")
    if isinstance(content, dict):
        try:
            return base64.b64decode(field(content, "base64", str), validate=True)
        except binascii.Error as error:
            raise InvalidRequestError(f"filter: {_shown(content)} is not base64: {error}") from error
    return field(value, "value", str).encode()


def _text(value: Node, data_type: pa.DataType) -> pa.Array[Any]:
    if isinstance(value.get("value"), dict):
        return pa.array([_bytes(value)], pa.binary())
    text: pa.Array[Any] = pa.array([field(value, "value", str)], pa.string())
    return (
        pa.ExtensionArray.from_storage(data_type, text)
        if isinstance(data_type, pa.BaseExtensionType)
        else text
    )


def _enum(value: Node, data_type: pa.DataType) -> pa.Array[Any]:
    labels = field(field(field(value, "type", dict), "type_info", dict), "values", list)
    position = field(value, "value", int)
    if not (0 <= position < len(labels) and isinstance(labels[position], str)):
        raise InvalidRequestError(f"filter: an ENUM of {len(labels)} values has no value {position}")
    return pa.array([labels[position]], data_type)


def _blob(value: Node, data_type: pa.DataType) -> pa.Array[Any]:
    text = _bytes(value)
    return pa.array([_ESCAPED_BYTE.sub(lambda match: bytes.fromhex(match[1].decode()), text)], data_type)


def _opaque(value: Node, data_type: pa.DataType) -> pa.Array[Any]:
    assert isinstance(data_type, pa.BaseExtensionType)
    return pa.ExtensionArray.from_storage(data_type, pa.array([_bytes(value)], pa.binary()))


def _time_tz(value: Node, data_type: pa.DataType) -> pa.Array[Any]:
    assert isinstance(data_type, pa.BaseExtensionType)
    bits = (field(value, "value", int) & (2**64 - 1)).to_bytes(8, "little")
    return pa.ExtensionArray.from_storage(data_type, pa.array([bits], pa.binary(8)))


def _interval(value: Node, data_type: pa.DataType) -> pa.Array[Any] | None:
    parts = field(value, "value", dict)
    months, days, micros = (field(parts, key, int) for key in ("months", "days", "micros"))
    if micros not in _INTERVAL_MICROS:
        return None
    return pa.array([pa.MonthDayNano([months, days, micros * 1000])], data_type)


_LEAVES: dict[str, Callable[[Node, pa.DataType], pa.Array[Any] | None]] = {
    "BOOLEAN": _boolean,
    "FLOAT": _float,
    "DOUBLE": _float,
    "HUGEINT": _decimal,
    "UHUGEINT": _decimal,
    "DECIMAL": _decimal,
    "UUID": _uuid,
    "VARCHAR": _text,
    "CHAR": _text,
    "ENUM": _enum,
    "BLOB": _blob,
    "BIT": _opaque,
    "BIGNUM": _opaque,
    "TIME WITH TIME ZONE": _time_tz,
    "INTERVAL": _interval,
}
