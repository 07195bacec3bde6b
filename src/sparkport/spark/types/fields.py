"""Columns: a field of a Spark schema for every Arrow field, and back."""

from __future__ import annotations

import base64
import binascii

import pyarrow as pa

from sparkport.spark.delta.log.spark_fields import SparkField, SparkType, struct_fields
from sparkport.spark.types.codec import NOTHING, Codec, Pushdown
from sparkport.spark.types.errors import UnsupportedTypeError
from sparkport.spark.types.registry import codec
from sparkport.spark.types.storage import is_year_month, shape, storage_type

ARROW_KEY = "sparkport.arrow"
"""Where a column's metadata keeps the exact Arrow field: base64 of a schema of that one field."""
DEFAULT_KEY = "sparkport.default"
"""Where a column's metadata keeps DuckDB's default, which Spark might not understand."""
_SPARK_DEFAULT = "CURRENT_DEFAULT"
_COMMENT = "comment"
_SHOWN = (b"comment", b"default")
_EXTENSION = b"ARROW:extension:name"


def spark_field(field: pa.Field) -> SparkField:
    """Return the field of a Spark schema that stores the Arrow field.

    Raises UnsupportedTypeError and InvalidRequestError as `codec` does.
    """
    shown = field.metadata or {}
    metadata = {
        key: shown[word].decode()
        for key, word in ((_COMMENT, b"comment"), (DEFAULT_KEY, b"default"))
        if word in shown
    }
    spark_type = codec_of(field).spark
    if not _is_plain(field, spark_type):
        metadata[ARROW_KEY] = _pack(field)
    return SparkField(field.name, spark_type, field.nullable, metadata)


def arrow_field(field: SparkField) -> pa.Field:
    """Return the Arrow field that clients see for a field of a Spark schema.

    It is the exact one as far as the column is still what that was stored as: somebody may have widened
    it, or changed the fields of a struct. Raises UnsupportedTypeError, with the column's name, for
    what Arrow has no type for.
    """
    metadata = field.metadata
    try:
        exact = _unpack(field)
        kind = _plain_type(field.type) if exact is None else _reconcile(exact.type, field.type)
    except UnsupportedTypeError as error:
        raise UnsupportedTypeError(error.kind, column=field.name) from error
    kept = dict(exact.metadata or {}) if exact is not None and kind == exact.type else {}
    if _COMMENT in metadata:
        kept[b"comment"] = metadata[_COMMENT].encode()
    default = metadata.get(DEFAULT_KEY, metadata.get(_SPARK_DEFAULT))
    if default is not None:
        kept[b"default"] = default.encode()
    return pa.field(field.name, kind, field.nullable or pa.types.is_null(kind), metadata=kept or None)


def codec_of(field: pa.Field) -> Codec:
    """Return the codec of a column. Raises what `codec` does, with the column's name."""
    try:
        return codec(field.type)
    except UnsupportedTypeError as error:
        raise UnsupportedTypeError(error.kind, column=field.name) from error


def pushable(field: pa.Field) -> Pushdown:
    """Return which comparisons of stored values give what DuckDB gets for the exact ones."""
    if field.metadata is not None and _EXTENSION in field.metadata:
        # An extension type that is not registered here: what its values mean is not known.
        return NOTHING
    return codec_of(field).pushdown


def _is_plain(field: pa.Field, spark_type: SparkType) -> bool:
    bare = _bare(field)
    return not bare.metadata and bool(bare.type.equals(storage_type(spark_type), check_metadata=True))


def _bare(field: pa.Field) -> pa.Field:
    """Return the field without what the Spark field says itself."""
    kept = {key: value for key, value in (field.metadata or {}).items() if key not in _SHOWN}
    return pa.field("", field.type, metadata=kept or None)


def _pack(field: pa.Field) -> str:
    return base64.b64encode(pa.schema([_bare(field)]).serialize()).decode()


def _unpack(field: SparkField) -> pa.Field | None:
    if ARROW_KEY not in field.metadata:
        return None
    try:
        data = base64.b64decode(field.metadata[ARROW_KEY], validate=True)
        return pa.ipc.read_schema(pa.py_buffer(data)).field(0)
    except (binascii.Error, TypeError, IndexError, OSError, pa.ArrowException) as error:
        raise UnsupportedTypeError(f"unknown ({ARROW_KEY} is damaged)", column=field.name) from error


def _plain_type(spark_type: SparkType) -> pa.DataType:
    """Return the Arrow type of a column that nobody described."""
    # DuckDB has one type for all intervals. Inside arrays Spark's months stay numbers.
    return pa.month_day_nano_interval() if is_year_month(spark_type) else storage_type(spark_type)


def _reconcile(exact: pa.DataType, spark_type: SparkType) -> pa.DataType:
    """Return the exact type where values are still stored as it says, and the plain one elsewhere."""
    if shape(codec(exact).spark) == shape(spark_type):
        return exact
    if isinstance(spark_type, str):
        return _plain_type(spark_type)
    match spark_type:
        case {"type": "struct"} if isinstance(exact, pa.StructType):
            return pa.struct([_reconcile_member(exact, member) for member in struct_fields(spark_type)])
        case {"type": "array", "elementType": item} if isinstance(exact, pa.ListType | pa.LargeListType):
            make = pa.list_ if isinstance(exact, pa.ListType) else pa.large_list
            return make(exact.value_field.with_type(_reconcile(exact.value_type, item)))
        case {"type": "map", "keyType": key, "valueType": value} if isinstance(exact, pa.MapType):
            return pa.map_(
                exact.key_field.with_type(_reconcile(exact.key_type, key)),
                exact.item_field.with_type(_reconcile(exact.item_type, value)),
            )
    return _plain_type(spark_type)


def _reconcile_member(exact: pa.DataType, member: SparkField) -> pa.Field:
    at = exact.get_field_index(member.name)
    if at < 0:
        return pa.field(member.name, storage_type(member.type))
    return exact.field(at).with_type(_reconcile(exact.field(at).type, member.type))
