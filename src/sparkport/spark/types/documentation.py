"""What a plain Spark user sees of each type, and the table of it in the documentation."""

from __future__ import annotations

import pyarrow as pa

from sparkport.spark.types.codec import Pushdown
from sparkport.spark.types.registry import codec
from sparkport.spark.types.storage import sql_text


def describe(kind: pa.DataType) -> str:
    """Return what a plain Spark user sees in a column of this type."""
    return codec(kind).description


def markdown_table() -> str:
    """Return the Markdown table of the documentation."""
    lines = [
        "| Arrow | DuckDB | Spark stores | a Spark user sees | filters |",
        "|---|---|---|---|---|",
    ]
    for arrow, duckdb, kind in _ROWS:
        stored = codec(kind)
        spark, filters = sql_text(stored.spark), _filters(stored.pushdown)
        cells = (f"`{arrow}`", duckdb, f"`{spark}`", stored.description, filters)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _filters(pushdown: Pushdown) -> str:
    match pushdown:
        case Pushdown(order=True):
            return "equality, order"
        case Pushdown(equality=True):
            return "equality"
        case _:
            return "none"


def _opaque(name: str, storage: pa.DataType) -> pa.DataType:
    return pa.opaque(storage, name, "DuckDB")


_ROWS: tuple[tuple[str, str, pa.DataType], ...] = (
    ("null", "NULL", pa.null()),
    ("bool", "BOOLEAN", pa.bool_()),
    ("arrow.bool8", "BOOLEAN", pa.bool8()),
    ("int8", "TINYINT", pa.int8()),
    ("int16", "SMALLINT", pa.int16()),
    ("int32", "INTEGER", pa.int32()),
    ("int64", "BIGINT", pa.int64()),
    ("uint8", "UTINYINT", pa.uint8()),
    ("uint16", "USMALLINT", pa.uint16()),
    ("uint32", "UINTEGER", pa.uint32()),
    ("uint64", "UBIGINT", pa.uint64()),
    ("opaque hugeint", "HUGEINT", _opaque("hugeint", pa.binary(16))),
    ("opaque uhugeint", "UHUGEINT", _opaque("uhugeint", pa.binary(16))),
    ("opaque bignum", "BIGNUM", _opaque("bignum", pa.binary())),
    ("float16", "FLOAT", pa.float16()),
    ("float32", "FLOAT", pa.float32()),
    ("float64", "DOUBLE", pa.float64()),
    ("decimal(18, 3), up to 38 digits", "DECIMAL", pa.decimal128(18, 3)),
    ("decimal256(76, 0), more than 38 digits", "", pa.decimal256(76, 0)),
    ("utf8, large_utf8, utf8_view", "VARCHAR", pa.string()),
    ("dictionary of utf8", "ENUM", pa.dictionary(pa.uint8(), pa.string())),
    ("run_end_encoded of utf8", "VARCHAR", pa.run_end_encoded(pa.int32(), pa.string())),
    ("arrow.json", "JSON", pa.json_()),
    ("arrow.uuid", "UUID", pa.uuid()),
    ("binary, large_binary, binary_view", "BLOB", pa.binary()),
    ("fixed_size_binary[3]", "BLOB", pa.binary(3)),
    ("opaque bit", "BIT", _opaque("bit", pa.binary())),
    ("date32", "DATE", pa.date32()),
    ("date64", "DATE", pa.date64()),
    ("time32[s]", "TIME", pa.time32("s")),
    ("time32[ms]", "TIME", pa.time32("ms")),
    ("time64[us]", "TIME", pa.time64("us")),
    ("time64[ns]", "TIME_NS", pa.time64("ns")),
    ("opaque time_tz", "TIME WITH TIME ZONE", _opaque("time_tz", pa.binary(8))),
    ("timestamp[s]", "TIMESTAMP_S", pa.timestamp("s")),
    ("timestamp[ms]", "TIMESTAMP_MS", pa.timestamp("ms")),
    ("timestamp[us]", "TIMESTAMP", pa.timestamp("us")),
    ("timestamp[ns]", "TIMESTAMP_NS", pa.timestamp("ns")),
    ("timestamp[us, zone]", "TIMESTAMP WITH TIME ZONE", pa.timestamp("us", "UTC")),
    ("timestamp[ns, zone]", "TIMESTAMP WITH TIME ZONE", pa.timestamp("ns", "UTC")),
    ("duration[us]", "INTERVAL", pa.duration("us")),
    ("month_day_nano_interval", "INTERVAL", pa.month_day_nano_interval()),
    ("list, large_list, list_view of int32", "INTEGER[]", pa.list_(pa.int32())),
    ("fixed_size_list of int32", "INTEGER[3]", pa.list_(pa.int32(), 3)),
    ("struct", "STRUCT", pa.struct([("a", pa.int32()), ("b", pa.string())])),
    ("map", "MAP", pa.map_(pa.string(), pa.int32())),
    (
        "sparse_union, dense_union",
        "UNION",
        pa.sparse_union([pa.field("n", pa.int32()), pa.field("t", pa.string())]),
    ),
    ("other extension types", "as their storage", pa.opaque(pa.int32(), "shoe size", "anybody")),
)
