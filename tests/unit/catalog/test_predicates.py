from __future__ import annotations

import itertools

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

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
    children,
    column_names,
    conjuncts,
    walk,
    weaken,
)

A, B, C = Column("a"), Column("b"), Column("c")
ODD = Unknown("anything")


def known(expression: Expression) -> bool:
    """Understand everything without unknown parts."""
    return not any(isinstance(part, Unknown) for part in walk(expression))


def test_unknown_part_is_dropped_from_an_and() -> None:
    """The other conjuncts stay."""
    assert weaken(And((A, ODD, B)), known) == And((A, B))


def test_single_conjunct_stands_alone() -> None:
    """An AND of one is that one."""
    assert weaken(And((ODD, B)), known) == B


def test_and_without_known_parts_keeps_every_row() -> None:
    """Nothing known, nothing filtered."""
    assert weaken(And((ODD, ODD)), known) is None
    assert weaken(ODD, known) is None


def test_unknown_branch_takes_the_or_along() -> None:
    """A row that the unknown branch would keep must not be lost."""
    assert weaken(Or((A, ODD)), known) is None
    assert weaken(Or((A, B)), known) == Or((A, B))


def test_or_is_weakened_branch_by_branch() -> None:
    """A branch may lose conjuncts, but not become empty."""
    assert weaken(Or((And((A, ODD)), B)), known) == Or((A, B))
    assert weaken(Or((And((ODD, ODD)), B)), known) is None


def test_not_is_kept_or_dropped_whole() -> None:
    """Weakening below a NOT would make it stricter."""
    assert weaken(Not(And((A, ODD))), known) is None
    assert weaken(Not(And((A, B))), known) == Not(And((A, B)))


def test_nothing_else_is_opened() -> None:
    """Weakening below any other part would change its value."""
    for whole in (IsNull(And((A, ODD))), Coalesce((And((A, ODD)), B)), Case(((A, ODD),), B)):
        assert weaken(whole, known) is None


def test_every_part_is_walked() -> None:
    """Columns are found wherever they are."""
    one = Constant(pa.scalar(1))
    expression = And(
        (
            Comparison(ComparisonOperator.EQUAL, Column("c1"), one),
            Or((Not(Column("c2")), IsNull(Column("c3")))),
            In(Column("c4"), (Column("c5"), one)),
            Cast(Column("c6"), pa.int8()),
            Case(((Column("c7"), Column("c8")),), Column("c9")),
            Coalesce((Column("c10"), ODD)),
            Function("+", (Column("c11"), one)),
        )
    )

    assert column_names(expression) == {f"c{number}" for number in range(1, 12)}
    assert children(ODD) == ()


def test_conjuncts_are_flattened() -> None:
    """Nested ANDs are one list; anything else is a list of one."""
    assert conjuncts(And((A, And((B, And((C,))))))) == (A, B, C)
    assert conjuncts(Or((A, B))) == (Or((A, B)),)
    assert conjuncts(None) == ()


def truth(expression: Expression, values: dict[str, bool | None]) -> bool | None:
    """Evaluate AND, OR and NOT in three-valued logic; unknown parts are columns in disguise."""
    match expression:
        case Column(name) | Unknown(name):
            return values[name]
        case Not(child):
            inner = truth(child, values)
            return None if inner is None else not inner
        case And(parts):
            found = [truth(part, values) for part in parts]
            return False if False in found else None if None in found else True
        case Or(parts):
            found = [truth(part, values) for part in parts]
            return True if True in found else None if None in found else False
        case _:
            raise AssertionError(expression)


LEAVES: list[Expression] = [Column("a"), Column("b"), Unknown("x"), Unknown("y")]
trees: st.SearchStrategy[Expression] = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: st.one_of(
        inner.map(Not),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: And(tuple(parts))),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: Or(tuple(parts))),
    ),
    max_leaves=8,
)


@given(trees)
def test_weakened_predicate_holds_wherever_the_whole_does(expression: Expression) -> None:
    """No row that the client would keep is lost, whatever the unknown parts mean."""
    weaker = weaken(expression, known)
    if weaker is None:
        return
    assert known(weaker)
    for chosen in itertools.product([True, False, None], repeat=4):
        values = dict(zip("abxy", chosen, strict=True))
        if truth(expression, values) is True:
            assert truth(weaker, values) is True


@given(trees)
def test_understood_predicate_is_kept_whole(expression: Expression) -> None:
    """Weakening does nothing where everything is understood, but for ANDs of one."""
    weaker = weaken(expression, lambda _: True)

    assert weaker is not None
    for chosen in itertools.product([True, False, None], repeat=4):
        values = dict(zip("abxy", chosen, strict=True))
        assert truth(weaker, values) == truth(expression, values)
