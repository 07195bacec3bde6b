from __future__ import annotations

import math
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
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
)
from sparkport.memory.predicates import applied_part, filter_batch

EQUAL = ComparisonOperator.EQUAL
LESS = ComparisonOperator.LESS
GREATER = ComparisonOperator.GREATER
X = Column("x")
TRUE = Constant(pa.scalar(True))
FALSE = Constant(pa.scalar(False))
NULL = Constant(pa.scalar(None, pa.bool_()))
UNKNOWN = Unknown("anything")


def const(value: object, kind: pa.DataType | None = None) -> Constant:
    """Return a constant."""
    return Constant(pa.scalar(value, kind))


def is_(operator: ComparisonOperator, value: object, kind: pa.DataType | None = None) -> Expression:
    """Return a comparison of the column with a constant."""
    return Comparison(operator, X, const(value, kind))


def call(name: str, *arguments: object) -> Expression:
    """Return a call with the column first and constants after it."""
    return Function(name, (X, *(const(argument) for argument in arguments)))


def kept(array: pa.Array[Any], predicate: Expression) -> list[int]:
    """Return the positions of the rows that are kept of a one-column batch."""
    positions = pa.array(range(len(array)), pa.int64())
    batch = pa.RecordBatch.from_arrays([array, positions], ["x", "position"])
    return [int(position) for position in filter_batch(batch, predicate).column(1).to_pylist()]


INTS = pa.array([1, None, 3], pa.int32())
FLOATS = pa.array([1.0, None, math.nan, math.inf, -0.0])
TEXTS = pa.array(["ab", None, "a%b", "a\nb", "éb", ""])


def test_no_predicate_keeps_the_batch_itself() -> None:
    """Without a predicate nothing is copied."""
    batch = pa.RecordBatch.from_arrays([INTS], ["x"])

    assert filter_batch(batch, None) is batch
    assert filter_batch(batch, UNKNOWN) is batch
    assert filter_batch(batch, TRUE) is batch


def test_schema_and_metadata_survive() -> None:
    """Filtering changes rows, never the schema."""
    arrow_schema = pa.schema([pa.field("x", pa.int32(), metadata={"k": "v"})], metadata={"a": "b"})
    batch = pa.RecordBatch.from_arrays([INTS], schema=arrow_schema)

    assert filter_batch(batch, is_(EQUAL, 1, pa.int32())).schema.equals(arrow_schema, check_metadata=True)


@pytest.mark.parametrize(("predicate", "rows"), [(TRUE, 3), (FALSE, 0), (NULL, 0)])
def test_a_constant_keeps_all_or_nothing(predicate: Expression, rows: int) -> None:
    """NULL is not true."""
    assert len(kept(INTS, predicate)) == rows


@pytest.mark.parametrize(
    ("operator", "value", "rows"),
    [
        (EQUAL, 1, [0]),
        (ComparisonOperator.NOT_EQUAL, 1, [2]),
        (LESS, 3, [0]),
        (ComparisonOperator.LESS_OR_EQUAL, 3, [0, 2]),
        (GREATER, 1, [2]),
        (ComparisonOperator.GREATER_OR_EQUAL, 1, [0, 2]),
        (ComparisonOperator.DISTINCT, 1, [1, 2]),
        (ComparisonOperator.NOT_DISTINCT, 1, [0]),
        (EQUAL, None, []),
        (ComparisonOperator.DISTINCT, None, [0, 2]),
        (ComparisonOperator.NOT_DISTINCT, None, [1]),
    ],
)
def test_null_compares_as_in_sql(operator: ComparisonOperator, value: int | None, rows: list[int]) -> None:
    """A comparison with NULL is NULL, except for the two that treat NULL as a value."""
    assert kept(INTS, is_(operator, value, pa.int32())) == rows


@pytest.mark.parametrize(
    ("operator", "value", "rows"),
    [
        (EQUAL, math.nan, [2]),
        (ComparisonOperator.NOT_EQUAL, math.nan, [0, 3, 4]),
        (GREATER, 1.0, [2, 3]),
        (GREATER, math.inf, [2]),
        (LESS, math.nan, [0, 3, 4]),
        (ComparisonOperator.LESS_OR_EQUAL, math.nan, [0, 2, 3, 4]),
        (ComparisonOperator.GREATER_OR_EQUAL, math.nan, [2]),
        (ComparisonOperator.DISTINCT, math.nan, [0, 1, 3, 4]),
        (ComparisonOperator.NOT_DISTINCT, math.nan, [2]),
        (EQUAL, 0.0, [4]),
        (LESS, 0.0, []),
    ],
)
def test_floats_are_totally_ordered(operator: ComparisonOperator, value: float, rows: list[int]) -> None:
    """NaN equals NaN and is above infinity; the two zeros are one."""
    assert kept(FLOATS, is_(operator, value)) == rows


def test_nan_and_zero_are_found_in_lists() -> None:
    """IN follows the same equality."""
    assert kept(FLOATS, In(X, (const(math.nan), const(0.0)))) == [2, 4]


@pytest.mark.parametrize(
    ("predicate", "rows"),
    [
        (In(X, (const(1, pa.int32()), const(2, pa.int32()))), [0]),
        (In(X, (const(1, pa.int32()), const(None, pa.int32()))), [0]),
        (Not(In(X, (const(1, pa.int32()),))), [2]),
        (Not(In(X, (const(1, pa.int32()), const(None, pa.int32())))), []),
        (IsNull(In(X, (const(1, pa.int32()), const(None, pa.int32())))), [1, 2]),
        (In(X, (const(3, pa.int64()), X)), [0, 2]),
        (In(const(1, pa.int32()), (X,)), [0]),
    ],
)
def test_membership_is_null_where_sql_says_so(predicate: Expression, rows: list[int]) -> None:
    """A NULL in the list or on the left makes a miss NULL."""
    assert kept(INTS, predicate) == rows


@pytest.mark.parametrize(
    ("predicate", "rows"),
    [
        (Or((NULL, IsNull(X))), [1]),
        (Not(And((NULL, IsNull(X)))), [0, 2]),
        (Not(Or((NULL, IsNull(X)))), []),
        (And((NULL, TRUE)), []),
        (And(()), [0, 1, 2]),
        (Or(()), []),
        (Case(((NULL, TRUE), (IsNull(X), TRUE)), FALSE), [1]),
        (Comparison(EQUAL, Coalesce((X, const(7, pa.int32()))), const(7, pa.int32())), [1]),
    ],
)
def test_three_valued_logic(predicate: Expression, rows: list[int]) -> None:
    """AND, OR, NOT, CASE and COALESCE follow SQL's logic of true, false and NULL."""
    assert kept(INTS, predicate) == rows


@pytest.mark.parametrize(
    ("predicate", "rows"),
    [
        (And((UNKNOWN, is_(EQUAL, 1, pa.int32()))), [0]),
        (Or((UNKNOWN, is_(EQUAL, 1, pa.int32()))), [0, 1, 2]),
        (Or((And((UNKNOWN, IsNull(X))), is_(EQUAL, 1, pa.int32()))), [0, 1]),
        (Not(And((UNKNOWN, is_(EQUAL, 1, pa.int32())))), [0, 1, 2]),
        (Not(Or((UNKNOWN, is_(EQUAL, 1, pa.int32())))), [0, 1, 2]),
        (Not(UNKNOWN), [0, 1, 2]),
        (Case(((UNKNOWN, TRUE),), FALSE), [0, 1, 2]),
        (And((Column("gone"), IsNull(X))), [1]),
        (And((X, IsNull(X))), [1]),
        (And((In(X, ()), IsNull(X))), []),
    ],
)
def test_leaving_out_a_part_never_loses_a_row(predicate: Expression, rows: list[int]) -> None:
    """What is not understood is dropped from an AND; elsewhere it takes the whole part with it."""
    assert kept(INTS, predicate) == rows


def test_a_boolean_column_is_a_predicate() -> None:
    """A bare column filters by its own truth."""
    assert kept(pa.array([True, None, False]), X) == [0]
    assert kept(pa.array([True, None, False]), Not(X)) == [2]


BYTE = pa.array([127, -128, 1], pa.int8())


@pytest.mark.parametrize(
    "predicate",
    [
        Comparison(EQUAL, Function("+", (X, const(1, pa.int8()))), const(2, pa.int8())),
        Comparison(EQUAL, Function("abs", (X,)), const(1, pa.int8())),
        Comparison(EQUAL, Function("-", (X,)), const(1, pa.int8())),
        Comparison(EQUAL, Function("+", (X,)), const(1, pa.int8())),
        Comparison(EQUAL, Function("+", (X, const(1, pa.int64()))), const(2, pa.int64())),
        Comparison(EQUAL, Cast(X, pa.uint8()), const(1, pa.uint8())),
        Comparison(EQUAL, Cast(Cast(X, pa.string()), pa.int8()), const(1, pa.int8())),
        Comparison(EQUAL, X, const("1")),
        Comparison(EQUAL, Function("no_such_function", (X,)), X),
        In(Function("no_such_function", (X,)), (X,)),
    ],
)
def test_what_overflows_or_is_not_supported_filters_nothing(predicate: Expression) -> None:
    """A part that fails on some row is left to DuckDB, without an error."""
    assert kept(BYTE, predicate) == [0, 1, 2]


@pytest.mark.parametrize(
    ("array", "predicate", "rows"),
    [
        (pa.array([0, 2**64 - 1], pa.uint64()), is_(GREATER, -1, pa.int64()), [0, 1]),
        (pa.array([0, 2**64 - 1], pa.uint64()), is_(GREATER, 2**63 - 1, pa.int64()), [1]),
        (pa.array([2**53, 2**53 + 1], pa.int64()), is_(EQUAL, float(2**53)), [0, 1]),
        (pa.array([1, 2], pa.int8()), is_(LESS, 1.5), [0]),
        (pa.array([1, 2], pa.int32()), is_(EQUAL, Decimal("2.00"), pa.decimal128(5, 2)), [1]),
        (pa.array([Decimal("1.50"), Decimal(2)], pa.decimal128(5, 2)), is_(LESS, Decimal("1.6")), [0]),
        (
            pa.array([Decimal("1.5"), Decimal(2)], pa.decimal128(38, 1)),
            is_(EQUAL, Decimal("1.5"), pa.decimal128(38, 10)),
            [0],
        ),
        (pa.array([0.1, 0.5], pa.float32()), is_(EQUAL, 0.1), []),
        (pa.array([0.1, 0.5], pa.float32()), is_(EQUAL, 0.1, pa.float32()), [0]),
        (pa.array([Decimal("0.1")], pa.decimal128(5, 1)), is_(EQUAL, 0.7), [0]),
    ],
)
def test_numbers_compare_across_types(array: pa.Array[Any], predicate: Expression, rows: list[int]) -> None:
    """Integers and decimals compare by value, with floats as floats; decimals with floats not at all."""
    assert kept(array, predicate) == rows


@pytest.mark.parametrize(
    ("predicate", "rows"),
    [
        (call("prefix", "a"), [0, 2, 3]),
        (call("starts_with", ""), [0, 2, 3, 4, 5]),
        (call("^@", "a"), [0, 2, 3]),
        (call("suffix", "b"), [0, 2, 3, 4]),
        (call("contains", "%"), [2]),
        (call("~~", "a%b"), [0, 2, 3]),
        (call("~~", "_b"), [0, 4]),
        (call("~~", "a_b"), [2, 3]),
        (call("~~", ""), [5]),
        (call("~~", "a\\%b"), []),
        (call("!~~", "a%b"), [4, 5]),
        (call("like_escape", "a!%b", "!"), [2]),
        (call("like_escape", "a%b", ""), [0, 2, 3]),
        (call("not_like_escape", "a!%b", "!"), [0, 3, 4, 5]),
        (call("~~*", "A_B"), [2, 3]),
        (call("~~*", "ÉB"), [4]),
        (Not(call("prefix", "a")), [4, 5]),
        (Comparison(EQUAL, Function("upper", (X,)), const("ÉB")), [4]),
        (Comparison(EQUAL, Function("length", (X,)), const(2, pa.int64())), [0, 4]),
        (Comparison(EQUAL, Function("strlen", (X,)), const(3, pa.int64())), [2, 3, 4]),
        (Comparison(EQUAL, Function("||", (X, X)), const("abab")), [0]),
        (Function("constant_or_null", (TRUE, TRUE, X)), [0, 2, 3, 4, 5]),
        (is_(GREATER, "b"), [4]),
    ],
)
def test_strings(predicate: Expression, rows: list[int]) -> None:
    """LIKE has no escape character of its own and `_` is one character, newlines included."""
    assert kept(TEXTS, predicate) == rows


@pytest.mark.parametrize(
    "predicate",
    [
        call("~~", None),
        call("~~", 1),
        call("like_escape", "a!", "!"),
        call("like_escape", "a", "!!"),
        Function("~~", (X, X)),
        Function("regexp_matches", (X, const("a"))),
        Function("prefix", (const(1), const("a"))),
    ],
)
def test_patterns_that_are_not_understood_filter_nothing(predicate: Expression) -> None:
    """A pattern that varies, is null or is refused by DuckDB is left to DuckDB."""
    assert kept(TEXTS, predicate) == [0, 1, 2, 3, 4, 5]


def test_letters_of_recent_unicode_are_left_alone() -> None:
    """Whether U+A7CB has a lower case depends on the Unicode version."""
    predicate = Comparison(EQUAL, Function("lower", (X,)), const("a"))

    assert kept(pa.array(["A", "b"]), predicate) == [0]
    assert kept(pa.array(["A", "\ua7cb"]), predicate) == [0, 1]


@pytest.mark.parametrize(
    ("name", "divisor", "expected", "rows"),
    [("%", 2, 1, [2]), ("%", -2, -1, [0]), ("%", 0, 0, []), ("//", 2, -3, [0]), ("//", 0, 0, [])],
)
def test_division_truncates_and_by_zero_is_null(
    name: str, divisor: int, expected: int, rows: list[int]
) -> None:
    """The quotient is cut toward zero, the remainder has the sign of the dividend."""
    quotient = Function(name, (X, const(divisor, pa.int32())))

    assert (
        kept(pa.array([-7, None, 7], pa.int32()), Comparison(EQUAL, quotient, const(expected, pa.int32())))
        == rows
    )


def test_float_division_by_zero_is_left_to_duckdb() -> None:
    """Whether it gives infinity or NULL is a setting of the client."""
    predicate = Comparison(GREATER, Function("/", (const(1.0), X)), const(0.7))

    assert kept(pa.array([1.0, 2.0]), predicate) == [0]
    assert kept(pa.array([1.0, 0.0, 2.0]), predicate) == [0, 1, 2]


def test_a_float_is_rounded_half_to_even_as_an_integer() -> None:
    """CAST rounds as DuckDB does; what does not fit is left to DuckDB."""
    predicate = Comparison(EQUAL, Cast(X, pa.int32()), const(2, pa.int32()))

    assert kept(pa.array([1.5, 2.5, 3.5]), predicate) == [0, 1]
    assert kept(pa.array([1.5, math.nan]), predicate) == [0, 1]


def test_try_cast_is_used_only_where_failures_agree() -> None:
    """HUGEINT stands for UHUGEINT too, where a negative number gives NULL."""
    hugeint = pa.decimal256(39, 0)
    negative = pa.array([-1, 1], pa.int32())

    assert kept(negative, IsNull(Cast(X, hugeint, lenient=True))) == [0, 1]
    assert kept(negative, IsNull(Cast(X, pa.int64(), lenient=True))) == []


def numbered(numbers: list[int | None], kind: pa.DataType) -> pa.Array[Any]:
    """Return dates or timestamps from the numbers that stand for them."""
    return pa.array(numbers, pa.int32() if kind == pa.date32() else pa.int64()).view(kind)


DAY = 86_400_000_000


@pytest.mark.parametrize(
    ("array", "predicate", "rows"),
    [
        (
            numbered([0, 2147483647, -2147483647], pa.date32()),
            Comparison(EQUAL, X, Constant(numbered([2147483647], pa.date32())[0])),
            [1],
        ),
        (
            numbered([0, 2**63 - 1], pa.timestamp("us")),
            Comparison(LESS, X, Constant(numbered([2**63 - 1], pa.timestamp("us"))[0])),
            [0],
        ),
        (
            numbered([0, 1], pa.date32()),
            Comparison(GREATER, X, Constant(numbered([DAY - 1], pa.timestamp("us"))[0])),
            [1],
        ),
        (
            numbered([0, 1], pa.timestamp("s")),
            Comparison(LESS, X, Constant(numbered([1], pa.timestamp("ns"))[0])),
            [0],
        ),
        (
            numbered([0, 1], pa.timestamp("us")),
            Comparison(LESS, X, Constant(numbered([0], pa.timestamp("us", "UTC"))[0])),
            [0, 1],
        ),
        (
            numbered([0, 1000], pa.timestamp("ms", "Europe/Berlin")),
            Comparison(GREATER, X, Constant(numbered([999_999], pa.timestamp("us", "UTC"))[0])),
            [1],
        ),
        (
            numbered([0, 1000], pa.timestamp("ns", "UTC")),
            Comparison(LESS, X, Constant(numbered([0], pa.timestamp("us", "UTC"))[0])),
            [0, 1],
        ),
        (
            numbered([-1, DAY], pa.timestamp("us")),
            Comparison(EQUAL, Cast(X, pa.date32()), Constant(numbered([-1], pa.date32())[0])),
            [0],
        ),
        (
            numbered([-1, 2**63 - 1], pa.timestamp("us")),
            Comparison(EQUAL, Cast(X, pa.date32()), Constant(numbered([2147483647], pa.date32())[0])),
            [0, 1],
        ),
        (numbered([0, None], pa.date32()), Comparison(EQUAL, Function("year", (X,)), const(1970)), [0]),
        (numbered([0, 2147483647], pa.date32()), Comparison(EQUAL, Function("year", (X,)), const(1)), [0, 1]),
    ],
)
def test_dates_and_times(array: pa.Array[Any], predicate: Expression, rows: list[int]) -> None:
    """Units are aligned, infinities are values, zones are never guessed."""
    assert kept(array, predicate) == rows


def extension(storage: list[Any], kind: pa.BaseExtensionType) -> pa.Array[Any]:
    """Return an array of an extension type."""
    return pa.ExtensionArray.from_storage(kind, pa.array(storage, kind.storage_type))


FIRST, LAST = UUID(int=1), UUID(int=2**128 - 1)
WIDE = pa.opaque(pa.binary(16), "hugeint", "DuckDB")
UNSIGNED = pa.opaque(pa.binary(16), "uhugeint", "DuckDB")
BITS = pa.opaque(pa.binary(), "bit", "DuckDB")


@pytest.mark.parametrize(
    ("array", "predicate", "rows"),
    [
        (
            extension([FIRST.bytes, None, LAST.bytes], pa.uuid()),
            Comparison(GREATER, X, Constant(extension([FIRST.bytes], pa.uuid())[0])),
            [2],
        ),
        (
            extension([FIRST.bytes, None, LAST.bytes], pa.uuid()),
            In(X, (Constant(extension([LAST.bytes], pa.uuid())[0]), Constant(pa.nulls(1, pa.uuid())[0]))),
            [2],
        ),
        (
            extension([FIRST.bytes, LAST.bytes], pa.uuid()),
            Comparison(EQUAL, Cast(X, pa.string()), const(str(FIRST))),
            [0, 1],
        ),
        (extension([FIRST.bytes, LAST.bytes], pa.uuid()), is_(EQUAL, FIRST.bytes), [0, 1]),
        (extension([0, None, 1, 2], pa.bool8()), X, [2, 3]),
        (
            extension(["1", None, '"a"'], pa.json_(pa.string())),
            Comparison(EQUAL, X, Constant(extension(["1"], pa.json_(pa.string()))[0])),
            [0],
        ),
        (
            extension([number.to_bytes(16, "little", signed=True) for number in (-(2**127), -1, 5)], WIDE),
            is_(LESS, Decimal(0), pa.decimal256(39, 0)),
            [0, 1],
        ),
        (
            extension([number.to_bytes(16, "little") for number in (0, 2**128 - 1)], UNSIGNED).slice(1),
            is_(EQUAL, Decimal(2**128 - 1), pa.decimal256(39, 0)),
            [0],
        ),
        (extension([b"\x05\xfd"], BITS), Comparison(EQUAL, X, Constant(extension([b"\x00"], BITS)[0])), [0]),
        (extension([b"\x05\xfd", None], BITS), IsNull(X), [1]),
    ],
)
def test_extension_types(array: pa.Array[Any], predicate: Expression, rows: list[int]) -> None:
    """A type is compared by its storage only where DuckDB's order is that of the storage."""
    assert kept(array, predicate) == rows


def test_an_unregistered_extension_type_is_left_alone() -> None:
    """A field that says it is an extension type is not compared as its storage."""
    field = pa.field("x", pa.binary(), metadata={"ARROW:extension:name": "geoarrow.wkb"})
    batch = pa.RecordBatch.from_arrays([pa.array([b"a", b"b"])], schema=pa.schema([field]))

    assert filter_batch(batch, is_(EQUAL, b"a")).num_rows == 2


ENCODED = pa.array(["ab", None, "b"])


@pytest.mark.parametrize(
    "array",
    [
        ENCODED.dictionary_encode(),
        ENCODED.cast(pa.large_string()),
        ENCODED.cast(pa.string_view()),
        pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], pa.int8()), ENCODED),
    ],
)
def test_every_encoding_of_text_is_text(array: pa.Array[Any]) -> None:
    """Dictionaries, nulls in the dictionary included, large strings and views are read as VARCHAR."""
    assert kept(array, call("prefix", "a")) == [0]
    assert kept(array, IsNull(X)) == [1]
    assert kept(array, Not(is_(EQUAL, "ab"))) == [2]


def test_a_column_that_arrow_cannot_filter_keeps_the_rows() -> None:
    """Run-end encoded columns are read but not cut, so the batch stays whole."""
    runs = pc.run_end_encode(pa.array([1, 1, 2], pa.int32()))
    predicate = is_(EQUAL, 2, pa.int32())

    assert kept(runs, predicate) == [0, 1, 2]
    assert applied_part(pa.RecordBatch.from_arrays([runs], ["x"]), predicate) == predicate


def test_binary_kinds_compare_byte_by_byte() -> None:
    """Fixed-size and view binaries are BLOBs."""
    for kind in (pa.binary(1), pa.binary_view(), pa.large_binary()):
        assert kept(pa.array([b"\x00", b"\xff"], kind), is_(GREATER, b"a")) == [1]


STRUCTS = pa.array([{"a": 1, "B": "x"}, None, {"a": 2, "B": None}])
LISTS = pa.array([[1, 2], [], None, [3, None]], pa.list_(pa.int32()))


@pytest.mark.parametrize(
    ("array", "predicate", "rows"),
    [
        (STRUCTS, Comparison(EQUAL, call("struct_extract", "a"), const(1)), [0]),
        (STRUCTS, Comparison(EQUAL, call("array_extract", "b"), const("x")), [0]),
        (STRUCTS, IsNull(call("struct_extract", "A")), [1]),
        (STRUCTS, IsNull(call("struct_extract", "c")), [0, 1, 2]),
        (STRUCTS.slice(1), Comparison(EQUAL, call("struct_extract", "a"), const(2)), [1]),
        (STRUCTS, Comparison(EQUAL, X, X), [0, 1, 2]),
        (LISTS, Comparison(EQUAL, call("array_extract", 1), const(3, pa.int32())), [3]),
        (LISTS, Comparison(EQUAL, call("array_extract", -1), const(2, pa.int32())), [0]),
        (LISTS, IsNull(call("array_extract", 2)), [1, 2, 3]),
        (LISTS, IsNull(call("array_extract", 0)), [0, 1, 2, 3]),
        (LISTS, IsNull(call("array_extract", -3)), [0, 1, 2, 3]),
        (LISTS.slice(2), Comparison(EQUAL, call("array_extract", 1), const(3, pa.int32())), [1]),
        (LISTS, Comparison(EQUAL, Function("len", (X,)), const(2)), [0, 3]),
        (LISTS, IsNull(X), [2]),
    ],
)
def test_nested_values(array: pa.Array[Any], predicate: Expression, rows: list[int]) -> None:
    """Fields are found by name in any case, elements count from 1 or from the end, misses are NULL."""
    assert kept(array, predicate) == rows


def test_a_name_that_two_columns_have_means_neither() -> None:
    """An ambiguous column filters nothing."""
    batch = pa.RecordBatch.from_arrays([INTS, INTS], ["x", "x"])

    assert filter_batch(batch, IsNull(X)).num_rows == 3


def test_applied_part_is_known() -> None:
    """What is left out can be seen, for logs and explanations."""
    batch = pa.RecordBatch.from_arrays([INTS], ["x"])

    assert applied_part(batch, And((UNKNOWN, IsNull(X)))) == IsNull(X)
    assert applied_part(batch, Or((UNKNOWN, IsNull(X)))) is None
