"""Columns of many types with their storage, and random predicates over them."""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa

from sparkport.catalog.predicates import Expression
from sparkport.protocol.airport.predicates import decode
from sparkport.spark.predicates import ColumnTarget

NAN = float("nan")
INFINITY = float("inf")
NEW_YEAR = 1_704_067_200
HOUR = 3_600
TEXTS = ["", "a", "A", "ab", "abc", "a%b", "a_b", "a\\b", "%", "é", "日本", "a\nb", "🦆", "\u212a", "'"]
PATTERNS = [
    "%",
    "_",
    "",
    "a%",
    "%b",
    "%b%",
    "a_b",
    "_%",
    "(%",
    "%é%",
    "a%b%",
    "A%",
    "日_",
    "k",
    "ab_",
    "a\\%",
]
DOUBLES = [0.0, -0.0, 1.0, -1.5, 2.5, 1e300, -1e300, NAN, INFINITY, -INFINITY]
UUIDS = [
    "00000000-0000-0000-0000-000000000001",
    "7fffffff-ffff-ffff-ffff-ffffffffffff",
    "80000000-0000-0000-0000-000000000000",
]
HUGEINT = pa.opaque(pa.binary(16), "hugeint", "DuckDB")

Encode = Callable[[pa.Scalar], pa.Scalar | None]


def as_is(value: pa.Scalar) -> pa.Scalar:
    """Store a value as it is."""
    return value


def as_text(value: pa.Scalar) -> pa.Scalar:
    """Store a value as text."""
    text = str(uuid.UUID(bytes=value.value.as_py())) if isinstance(value.type, pa.UuidType) else str(value)
    return pa.scalar(text)


def as_number(value: pa.Scalar) -> pa.Scalar:
    """Store a time as the number that it is."""
    return pa.scalar(value.value, pa.int64())


def as_decimal(value: pa.Scalar) -> pa.Scalar:
    """Store an unsigned integer as a decimal."""
    return pa.scalar(Decimal(value.as_py()), pa.decimal128(20, 0))


def as_wide_decimal(value: pa.Scalar) -> pa.Scalar | None:
    """Store a hugeint as a decimal where it fits."""
    number = int.from_bytes(value.value.as_py(), "little", signed=True)
    return pa.scalar(Decimal(number), pa.decimal128(38, 0)) if abs(number) < 10**38 else None


def as_boolean(value: pa.Scalar) -> pa.Scalar:
    """Store a bool8 as a boolean."""
    return pa.scalar(value.value.as_py() != 0)


def as_moment(tz: str | None) -> Encode:
    """Store a timestamp in microseconds."""

    def encode(value: pa.Scalar) -> pa.Scalar | None:
        infinite = abs(value.value) == 2**63 - 1
        micros = value.value * (1 if infinite else {"s": 10**6, "ms": 10**3}[value.type.unit])
        return pa.scalar(micros, pa.timestamp("us", tz)) if abs(micros) < 2**63 else None

    return encode


@dataclass(frozen=True)
class Sample:
    """A column's type, its edge cases, and how they are stored."""

    exact: pa.DataType
    values: list[Any]
    storage: pa.DataType
    encode: Encode = as_is
    comparable: bool = True

    def scalar(self, value: object) -> pa.Scalar:
        """Return a value of the exact type; of a dictionary's value type."""
        if isinstance(self.exact, pa.BaseExtensionType):
            return pa.ExtensionScalar.from_storage(self.exact, pa.scalar(value, self.exact.storage_type))
        kind = self.exact.value_type if isinstance(self.exact, pa.DictionaryType) else self.exact
        return pa.scalar(value, kind)


def plain(kind: pa.DataType, values: list[Any], *, comparable: bool = True) -> Sample:
    """Return a column that is stored as it is."""
    return Sample(kind, values, kind, comparable=comparable)


STRUCT = pa.struct([("a", pa.int32()), ("b", pa.string())])
SAMPLES: dict[str, Sample] = {
    "i8": plain(pa.int8(), [-128, -1, 0, 1, 5, 127]),
    "i": plain(pa.int32(), [-(2**31), -2, -1, 0, 1, 2, 3, 7, 2**31 - 1]),
    "b": plain(pa.int64(), [-(2**63), -1, 0, 1, 2, 3, 2**53, 2**53 + 1, 2**63 - 1]),
    "u": Sample(pa.uint64(), [0, 1, 2, 3, 2**63, 2**64 - 1], pa.decimal128(20, 0), as_decimal),
    "h": Sample(
        HUGEINT,
        [n.to_bytes(16, "little", signed=True) for n in (-(10**38) + 1, -1, 0, 1, 2**64, 10**38 - 1)],
        pa.decimal128(38, 0),
        as_wide_decimal,
    ),
    "d": plain(pa.float64(), DOUBLES),
    "f": plain(pa.float32(), [0.0, -0.0, 0.1, 1.0, 2.5, NAN, INFINITY, 16777217.0]),
    "m": plain(pa.decimal128(9, 2), [Decimal(n).scaleb(-2) for n in (-12345, -1, 0, 1, 100, 250, 999999999)]),
    "s": plain(pa.string(), TEXTS),
    "s2": Sample(pa.large_string(), TEXTS, pa.string(), as_text),
    "dc": Sample(pa.dictionary(pa.int8(), pa.string()), TEXTS, pa.string()),
    "bl": plain(pa.binary(), [b"", b"a", b"\x00", b"\xff", b"ab"]),
    "bo": plain(pa.bool_(), [False, True]),
    "b8": Sample(pa.bool8(), [0, 1], pa.bool_(), as_boolean),
    "dt": plain(pa.date32(), [-100_000, -1, 0, 1, 19_737, 19_738]),
    "ts": plain(pa.timestamp("us"), [(NEW_YEAR + HOUR * n) * 10**6 for n in (-900_000, -1, 0, 1, 24)]),
    "tss": Sample(
        pa.timestamp("s"),
        [NEW_YEAR + HOUR * n for n in (-900_000, -1, 0, 1, 24)],
        pa.timestamp("us"),
        as_moment(None),
    ),
    "tsn": Sample(
        pa.timestamp("ns"), [(NEW_YEAR + n) * 10**9 + n for n in (-1, 0, 1)], pa.int64(), as_number
    ),
    "tz": Sample(
        pa.timestamp("ms", "Europe/Berlin"),
        [(NEW_YEAR + HOUR * n) * 1000 for n in (-9000, -1, 0, 1)],
        pa.timestamp("us", "UTC"),
        as_moment("UTC"),
    ),
    "tm": Sample(pa.time64("us"), [0, 1, 37_800_123_456, 86_399_999_999], pa.int64(), as_number),
    "uu": Sample(pa.uuid(), [uuid.UUID(text).bytes for text in UUIDS], pa.string(), as_text),
    "st": plain(STRUCT, [{"a": n, "b": t} for n in (None, 0, 1) for t in (None, "", "a")], comparable=False),
    "l": plain(pa.list_(pa.int32()), [[], [1], [None, 2]], comparable=False),
}


def target(name: str, sample: Sample) -> ColumnTarget:
    """Return where the column is stored: under a name of its own."""
    physical = f"col-{name}"
    fields: tuple[ColumnTarget, ...] = ()
    if isinstance(sample.exact, pa.StructType):
        fields = tuple(
            ColumnTarget((physical, field.name), field.type, field, True, True, as_is)
            for field in sample.exact
        )
    flags = sample.comparable, sample.comparable
    return ColumnTarget(physical, sample.storage, pa.field(name, sample.exact), *flags, sample.encode, fields)


TARGETS = {name: target(name, sample) for name, sample in SAMPLES.items()}


@dataclass(frozen=True)
class Rows:
    """The same rows as clients see them and as they are stored."""

    exact: pa.Table
    stored: pa.RecordBatch


def make_rows(r: random.Random, blocks: int, rows_per_block: int) -> Rows:
    """Return rows of edge cases; within a block a column has few different values."""
    count = blocks * rows_per_block
    exact: list[pa.Array] = [pa.array(range(count), pa.int64())]
    stored: list[pa.Array] = [pa.array(range(count), pa.int64())]
    for sample in SAMPLES.values():
        values: list[pa.Scalar] = []
        for _ in range(blocks):
            pool = [sample.scalar(r.choice(sample.values)) for _ in range(r.choice([1, 2, 2, 3]))]
            if r.random() < 0.4:
                pool.append(sample.scalar(None))
            values.extend(r.choice(pool) for _ in range(rows_per_block))
        exact.append(_exact_array(values, sample.exact))
        encoded = [sample.encode(value) if value.is_valid else None for value in values]
        stored.append(pa.array(encoded, sample.storage))
    physical = ["id", *(target.path[0] for target in TARGETS.values())]
    return Rows(pa.table(exact, ["id", *SAMPLES]), pa.RecordBatch.from_arrays(stored, physical))


def _exact_array(values: list[pa.Scalar], kind: pa.DataType) -> pa.Array:
    if isinstance(kind, pa.BaseExtensionType):
        storage = [value.value if value.is_valid else None for value in values]
        return pa.ExtensionArray.from_storage(kind, pa.array(storage, kind.storage_type))
    if isinstance(kind, pa.DictionaryType):
        return pa.array(values, kind.value_type).dictionary_encode().cast(kind)
    return pa.array([value if value.is_valid else None for value in values], kind)


def connect(rows: pa.Table) -> duckdb.DuckDBPyConnection:
    """Open a database that holds the rows in a table of its own, out of reach of Arrow's filters."""
    connection = duckdb.connect(config={"threads": 1})
    connection.register("source", rows)
    connection.execute("CREATE TABLE t AS SELECT * FROM source")
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def duckdb_ids(connection: duckdb.DuckDBPyConnection, predicate: str) -> set[int] | None:
    """Return the ids that DuckDB finds, or None where the predicate fails on some row."""
    try:
        rows = connection.execute(f"SELECT id FROM t WHERE {predicate}").fetchall()
    except (duckdb.OutOfRangeException, duckdb.ConversionException, duckdb.InvalidInputException):
        return None
    return {row[0] for row in rows}


def pushed(connection: duckdb.DuckDBPyConnection, predicate: str, *, combined: bool) -> Expression | None:
    """Return the predicate as DuckDB pushes it down, simplified or also combined; None if folded."""
    source = "(SELECT * FROM t LIMIT 1000000)" if combined else "t"
    disabled = "statistics_propagation,compressed_materialization,late_materialization"
    if not combined:
        disabled += ",filter_pushdown,unused_columns"
    connection.execute(f"SET disabled_optimizers = '{disabled}'")
    row = connection.execute(
        "SELECT json_serialize_plan(?, optimize := true)", [f"SELECT * FROM {source} WHERE {predicate}"]
    ).fetchone()
    assert row is not None
    document = json.loads(row[0])
    if document["error"] or "LOGICAL_EMPTY_RESULT" in row[0]:
        return None
    parts = [_named(part) for node in _filters(document["plans"]) for part in node["expressions"]]
    return decode(json.dumps({"filters": parts, "column_binding_names_by_index": ["id", *SAMPLES]}))


def _filters(plan: Any) -> Iterator[dict[str, Any]]:
    if isinstance(plan, list):
        for part in plan:
            yield from _filters(part)
    elif isinstance(plan, dict):
        if plan.get("type") == "LOGICAL_FILTER":
            yield plan
        yield from _filters(plan.get("children", []))


def _named(node: Any) -> Any:
    """Return a plan's expression with its resolved references as the column references of a push-down."""
    if isinstance(node, list):
        return [_named(part) for part in node]
    if not isinstance(node, dict):
        return node
    if node.get("expression_class") == "BOUND_REF":
        binding = {"table_index": 0, "column_index": ["id", *SAMPLES].index(node["alias"])}
        return {**node, "expression_class": "BOUND_COLUMN_REF", "binding": binding}
    return {key: _named(member) for key, member in node.items()}
