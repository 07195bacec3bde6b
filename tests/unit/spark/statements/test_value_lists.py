"""DEFAULT among the values of an INSERT."""

from __future__ import annotations

import pytest

from sparkport.spark.statements.value_lists import with_default_marks


@pytest.mark.parametrize(
    ("query", "marked"),
    [
        ("VALUES (1, DEFAULT), (f(2, 3), 'DEFAULT')", "VALUES (1, NULL, TRUE), (f(2, 3), 'DEFAULT', FALSE)"),
        ("values (default)", "VALUES (NULL, TRUE)"),
        ("VALUES (DEFAULT, (1, 2), DEFAULT)", "VALUES (NULL, (1, 2), NULL, TRUE, TRUE)"),
    ],
)
def test_a_default_becomes_a_null_with_a_mark(query: str, marked: str) -> None:
    """Each row has as many marks as columns have the word somewhere."""
    assert with_default_marks(query)[0] == marked


@pytest.mark.parametrize(
    "query",
    ["VALUES (1, 'DEFAULT')", "VALUES (`default`)", "SELECT DEFAULT", "VALUES (f(DEFAULT))", "VALUES 1, 2"],
)
def test_other_rows_stay_as_they_are(query: str) -> None:
    """The word alone is a value; in a text or within an expression it is none."""
    assert with_default_marks(query) == (query, ())
