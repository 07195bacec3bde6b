"""Random SQL predicates, evaluated by DuckDB and by the path that serves DuckDB's scans.

DuckDB itself serialises each predicate, in the same form in which it is pushed down, so
that decoding and evaluation are both on trial.
"""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from sparkport.catalog.predicates import And, Expression, Not, Or, Unknown
from sparkport.memory.predicates import applied_part, filter_batch
from sparkport.protocol.airport.predicates import decode

SEEDS = range(10)
PREDICATES_PER_SEED = 300
ROWS = 60
NEW_YEAR = datetime(2024, 1, 1)  # noqa: DTZ001 (columns without a zone)

STRINGS = [
    "",
    "a",
    "A",
    "ab",
    "abc",
    "a%b",
    "a_b",
    "a\\b",
    "%",
    "_",
    "\\",
    "é",
    "É",
    "ÿ",
    "日本",
    "a\nb",
    "🦆",
    "ß",
]
PATTERNS = [
    "%",
    "_",
    "",
    "a%",
    "%b",
    "%b%",
    "a_b",
    "_%",
    "a\\%b",
    "a.b",
    "(%",
    "%é%",
    "__",
    "a%b%",
    "A%",
    "日_",
]
DOUBLES = [
    0.0,
    -0.0,
    1.0,
    -1.5,
    2.5,
    1e300,
    -1e300,
    float("nan"),
    float("inf"),
    float("-inf"),
    9007199254740993.0,
]
UUIDS = [
    "00000000-0000-0000-0000-000000000001",
    "7fffffff-ffff-ffff-ffff-ffffffffffff",
    "80000000-0000-0000-0000-000000000000",
    "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
]

Maker = Callable[[random.Random], Any]

COLUMNS: dict[str, tuple[pa.DataType, Maker]] = {
    "i8": (pa.int8(), lambda r: r.choice([-128, -1, 0, 1, 5, 127])),
    "i": (pa.int32(), lambda r: r.choice([-(2**31), -2, -1, 0, 1, 2, 3, 7, 2**31 - 1])),
    "b": (pa.int64(), lambda r: r.choice([-(2**63), -1, 0, 1, 2, 3, 2**53, 2**53 + 1, 2**63 - 1])),
    "u": (pa.uint64(), lambda r: r.choice([0, 1, 2, 3, 2**63, 2**64 - 1])),
    "d": (pa.float64(), lambda r: r.choice(DOUBLES)),
    "d2": (pa.float64(), lambda r: r.choice(DOUBLES)),
    "f": (
        pa.float32(),
        lambda r: r.choice([0.0, -0.0, 0.1, 1.0, 2.5, float("nan"), float("inf"), 16777217.0]),
    ),
    "m": (
        pa.decimal128(9, 2),
        lambda r: Decimal(r.choice([-12345, -1, 0, 1, 100, 250, 999999999])).scaleb(-2),
    ),
    "m2": (pa.decimal128(18, 4), lambda r: Decimal(r.choice([-10000, 0, 1, 25000, 10000])).scaleb(-4)),
    "s": (pa.string(), lambda r: r.choice(STRINGS)),
    "s2": (pa.large_string(), lambda r: r.choice(STRINGS)),
    "sv": (pa.string_view(), lambda r: r.choice(STRINGS)),
    "bo": (pa.bool_(), lambda r: r.random() < 0.5),
    "b8": (pa.bool8(), lambda r: r.random() < 0.5),
    "dt": (pa.date32(), lambda r: date(1970, 1, 1) + timedelta(r.choice([-100000, -1, 0, 1, 19737, 19738]))),
    "ts": (
        pa.timestamp("us"),
        lambda r: NEW_YEAR + timedelta(hours=r.choice([-900000, -1, 0, 1, 24])),
    ),
    "tss": (
        pa.timestamp("s"),
        lambda r: NEW_YEAR + timedelta(hours=r.choice([-900000, -1, 0, 1, 24])),
    ),
    "tsn": (
        pa.timestamp("ns"),
        lambda r: NEW_YEAR + timedelta(hours=r.choice([-900, -1, 0, 1, 24])),
    ),
    "tz": (
        pa.timestamp("ms", "Europe/Berlin"),
        lambda r: datetime(2024, 1, 1, tzinfo=UTC) + timedelta(hours=r.choice([-9000, -1, 0, 1])),
    ),
    "uu": (pa.uuid(), lambda r: uuid.UUID(r.choice(UUIDS)).bytes),
    "h": (
        pa.opaque(pa.binary(16), "hugeint", "DuckDB"),
        lambda r: r.choice([-(2**127), -1, 0, 1, 2**64, 2**127 - 1]).to_bytes(16, "little", signed=True),
    ),
    "bl": (pa.binary(), lambda r: r.choice([b"", b"a", b"\x00", b"\xff", b"ab"])),
    "st": (
        pa.struct([("a", pa.int32()), ("b", pa.string())]),
        lambda r: {"a": r.choice([None, 0, 1, 2]), "b": r.choice([None, "", "a", "é"])},
    ),
    "l": (pa.list_(pa.int32()), lambda r: [r.choice([None, 0, 1, 2]) for _ in range(r.randrange(4))]),
    "dc": (pa.dictionary(pa.int8(), pa.string()), lambda r: r.choice(STRINGS)),
}


def make_table(r: random.Random) -> pa.RecordBatch:
    """Return a batch of edge cases, one in seven of them null."""
    arrays: list[pa.Array[Any]] = [pa.array(range(ROWS), pa.int64())]
    for kind, make in COLUMNS.values():
        values = [None if r.random() < 0.15 else make(r) for _ in range(ROWS)]
        if isinstance(kind, pa.Bool8Type):
            arrays.append(pa.ExtensionArray.from_storage(kind, pa.array(values, pa.bool_()).cast(pa.int8())))
        elif isinstance(kind, pa.BaseExtensionType):
            arrays.append(pa.ExtensionArray.from_storage(kind, pa.array(values, kind.storage_type)))
        elif isinstance(kind, pa.DictionaryType):
            arrays.append(pa.array(values, kind.value_type).dictionary_encode().cast(kind))
        else:
            arrays.append(pa.array(values, kind))
    return pa.RecordBatch.from_arrays(arrays, ["id", *COLUMNS])


def quoted(text: str) -> str:
    """Return the text as a SQL literal."""
    return "'" + text.replace("'", "''") + "'"


class Sql:
    """A source of random SQL expressions of a wanted kind."""

    def __init__(self, r: random.Random) -> None:
        self.r = r

    def case(self, make: Callable[[int], str], depth: int) -> str:
        return f"CASE WHEN {self.boolean(depth)} THEN {make(depth)} ELSE {make(depth)} END"

    def cast(self, depth: int, *targets: str) -> str:
        function = self.r.choice(["CAST", "TRY_CAST"])
        return f"{function}({self.number(depth)} AS {self.r.choice(targets)})"

    def infix(self, make: Callable[[int], str], depth: int, *operators: str) -> str:
        return f"({make(depth)} {self.r.choice(operators)} {make(depth)})"

    def integer(self, depth: int) -> str:
        r = self.r
        match r.randrange(14 if depth > 0 else 7):
            case 0 | 1:
                return r.choice(["-1", "0", "1", "2", "3", "7", "127", "NULL::INTEGER", "9007199254740993"])
            case 2 | 3 | 4:
                return r.choice(["i", "i8", "b", "u", "i", "h"])
            case 5:
                return r.choice(["st.a", "st['a']", "l[1]", "l[-1]", "l[2]", "l[0]"])
            case 6:
                return r.choice(
                    ["length(s)", "strlen(s)", "len(l)", "year(dt)", "month(ts)", "day(dt)", "length(dc)"]
                )
            case 7 | 8:
                return self.infix(self.integer, depth - 1, "+", "-", "*", "%", "//", "&", "|")
            case 9:
                return f"abs({self.integer(depth - 1)})"
            case 10:
                return self.case(self.integer, depth - 1)
            case 11:
                return f"coalesce({self.integer(depth - 1)}, {self.integer(depth - 1)})"
            case 12:
                return self.cast(depth - 1, "TINYINT", "INTEGER", "BIGINT", "UBIGINT", "HUGEINT", "UHUGEINT")
            case _:
                return f"(- {self.integer(depth - 1)})"

    def real(self, depth: int) -> str:
        r = self.r
        match r.randrange(9 if depth > 0 else 5):
            case 0 | 1:
                return r.choice(
                    [
                        "0.0::DOUBLE",
                        "'nan'::DOUBLE",
                        "'inf'::DOUBLE",
                        "1.0::DOUBLE",
                        "2.5::DOUBLE",
                        "0.1::FLOAT",
                        "'-0.0'::DOUBLE",
                    ]
                )
            case 2 | 3 | 4:
                return r.choice(["d", "d2", "f"])
            case 5 | 6:
                return self.infix(self.real, depth - 1, "+", "-", "*", "/")
            case 7:
                return f"{r.choice(['abs', 'floor', 'ceil', '-'])}({self.real(depth - 1)})"
            case _:
                return self.cast(depth - 1, "DOUBLE", "FLOAT")

    def fixed(self, depth: int) -> str:
        r = self.r
        match r.randrange(6 if depth > 0 else 4):
            case 0:
                return r.choice(
                    ["1.00", "2.5", "0.0001", "-123.45", "9999999.99", "1.005", "NULL::DECIMAL(5,1)"]
                )
            case 1 | 2 | 3:
                return r.choice(["m", "m2"])
            case 4:
                return self.infix(self.fixed, depth - 1, "+", "-", "*")
            case _:
                return self.cast(depth - 1, "DECIMAL(9,2)", "DECIMAL(4,1)", "DECIMAL(38,10)")

    def number(self, depth: int) -> str:
        return self.r.choice([self.integer, self.integer, self.real, self.fixed])(depth)

    def text(self, depth: int) -> str:
        r = self.r
        match r.randrange(9 if depth > 0 else 6):
            case 0 | 1:
                return r.choice([quoted(r.choice(STRINGS)), "NULL::VARCHAR"])
            case 2 | 3 | 4:
                return r.choice(["s", "s2", "sv", "dc"])
            case 5:
                return r.choice(["st.b", "st['b']"])
            case 6:
                return f"{r.choice(['lower', 'upper'])}({self.text(depth - 1)})"
            case 7:
                return f"({self.text(depth - 1)} || {self.text(depth - 1)})"
            case _:
                return r.choice(
                    [
                        f"CAST({self.integer(depth - 1)} AS VARCHAR)",
                        f"coalesce({self.text(depth - 1)}, 'q')",
                        "CAST(bo AS VARCHAR)",
                        "CAST(d AS VARCHAR)",
                        "CAST(dt AS VARCHAR)",
                        "CAST(uu AS VARCHAR)",
                    ]
                )

    def moment(self, depth: int) -> str:
        r = self.r
        match r.randrange(7 if depth > 0 else 5):
            case 0 | 1:
                return r.choice(
                    [
                        "DATE '2024-01-15'",
                        "DATE '1969-12-31'",
                        "'infinity'::DATE",
                        "TIMESTAMP '2024-01-01 00:00:00'",
                        "'-infinity'::TIMESTAMP",
                        "TIMESTAMP '2024-01-01 01:00:00.000001'",
                        "NULL::DATE",
                    ]
                )
            case 2 | 3 | 4:
                return r.choice(["dt", "ts", "tss", "tsn"])
            case 5:
                target = r.choice(["DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_NS", "TIMESTAMP_MS"])
                return f"CAST({self.moment(depth - 1)} AS {target})"
            case _:
                return f"CASE WHEN {self.boolean(depth - 1)} THEN dt ELSE DATE '2024-01-15' END"

    def other(self) -> tuple[str, str]:
        r = self.r
        match r.randrange(6):
            case 0 | 1:
                return "uu", r.choice([*(f"{quoted(text)}::UUID" for text in UUIDS), "uu"])
            case 2:
                return "bl", r.choice([r"'\xFF'::BLOB", "'a'::BLOB", "''::BLOB", r"'\x00'::BLOB", "bl"])
            case 3:
                return "tz", r.choice(
                    ["TIMESTAMPTZ '2024-01-01 00:00:00+00'", "TIMESTAMPTZ '2024-01-01 01:00:00+02'"]
                )
            case 4:
                return r.choice(["l", "st"]), r.choice(["NULL", "NULL"])
            case _:
                return "bo", r.choice(["b8", "true", "false", "NULL::BOOLEAN"])

    def pair(self, depth: int) -> tuple[str, str]:
        match self.r.randrange(8):
            case 0 | 1 | 2:
                return self.number(depth), self.number(depth)
            case 3 | 4:
                return self.text(depth), self.text(depth)
            case 5:
                return self.moment(depth), self.moment(depth)
            case 6:
                return self.other()
            case _:
                return self.boolean(depth - 1), self.boolean(depth - 1)

    def operator(self) -> str:
        return self.r.choice(["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"])

    def boolean(self, depth: int) -> str:
        r = self.r
        if depth < 0:
            return r.choice(["bo", "b8", "i = 1", "s = 'a'", "true", "NULL::BOOLEAN"])
        match r.randrange(17):
            case 0 | 1 | 2 | 3 | 4:
                left, right = self.pair(depth)
                return f"({left} {self.operator()} {right})"
            case 5:
                left, right = self.pair(depth)
                more = f", {right}, NULL" if r.random() < 0.3 else f", {right}"
                return f"({left} {r.choice(['IN', 'NOT IN'])} ({right}{more}))"
            case 6:
                options = ", ".join(r.sample(["0", "1", "2", "3", "-1", "127", "NULL"], r.randrange(1, 5)))
                column = r.choice(["i", "b", "u", "i8", "d", "m", "h"])
                return f"({column} {r.choice(['IN', 'NOT IN'])} ({options}))"
            case 7:
                make = r.choice([self.number, self.text, self.moment])
                between = r.choice(["BETWEEN", "NOT BETWEEN"])
                return f"({make(depth - 1)} {between} {make(depth - 1)} AND {make(depth - 1)})"
            case 8:
                subject = r.choice([self.pair(depth)[0], *COLUMNS])
                return f"({subject} IS {r.choice(['', 'NOT'])} NULL)"
            case 9 | 10:
                like = r.choice(["LIKE", "NOT LIKE", "LIKE", "ILIKE", "NOT ILIKE"])
                return f"({self.text(depth - 1)} {like} {quoted(r.choice(PATTERNS))})"
            case 11:
                call = r.choice(["starts_with", "ends_with", "contains", "prefix", "suffix"])
                like = r.choice(
                    [
                        r"s LIKE 'a\%b' ESCAPE '\'",
                        "s NOT LIKE 'a!_b' ESCAPE '!'",
                        "s ~ 'a.*'",
                        "s LIKE s2",
                        "s GLOB 'a*'",
                    ]
                )
                return r.choice(
                    [f"{call}({self.text(depth - 1)}, {quoted(r.choice(STRINGS))})", f"({like})", "isnan(d)"]
                )
            case 12:
                return f"(NOT {self.boolean(depth - 1)})"
            case 13 | 14:
                return f"({self.boolean(depth - 1)} AND {self.boolean(depth - 1)})"
            case 15:
                return f"({self.boolean(depth - 1)} OR {self.boolean(depth - 1)})"
            case _:
                return self.case(self.boolean, depth - 1)


def connect(batch: pa.RecordBatch) -> duckdb.DuckDBPyConnection:
    """Open a database that holds the batch in a table of its own, out of reach of Arrow's filters."""
    connection = duckdb.connect(config={"threads": 1})
    connection.register("source", pa.Table.from_batches([batch]))
    connection.execute("CREATE TABLE t AS SELECT * FROM source")
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def filter_nodes(plan: Any) -> Iterator[dict[str, Any]]:
    """Yield the filters of a plan."""
    if isinstance(plan, list):
        for part in plan:
            yield from filter_nodes(part)
    elif isinstance(plan, dict):
        if plan.get("type") == "LOGICAL_FILTER":
            yield plan
        yield from filter_nodes(plan.get("children", []))


def pushed_form(node: Any) -> Any:
    """Return a plan's expression with its resolved references as the column references of a push-down."""
    if isinstance(node, list):
        return [pushed_form(part) for part in node]
    if not isinstance(node, dict):
        return node
    if node.get("expression_class") == "BOUND_REF":
        index = ["id", *COLUMNS].index(node["alias"])
        return {
            **node,
            "expression_class": "BOUND_COLUMN_REF",
            "binding": {"table_index": 0, "column_index": index},
        }
    return {key: pushed_form(member) for key, member in node.items()}


def json_filters(connection: duckdb.DuckDBPyConnection, predicate: str, mode: int) -> str | None:
    """Return the predicate as DuckDB serialises it, as written (0), simplified (1) or combined (2)."""
    source = "(SELECT * FROM t LIMIT 1000000)" if mode == 2 else "t"
    disabled = (
        "filter_pushdown,statistics_propagation,unused_columns" if mode == 1 else "statistics_propagation"
    )
    connection.execute(
        f"SET disabled_optimizers = '{disabled},compressed_materialization,late_materialization'"
    )
    optimize = "true" if mode else "false"
    row = connection.execute(
        f"SELECT json_serialize_plan(?, optimize := {optimize})",
        [f"SELECT * FROM {source} WHERE {predicate}"],
    ).fetchone()
    assert row is not None
    document = json.loads(row[0])
    if document["error"]:
        return None
    plans = document["plans"]
    if "LOGICAL_EMPTY_RESULT" in row[0]:
        return None
    expressions = [pushed_form(part) for node in filter_nodes(plans) for part in node["expressions"]]
    return json.dumps({"filters": expressions, "column_binding_names_by_index": ["id", *COLUMNS]})


def kept_ids(batch: pa.RecordBatch, predicate: Expression | None) -> set[int]:
    """Return the ids that the path on trial keeps."""
    return set(filter_batch(batch, predicate).column(0).to_pylist())


def duckdb_ids(connection: duckdb.DuckDBPyConnection, predicate: str) -> set[int] | None:
    """Return the ids that DuckDB finds, or None where the predicate fails on some row."""
    try:
        rows = connection.execute(f"SELECT id FROM t WHERE {predicate}").fetchall()
    except (duckdb.OutOfRangeException, duckdb.ConversionException):
        return None
    return {row[0] for row in rows}


@pytest.mark.parametrize("seed", SEEDS)
def test_every_row_that_duckdb_finds_is_kept(seed: int) -> None:
    """The rows kept contain DuckDB's, and are exactly DuckDB's where nothing was left out."""
    r = random.Random(seed)
    batch = make_table(r)
    connection, sql = connect(batch), Sql(r)
    compared = exact = 0
    for number in range(PREDICATES_PER_SEED):
        predicate = sql.boolean(2)
        document = json_filters(connection, predicate, number % 3)
        if document is None:
            continue
        expression = decode(document)
        kept = kept_ids(batch, expression)
        expected = duckdb_ids(connection, predicate)
        if expected is None:
            continue
        compared += 1
        assert expected <= kept, f"lost {expected - kept} of {predicate}"
        if expression is None or applied_part(batch, expression) == expression:
            exact += 1
            assert expected == kept, f"kept {kept - expected} of {predicate}"

    assert compared >= 240
    assert exact >= 120


@pytest.mark.parametrize("seed", range(3))
def test_an_unknown_part_never_costs_a_row(seed: int) -> None:
    """Whatever an unknown part turns out to be, true, false or NULL, the rows it allows are kept."""
    r = random.Random(1000 + seed)
    batch = make_table(r)
    connection, sql = connect(batch), Sql(r)

    def grow(depth: int) -> tuple[str, Expression] | None:
        """Return SQL with {q} for the unknown, and the same as a tree; None where DuckDB folds it."""
        if depth == 0:
            if r.random() < 0.4:
                return "{q}", Unknown("a part of no known class")
            leaf = sql.boolean(0)
            document = json_filters(connection, leaf, 0)
            expression = None if document is None else decode(document)
            return None if expression is None else (leaf.replace("{", "{{"), expression)
        parts = [grow(depth - 1), grow(depth - 1)]
        grown = [part for part in parts if part is not None]
        if len(grown) < len(parts):
            return None
        texts, trees = [text for text, _ in grown], tuple(tree for _, tree in grown)
        match r.randrange(4):
            case 0:
                return f"({' AND '.join(texts)})", And(trees)
            case 1:
                return f"({' OR '.join(texts)})", Or(trees)
            case 2:
                return f"(NOT ({' AND '.join(texts)}))", Not(And(trees))
            case _:
                return f"(NOT ({' OR '.join(texts)}))", Not(Or(trees))

    compared = 0
    for _ in range(120):
        if (grown := grow(r.randrange(1, 4))) is None:
            continue
        text, tree = grown
        kept = kept_ids(batch, tree)
        for replacement in ("true", "false", "NULL"):
            expected = duckdb_ids(connection, text.format(q=replacement))
            if expected is not None:
                compared += 1
                assert expected <= kept, f"lost {expected - kept} of {text}"

    assert compared >= 100
