"""Columns on their way out: Arrow fields as the JSON dialect spells them."""

from __future__ import annotations

import pyarrow as pa

from sparkport.catalog.rowid import without_rowid
from sparkport.errors import InvalidRequestError

_EXTENSION_NAME = b"ARROW:extension:name"
_WKB = b"geoarrow.wkb"
_GEOMETRY = "extension<airport.geometry>"
_GEOMETRY_KEYS = (b"srid", b"geometry_type")


def describe_schema(arrow_schema: pa.Schema) -> dict[str, object]:
    """Return the `schema` object of a CreateTable; a row id is left to the server."""
    columns = without_rowid(arrow_schema)
    metadata = dict(columns.metadata or {})
    for field in columns:
        for key in _GEOMETRY_KEYS:
            if _is_geometry(field) and key in field.metadata:
                metadata.setdefault(field.name.encode() + b"." + key, field.metadata[key])
    try:
        texts = {key.decode(): value.decode() for key, value in metadata.items()}
    except UnicodeDecodeError as error:
        raise InvalidRequestError("the metadata of a schema is text") from error
    return {"fields": [describe(field) for field in columns], "metadata": texts}


def describe(field: pa.Field) -> dict[str, object]:
    """Return a field as an object; children as objects too, since any name is safe there."""
    description: dict[str, object] = {"name": field.name, "nullable": field.nullable}
    if _is_geometry(field):
        return {**description, "type": _GEOMETRY}
    word, children = _spelled(field.type)
    if children:
        description["fields"] = [describe(child) for child in children]
    return {**description, "type": word}


def _spelled(data_type: pa.DataType) -> tuple[str, list[pa.Field]]:
    """Return the word of a type and its children; without any, the word says it all."""
    match data_type:
        case pa.StructType():
            return "struct", _children(data_type)
        case pa.ListType():
            return "list", _children(data_type)
        case pa.LargeListType():
            return "large_list", _children(data_type)
        case pa.FixedSizeListType():
            return f"fixed_size_list[{data_type.list_size}]", _children(data_type)
        case pa.MapType():
            return "map", [data_type.key_field, data_type.item_field]
        case pa.UnionType() if list(data_type.type_codes) == list(range(data_type.num_fields)):
            return f"{data_type.mode}_union", _children(data_type)
        case pa.DictionaryType() if not data_type.ordered:
            return "dictionary", [
                pa.field("index", data_type.index_type),
                pa.field("value", data_type.value_type),
            ]
        case _:
            return str(data_type), []


def _children(data_type: pa.DataType) -> list[pa.Field]:
    return [data_type.field(index) for index in range(data_type.num_fields)]


def _is_geometry(field: pa.Field) -> bool:
    return bool((field.metadata or {}).get(_EXTENSION_NAME) == _WKB)
