"""The filters that a real DuckDB sent, decoded and applied; and the same ones damaged."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from sparkport.catalog.predicates import (
    And,
    Case,
    Cast,
    Coalesce,
    Column,
    Comparison,
    ComparisonOperator,
    Constant,
    Expression,
    Function,
    In,
    IsNull,
    Not,
    Or,
    Unknown,
    walk,
)
from sparkport.errors import InvalidRequestError
from sparkport.memory.predicates import applied_part, filter_batch
from sparkport.protocol.airport.duckdb_types import arrow_type
from sparkport.protocol.airport.predicates import decode

RECORDED: list[dict[str, str]] = json.loads(Path(__file__).with_name("filters.json").read_text("utf-8"))

EQUAL = ComparisonOperator.EQUAL
GREATER = ComparisonOperator.GREATER


def sent_for(condition: str) -> str:
    """Return the filters that were sent for the statement that ends with the condition."""
    return next(record["json_filters"] for record in RECORDED if record["sql"].endswith(f"WHERE {condition}"))


def const(value: object, kind: pa.DataType) -> Constant:
    """Return a constant of a plain type."""
    return Constant(pa.scalar(value, kind))


def from_number(number: int, kind: pa.DataType) -> Constant:
    """Return a date or time constant from the number that stands for it."""
    width = pa.int32() if kind == pa.date32() else pa.int64()
    return Constant(pa.array([number], width).view(kind)[0])


def from_storage(storage: object, kind: pa.BaseExtensionType) -> Constant:
    """Return a constant of an extension type."""
    return Constant(pa.ExtensionArray.from_storage(kind, pa.array([storage], kind.storage_type))[0])


def integer(value: int | None) -> Constant:
    """Return an INTEGER constant."""
    return const(value, pa.int32())


def text(value: str | None) -> Constant:
    """Return a VARCHAR constant."""
    return const(value, pa.string())


NUM, S, B, D, BO, V = (Column(name) for name in ("i", "s", "b", "d", "bo", "v"))
HUGEINT = pa.decimal256(39, 0)
ROW = pa.StructArray.from_arrays(
    [pa.array([1], pa.int32()), pa.array(["a"])],
    fields=[pa.field("", pa.int32()), pa.field("", pa.string())],
)

TREES: dict[str, Expression] = {
    "i = 1": Comparison(EQUAL, NUM, integer(1)),
    "i <> 1": Comparison(ComparisonOperator.NOT_EQUAL, NUM, integer(1)),
    "i < 2": Comparison(ComparisonOperator.LESS, NUM, integer(2)),
    "i <= 2": Comparison(ComparisonOperator.LESS_OR_EQUAL, NUM, integer(2)),
    "i > 1": Comparison(GREATER, NUM, integer(1)),
    "i >= 1": Comparison(ComparisonOperator.GREATER_OR_EQUAL, NUM, integer(1)),
    "i IS DISTINCT FROM 1": Comparison(ComparisonOperator.DISTINCT, NUM, integer(1)),
    "i IS NOT DISTINCT FROM NULL": Comparison(ComparisonOperator.NOT_DISTINCT, NUM, integer(None)),
    "i = b": Comparison(EQUAL, Cast(NUM, pa.int64()), B),
    "i IN (1, NULL)": In(NUM, (integer(1), integer(None))),
    "i NOT IN (1, 2)": Not(In(NUM, (integer(1), integer(2)))),
    "i BETWEEN 1 AND 2": And(
        (
            Comparison(ComparisonOperator.GREATER_OR_EQUAL, NUM, integer(1)),
            Comparison(ComparisonOperator.LESS_OR_EQUAL, NUM, integer(2)),
        )
    ),
    "i > 0 AND i < 3": And(
        (Comparison(GREATER, NUM, integer(0)), Comparison(ComparisonOperator.LESS, NUM, integer(3)))
    ),
    "i IS NULL": IsNull(NUM),
    "s IS NOT NULL": Not(IsNull(S)),
    "bo": BO,
    "NOT bo": Not(BO),
    "(i, s) = (1, 'a')": Comparison(EQUAL, Function("row", (NUM, S)), Constant(ROW[0])),
    "i = ? AND s = ?": And((Comparison(EQUAL, NUM, integer(1)), Comparison(EQUAL, S, text("a")))),
    "i = 1 OR s = 'a'": Or((Comparison(EQUAL, NUM, integer(1)), Comparison(EQUAL, S, text("a")))),
    "CASE WHEN i = 1 THEN bo ELSE false END": Case(
        ((Comparison(EQUAL, NUM, integer(1)), BO),), const(False, pa.bool_())
    ),
    "coalesce(i, 0) = 1": Comparison(EQUAL, Coalesce((NUM, integer(0))), integer(1)),
    "s LIKE 'ab%'": Function("prefix", (S, text("ab"))),
    "s LIKE 'a_c%d'": Function("~~", (S, text("a_c%d"))),
    "s LIKE 'a!%b' ESCAPE '!'": Function("like_escape", (S, text("a!%b"), text("!"))),
    "i * 2 = b": Comparison(EQUAL, Cast(Function("*", (NUM, integer(2))), pa.int64()), B),
    "TRY_CAST(s AS INTEGER) = 5": Comparison(EQUAL, Cast(S, pa.int32(), lenient=True), integer(5)),
    "st.a = 1": Comparison(EQUAL, Function("struct_extract", (Column("st"), text("a"))), integer(1)),
    "l = [1, 2]": Comparison(EQUAL, Column("l"), const([1, 2], pa.list_(pa.int32()))),
    "m = MAP {'k': 1}": Comparison(EQUAL, Column("m"), const([("k", 1)], pa.map_(pa.string(), pa.int32()))),
    "a3 = [1, 2, 3]::INTEGER[3]": Comparison(EQUAL, Column("a3"), const([1, 2, 3], pa.list_(pa.int32(), 3))),
    "db1.utils.test_uppercase(s) = 'A'": Comparison(
        EQUAL, Unknown("function test_uppercase of catalog db1"), text("A")
    ),
    "v::ENUM('a','b','c') = 'b'::ENUM('a','b','c')": Comparison(EQUAL, Unknown("a cast to ENUM"), text("b")),
    "v = 5::UNION(num INTEGER, str VARCHAR)": Comparison(EQUAL, V, Unknown("a constant of type UNION")),
}

CONSTANTS: dict[str, Constant] = {
    "v = true /* BOOLEAN */": const(True, pa.bool_()),
    "v = -5 /* TINYINT */": const(-5, pa.int8()),
    "v = -500 /* SMALLINT */": const(-500, pa.int16()),
    "v = -5000000000 /* BIGINT */": const(-5000000000, pa.int64()),
    "v = -170141183460469231731687303715884105727 /* HUGEINT */": const(Decimal(1 - 2**127), HUGEINT),
    "v = 200 /* UTINYINT */": const(200, pa.uint8()),
    "v = 60000 /* USMALLINT */": const(60000, pa.uint16()),
    "v = 4000000000 /* UINTEGER */": const(4000000000, pa.uint32()),
    "v = 18446744073709551615 /* UBIGINT */": const(2**64 - 1, pa.uint64()),
    "v = 340282366920938463463374607431768211455 /* UHUGEINT */": const(Decimal(2**128 - 1), HUGEINT),
    "v = 0.1 /* FLOAT */": const(0.1, pa.float32()),
    "v = 0.1 /* DOUBLE */": const(0.1, pa.float64()),
    "v = '-inf'::DOUBLE /* DOUBLE */": const(-math.inf, pa.float64()),
    "v = 12.3 /* DECIMAL(4,1) */": const(Decimal("12.3"), pa.decimal128(4, 1)),
    "v = -1234567.891 /* DECIMAL(18,3) */": const(Decimal("-1234567.891"), pa.decimal128(18, 3)),
    "v = 1234567890123456789012345678.0123456789 /* DECIMAL(38,10) */": const(
        Decimal("1234567890123456789012345678.0123456789"), pa.decimal128(38, 10)
    ),
    "v = -1.5 /* DECIMAL(38,10) */": const(Decimal("-1.5"), pa.decimal128(38, 10)),
    "v = '123456789012345678901234567890'::BIGNUM /* BIGNUM */": from_storage(
        bytes.fromhex("80000d018ee90ff6c373e0ee4e3f0ad2"), pa.opaque(pa.binary(), "bignum", "DuckDB")
    ),
    "v = '10101'::BIT /* BIT */": from_storage(b"\x03\xf5", pa.opaque(pa.binary(), "bit", "DuckDB")),
    "v = '0000000001000001'::BIT": from_storage(b"\x00\x00A", pa.opaque(pa.binary(), "bit", "DuckDB")),
    r"v = '\xAA\x00abc'::BLOB /* BLOB */": const(b"\xaa\x00abc", pa.binary()),
    "v = 'x' /* VARCHAR */": text("x"),
    "v = chr(0) || 'nul'": text("\x00nul"),
    """v = '{"a":1}' /* JSON */""": from_storage('{"a":1}', pa.json_(pa.string())),
    "v = 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11' /* UUID */": from_storage(
        UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11").bytes, pa.uuid()
    ),
    "v = '00000000-0000-0000-0000-000000000001'::UUID /* UUID */": from_storage(
        bytes(15) + b"\x01", pa.uuid()
    ),
    "v = '2024-01-15' /* DATE */": const(date(2024, 1, 15), pa.date32()),
    "v = 'infinity'::DATE /* DATE */": from_number(2147483647, pa.date32()),
    "v = '-infinity'::DATE /* DATE */": from_number(-2147483647, pa.date32()),
    "v = '10:30:00.123456' /* TIME */": const(time(10, 30, 0, 123456), pa.time64("us")),
    "v = '2024-01-15 10:30:00.123456' /* TIMESTAMP */": from_number(1705314600123456, pa.timestamp("us")),
    "v = 'infinity'::TIMESTAMP /* TIMESTAMP */": from_number(2**63 - 1, pa.timestamp("us")),
    "v = '2024-01-15 10:30:00'::TIMESTAMP_S /* TIMESTAMP_S */": from_number(1705314600, pa.timestamp("s")),
    "v = '2024-01-15 10:30:00.123'::TIMESTAMP_MS /* TIMESTAMP_MS */": from_number(
        1705314600123, pa.timestamp("ms")
    ),
    "v = '2024-01-15 10:30:00.123456789'::TIMESTAMP_NS /* TIMESTAMP_NS */": from_number(
        1705314600123456789, pa.timestamp("ns")
    ),
    "v = '2024-01-15 10:30:00+02' /* TIMESTAMPTZ */": const(
        datetime(2024, 1, 15, 8, 30, tzinfo=UTC), pa.timestamp("us", tz="UTC")
    ),
    "v = INTERVAL '1 month 2 days 3 seconds' /* INTERVAL */": const(
        pa.MonthDayNano([1, 2, 3_000_000_000]), pa.month_day_nano_interval()
    ),
}


def columns_of(node: Any) -> Iterator[dict[str, Any]]:
    """Yield the column references of a document."""
    if isinstance(node, dict):
        if node.get("expression_class") == "BOUND_COLUMN_REF":
            yield node
        for member in node.values():
            yield from columns_of(member)
    elif isinstance(node, list):
        for member in node:
            yield from columns_of(member)


def scanned_rows(document: str) -> pa.RecordBatch:
    """Return three null rows of the columns that the filters read."""
    parsed = json.loads(document) if document else {}
    names = parsed.get("column_binding_names_by_index", [])
    kinds: dict[str, pa.DataType] = {}
    for column in columns_of(parsed.get("filters", [])):
        if names:
            kind = arrow_type(column["return_type"]) or pa.null()
            kinds[names[column["binding"]["column_index"]]] = kind
    return pa.RecordBatch.from_arrays([pa.nulls(3, kind) for kind in kinds.values()], list(kinds))


def test_every_recorded_filter_decodes() -> None:
    """Nothing that DuckDB sends is an error, and little of it is unknown."""
    decoded = [decode(record["json_filters"]) for record in RECORDED]

    assert len(decoded) == 345
    assert sum(tree is None for tree in decoded) == 38
    unknown = [tree for tree in decoded if tree and any(isinstance(part, Unknown) for part in walk(tree))]
    assert len(unknown) == 10


@pytest.mark.parametrize("condition", TREES)
def test_a_condition_becomes_its_tree(condition: str) -> None:
    """Each class, operator and function decodes to one known tree."""
    assert decode(sent_for(condition)) == TREES[condition]


@pytest.mark.parametrize("condition", CONSTANTS)
def test_a_constant_keeps_its_value_and_type(condition: str) -> None:
    """Each type of constant decodes to the Arrow scalar of that type."""
    tree = decode(sent_for(condition))

    assert isinstance(tree, Comparison)
    assert isinstance(tree.right, Constant)
    assert tree.right.value.type == CONSTANTS[condition].value.type
    assert tree.right == CONSTANTS[condition]


def test_not_a_number_is_a_constant() -> None:
    """NaN stands bare in the text and arrives as NaN."""
    tree = decode(sent_for("v = 'nan'::DOUBLE /* DOUBLE */"))

    assert isinstance(tree, Comparison)
    assert isinstance(tree.right, Constant)
    assert math.isnan(tree.right.value.as_py())


def test_most_recorded_filters_are_applied_whole() -> None:
    """What the memory tables evaluate of real predicates is pinned, so that it does not shrink unseen."""
    outcome: Counter[str] = Counter()
    for record in RECORDED:
        tree = decode(record["json_filters"])
        rows = scanned_rows(record["json_filters"])
        if tree is None:
            outcome["nothing to do"] += 1
            continue
        filter_batch(rows, tree)
        match applied_part(rows, tree):
            case None:
                outcome["left to DuckDB"] += 1
            case weaker:
                outcome["whole" if weaker == tree else "in part"] += 1

    assert outcome == {"nothing to do": 38, "whole": 222, "left to DuckDB": 85}


def damaged(r: random.Random, document: str) -> str | bytes:
    """Return the document with one thing wrong in its bytes or its structure."""
    data = bytearray(document.encode())
    match r.randrange(4):
        case 0:
            for _ in range(r.randrange(1, 4)):
                data[r.randrange(len(data))] ^= 1 << r.randrange(8)
            return bytes(data)
        case 1:
            return bytes(data[: r.randrange(len(data))])
        case 2:
            return json.dumps(altered(r, json.loads(document), swap=False))
        case _:
            return json.dumps(altered(r, json.loads(document), swap=True))


def altered(r: random.Random, document: Any, *, swap: bool) -> Any:
    """Remove one random member of the document, or put something else in its place."""
    places: list[tuple[Any, Any]] = []
    pending = [document]
    while pending:
        node = pending.pop()
        keys = list(node) if isinstance(node, dict) else range(len(node))
        places.extend((node, key) for key in keys)
        pending.extend(node[key] for key in keys if isinstance(node[key], dict | list))
    node, key = r.choice(places)
    if swap:
        swaps: list[Any] = [
            None,
            True,
            -1,
            2**70,
            1.5,
            math.nan,
            "",
            "MAP",
            "\ud800",
            [],
            {},
            [1],
            r.choice(places)[0],
        ]
        node[key] = json.loads(json.dumps(r.choice(swaps)))
    else:
        del node[key]
    return document


@pytest.mark.parametrize("seed", range(6))
def test_a_damaged_filter_is_refused_or_read(seed: int) -> None:
    """Whatever arrives, the outcome is a usable predicate or InvalidRequestError."""
    r = random.Random(seed)
    documents = [record["json_filters"] for record in RECORDED if 40 < len(record["json_filters"]) < 8000]
    refused = 0
    for _ in range(1000):
        document = r.choice(documents)
        try:
            tree = decode(damaged(r, document))
        except InvalidRequestError:
            refused += 1
        else:
            rows = scanned_rows(document)
            assert filter_batch(rows, tree).num_rows <= 3

    assert 300 < refused < 950
