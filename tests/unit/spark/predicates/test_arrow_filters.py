"""Arrow filters on batches and on Parquet files."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
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
from sparkport.spark.predicates import ColumnTarget, arrow_expression

from .trees import NAN, called, compared, stored

DOUBLES = [None, NAN, -1.0, -0.0, 0.0, 1.0]
TEXTS = [None, "", "a", "ab", "b", "É", "K", "\u212a"]
UNKNOWN = Unknown("something")


def kept(predicate: Expression, values: list[Any], kind: pa.DataType) -> list[Any]:
    """Return the values of column `x` that its filter keeps."""
    expression = arrow_expression(predicate, {"x": stored(kind)})
    assert expression is not None
    batch = pa.record_batch({"x": pa.array(values, kind)})
    return list(batch.filter(pickle.loads(pickle.dumps(expression))).column(0).to_pylist())


@pytest.mark.parametrize(
    ("operator", "constant", "expected"),
    [
        ("=", 0.0, "[-0.0, 0.0]"),
        ("=", NAN, "[nan]"),
        ("<>", 0.0, "[nan, -1.0, 1.0]"),
        ("<>", NAN, "[-1.0, -0.0, 0.0, 1.0]"),
        ("<", -0.0, "[-1.0]"),
        ("<", NAN, "[-1.0, -0.0, 0.0, 1.0]"),
        ("<=", NAN, "[nan, -1.0, -0.0, 0.0, 1.0]"),
        (">", 0.0, "[nan, 1.0]"),
        (">", NAN, "[]"),
        (">=", 0.0, "[nan, -0.0, 0.0, 1.0]"),
        (">=", NAN, "[nan]"),
        ("is distinct from", NAN, "[None, -1.0, -0.0, 0.0, 1.0]"),
        ("is not distinct from", 0.0, "[-0.0, 0.0]"),
    ],
)
def test_nan_is_a_number_above_all_others(operator: str, constant: float, expected: str) -> None:
    """NaN equals itself and is greater than all else, and zero has no sign."""
    assert str(kept(compared(operator, constant), DOUBLES, pa.float64())) == expected


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        (called("prefix", "a"), ["a", "ab"]),
        (Not(called("prefix", "a")), ["", "b", "É", "K", "\u212a"]),
        (called("^@", ""), ["", "a", "ab", "b", "É", "K", "\u212a"]),
        (called("suffix", "b"), ["ab", "b"]),
        (called("contains", "a"), ["a", "ab"]),
        (called("~~", "a_"), ["ab"]),
        (called("!~~", "_"), ["", "ab"]),
        (called("like_escape", "!a%", "!"), ["a", "ab"]),
        (called("not_like_escape", "!%", "!"), ["", "a", "ab", "b", "É", "K", "\u212a"]),
        (called("~~*", "k"), ["K", "\u212a"]),
        (called("!~~*", "%"), []),
        (called("~~", None), []),
        (Not(called("~~", None)), []),
        (compared(">", "b"), ["É", "\u212a"]),
        (Comparison(ComparisonOperator.EQUAL, called("lower"), Constant(pa.scalar("k"))), ["K", "\u212a"]),
        (Comparison(ComparisonOperator.EQUAL, called("lower"), Constant(pa.scalar("K"))), []),
        (Comparison(ComparisonOperator.EQUAL, called("upper"), Constant(pa.scalar("AB"))), ["ab"]),
        (
            Comparison(ComparisonOperator.NOT_EQUAL, called("upper"), Constant(pa.scalar("a"))),
            ["", "a", "ab", "b", "É", "K", "\u212a"],
        ),
    ],
)
def test_texts_are_tested_as_in_duckdb(predicate: Expression, expected: list[str]) -> None:
    """Texts compare by bytes, and case mappings know the letters that become ASCII."""
    assert kept(predicate, TEXTS, pa.string()) == expected


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        (In(Column("x"), (Constant(pa.scalar(1)), Constant(pa.scalar(None, pa.int64())))), [1]),
        (Not(In(Column("x"), (Constant(pa.scalar(1)), Constant(pa.scalar(None, pa.int64()))))), []),
        (Not(In(Column("x"), (Constant(pa.scalar(1)), Constant(pa.scalar(3))))), [2]),
        (Or((compared("=", 1), compared("=", 2))), [1, 2]),
        (Not(And((compared(">=", 2), compared("<=", 3)))), [1]),
        (compared("=", None, pa.int64()), []),
        (Not(compared("=", None, pa.int64())), []),
        (compared("is distinct from", 1), [None, 2, 3]),
        (compared("is not distinct from", None, pa.int64()), [None]),
        (IsNull(Column("x")), [None]),
        (Not(IsNull(Column("x"))), [1, 2, 3]),
        (compared("<", 10**18), [1, 2, 3]),
        (compared(">", 10**18), []),
        (Comparison(ComparisonOperator.GREATER, Constant(pa.scalar(2)), Column("x")), [1]),
        (And((UNKNOWN, compared(">", 2))), [3]),
        (Not(Or((UNKNOWN, compared(">", 2)))), [1, 2]),
        (Coalesce((compared(">", 2), Constant(pa.scalar(False)))), [3]),
        (
            Comparison(
                ComparisonOperator.EQUAL,
                Coalesce((Column("x"), Constant(pa.scalar(1)))),
                Constant(pa.scalar(1)),
            ),
            [None, 1],
        ),
        (Case(((compared("<", 3), compared(">", 1)),), Constant(pa.scalar(False))), [2]),
        (Function("constant_or_null", (Constant(pa.scalar(True)), Column("x"))), [1, 2, 3]),
        (
            Comparison(ComparisonOperator.GREATER, Cast(Column("x"), pa.float64()), Constant(pa.scalar(1.5))),
            [2, 3],
        ),
        (Constant(pa.scalar(None, pa.bool_())), []),
    ],
)
def test_null_is_kept_only_where_the_predicate_is_true(predicate: Expression, expected: list[int]) -> None:
    """Three-valued logic holds, also around parts that are left out."""
    assert kept(predicate, [None, 1, 2, 3], pa.int32()) == expected


@pytest.mark.parametrize(
    "predicate",
    [
        None,
        UNKNOWN,
        Or((compared("=", 1), UNKNOWN)),
        Not(And((compared("=", 1), UNKNOWN))),
        Comparison(ComparisonOperator.EQUAL, Column("y"), Constant(pa.scalar(1))),
        Comparison(ComparisonOperator.EQUAL, Column("x"), Column("x")),
        Comparison(
            ComparisonOperator.EQUAL,
            Cast(Column("x"), pa.int8(), lenient=True),
            Constant(pa.scalar(1, pa.int8())),
        ),
        IsNull(Cast(Column("x"), pa.int64())),
        called("prefix", "a", "b"),
        called("prefix", "a"),
        Function("random", ()),
        Column("x"),
    ],
)
def test_what_cannot_be_said_keeps_all_rows(predicate: Expression | None) -> None:
    """A part that is not understood takes the OR around it with it, and filters nothing."""
    assert arrow_expression(predicate, {"x": stored(pa.int32())}) is None


def test_an_encoding_without_order_takes_equality_only() -> None:
    """A column whose storage is ordered otherwise is tested for equality, and no value that it lacks."""
    target = ColumnTarget(
        "p",
        pa.string(),
        pa.field("x", pa.int32()),
        True,
        False,
        lambda v: pa.scalar(str(v)) if v.as_py() else None,
    )
    equal = arrow_expression(compared("=", 7), {"x": target})

    assert str(equal) == '(p == "7")'
    assert arrow_expression(compared("<", 7), {"x": target}) is None
    assert arrow_expression(compared("=", 0), {"x": target}) is None


def test_a_value_in_another_storage_type_is_not_compared() -> None:
    """A column that is stored otherwise than its encoding says is not compared, but may be null."""
    columns = {
        "x": ColumnTarget("x", pa.int64(), pa.field("x", pa.string()), True, True, lambda value: value)
    }

    assert arrow_expression(compared("=", "a"), columns) is None
    assert arrow_expression(called("prefix", "a"), columns) is None
    assert str(arrow_expression(Not(IsNull(Column("x"))), columns)) == "is_valid(x)"


def test_an_unregistered_extension_type_is_not_compared() -> None:
    """The values of an extension type that nobody here knows may have an order of their own."""
    field = pa.field("x", pa.string(), metadata={"ARROW:extension:name": "their.type"})
    target = ColumnTarget("x", pa.string(), field, True, True, lambda value: value)

    assert arrow_expression(compared("=", "a"), {"x": target}) is None
    assert arrow_expression(called("prefix", "a"), {"x": target}) is None


def test_a_field_of_a_struct_is_found_by_its_path() -> None:
    """A struct's field has a target of its own; the field of a null struct is null."""
    kind = pa.struct([("a", pa.int32())])
    member = ColumnTarget(("p", "q"), pa.int32(), pa.field("a", pa.int32()), True, True, lambda value: value)
    column = ColumnTarget("p", kind, pa.field("x", kind), False, False, lambda _: None, (member,))
    path = Function("struct_extract", (Column("x"), Constant(pa.scalar("A"))))
    batch = pa.record_batch({"p": pa.array([None, {"q": None}, {"q": 1}], pa.struct([("q", pa.int32())]))})
    equal = arrow_expression(
        Comparison(ComparisonOperator.EQUAL, path, Constant(pa.scalar(1))), {"x": column}
    )
    null = arrow_expression(IsNull(path), {"x": column})

    assert batch.filter(equal).column(0).to_pylist() == [{"q": 1}]
    assert batch.filter(null).column(0).to_pylist() == [None, {"q": None}]


@pytest.mark.parametrize(
    ("predicate", "groups"),
    [
        (compared("=", 5), [1]),
        (compared("<", 5), [0, 1]),
        (compared(">=", 8.5), [2]),
        (In(Column("x"), (Constant(pa.scalar(1)), Constant(pa.scalar(9)))), [0, 2]),
        (compared("is not distinct from", None, pa.int64()), [3]),
        (compared(">", 10**18), []),
    ],
)
def test_row_groups_are_skipped_by_their_bounds(
    predicate: Expression, groups: list[int], tmp_path: Path
) -> None:
    """A filter is written in the form that Arrow holds against minima and maxima."""
    values = pa.table({"x": pa.array([1, 2, 3, 4, 5, 6, 8, 9, 9, None], pa.int32())})
    pq.write_table(values, tmp_path / "t.parquet", row_group_size=3)
    fragment = next(ds.dataset(tmp_path / "t.parquet").get_fragments())
    expression = arrow_expression(predicate, {"x": stored(pa.int32())})

    assert [group.id for group in fragment.subset(expression).row_groups] == groups


def test_a_prefix_skips_row_groups(tmp_path: Path) -> None:
    """A pattern with a literal start implies a range."""
    pq.write_table(pa.table({"x": ["a", "bz", "c", "d"]}), tmp_path / "t.parquet", row_group_size=1)
    fragment = next(ds.dataset(tmp_path / "t.parquet").get_fragments())
    columns = {"x": stored(pa.string())}

    for predicate in (called("prefix", "b"), called("~~", "b%z")):
        expression = arrow_expression(predicate, columns)
        assert [group.id for group in fragment.subset(expression).row_groups] == [1]


@pytest.mark.parametrize("operator", ["=", ">=", ">", "<>"])
def test_a_hidden_nan_keeps_its_row_group(operator: str, tmp_path: Path) -> None:
    """Minima and maxima leave NaN out, even where both say that there is one value only."""
    pq.write_table(pa.table({"x": [1.0, NAN, 1.0]}), tmp_path / "t.parquet")
    constant = NAN if operator == "=" else 1.0 if operator == "<>" else 2.0
    expression = arrow_expression(compared(operator, constant), {"x": stored(pa.float64())})
    found = ds.dataset(tmp_path / "t.parquet").to_table(filter=expression)

    assert str(found["x"].to_pylist()) == "[nan]"


def test_long_lists_are_one_test() -> None:
    """Ten thousand options are looked up in a set, with NaN and zero as DuckDB has them."""
    integers = In(Column("x"), tuple(Constant(pa.scalar(n)) for n in range(10_000)))
    floats = In(Column("x"), tuple(Constant(pa.scalar(float(n))) for n in range(10_000)))
    more = In(Column("x"), (Constant(pa.scalar(NAN)), Constant(pa.scalar(1.0))))
    values = [3.0, -0.0, -1.0, NAN, None]

    assert kept(integers, [3, -1, None], pa.int32()) == [3]
    assert str(kept(floats, values, pa.float64())) == "[3.0, -0.0]"
    assert str(kept(Not(floats), values, pa.float64())) == "[-1.0, nan]"
    assert str(kept(more, values, pa.float64())) == "[nan]"
    assert str(kept(Not(more), values, pa.float64())) == "[3.0, -0.0, -1.0]"


def test_too_many_tests_are_left_out() -> None:
    """Arrow cannot take thousands of tests: an AND keeps some, and an OR is dropped."""
    ranges = tuple(And((compared(">", n), compared("<", n + 2))) for n in range(0, 6_000, 3))
    columns = {"x": stored(pa.int32())}

    assert arrow_expression(Or(ranges), columns) is None
    assert kept(And((Or(ranges), compared(">", 1))), [1, 2, 3], pa.int32()) == [2, 3]
    assert kept(And(tuple(compared(">", n) for n in range(-6_000, 1))), [-9_000, 1], pa.int32()) == [1]


def test_a_filter_that_nothing_meets_is_a_filter() -> None:
    """A predicate that is never true keeps no row."""
    expression = arrow_expression(Constant(pa.scalar(False)), {})

    assert isinstance(expression, pc.Expression)
    assert pa.record_batch({"x": [1]}).filter(expression).num_rows == 0
