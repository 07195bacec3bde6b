"""Parameters in the text of a query."""

from __future__ import annotations

import pytest

from sparkport.spark.errors import StatementSyntaxError
from sparkport.spark.query.placeholders import bound


@pytest.mark.parametrize(
    ("sql", "values", "wrong", "place"),
    [
        ("SELECT ? FRMO t", [1234567], "FRMO", (1, 10)),
        ("FRMO ?", [1], "FRMO", (1, 1)),
        ("SELECT 'a?' || ?\nFROM t WHERE WHERE x = ?", ["long 'text'\n\n", None], "WHERE x", (2, 14)),
        ("SELECT ?\n-- ?\nFROM\tt AND AND ?", ["\U0001f600\u2028", 1.5], "AND AND", (3, 8)),
        ("SELECT ?, ?", [[1, 2, 3], "wrong"], "'wrong'", (1, 11)),
        ("SELECT a ?", ["in the middle"], "middle", (1, 10)),
    ],
)
def test_places_are_those_in_the_statement_that_was_sent(
    sql: str, values: list[object], wrong: str, place: tuple[int, int]
) -> None:
    """Literals that stand for parameters shift no place, also those with line breaks in them."""
    with pytest.raises(StatementSyntaxError) as raised, bound(sql, values) as text:
        _fail_at(text, wrong)

    assert raised.value.place == place
    assert str(raised.value) == f"it is wrong (line {place[0]}, position {place[1]})"


def _fail_at(text: str, wrong: str) -> None:
    before = text[: text.index(wrong)]
    position = len(before) - (before.rfind("\n") + 1) + 1
    raise StatementSyntaxError("it is wrong", (before.count("\n") + 1, position))
