"""Other names for the tables of a query, and what is hidden in explanations."""

from __future__ import annotations

import pytest

from sparkport.spark.query.explanations import without_places
from sparkport.spark.query.renaming import rewritten
from sparkport.spark.query.result_names import distinct_names, name_given
from sparkport.spark.query.tables import NamedTable


def place(sql: str, text: str, name: tuple[str, ...]) -> NamedTable:
    """Return where a name is, as Spark's parser counts."""
    start = sql.index(text)
    return NamedTable(name, start, start + len(text) - 1)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT 1 FROM s.`a b`", "SELECT 1 FROM `k`.`t` AS `a b`"),
        ("SELECT '😀' FROM s.`a b` WHERE 1", "SELECT '😀' FROM `k`.`t` AS `a b` WHERE 1"),
        ("SELECT 1 FROM s.`a b` AS x", "SELECT 1 FROM `k`.`t` AS x"),
        ("SELECT 1 FROM s.`a b` /* c */ x", "SELECT 1 FROM `k`.`t` /* c */ x"),
        ("SELECT 1 FROM s.`a b` VERSION AS OF 1", "SELECT 1 FROM `k`.`t` VERSION AS OF 1"),
        ("(SELECT 1 FROM s.`a b`)", "(SELECT 1 FROM `k`.`t` AS `a b`)"),
        ("SELECT 1 FROM s.`a b` join u", "SELECT 1 FROM `k`.`t` AS `a b` join u"),
    ],
)
def test_a_table_keeps_its_old_name_as_an_alias(sql: str, expected: str) -> None:
    """Columns can go on naming it, unless the query gives it an alias of its own."""
    named = place(sql, "s.`a b`", ("s", "a b"))

    assert rewritten(sql, [named, named], lambda _: ("k", "t")) == expected
    assert rewritten(sql, [named], lambda _: None) == sql


def test_equal_names_are_told_apart_and_given_back() -> None:
    """The first column of a name keeps it, whatever the letter case of the others."""
    names = ["id", "ID", "x", "id"]
    made = distinct_names(names)

    assert len({name.lower() for name in made}) == 4
    assert made[0] == "id"
    assert [name_given(name) for name in made] == names


def test_an_explanation_has_no_places() -> None:
    """Folders of tables, and whatever looks like an address, are left out."""
    plan = "Scan parquet\nLocation: Index [file:/secret/lake/t]\nRead: a\nx /secret/lake/t/1 s3a://b/c"

    assert without_places(plan, ["/secret/lake/t"]) == "Scan parquet\nRead: a\nx (path)/1 (path)"
