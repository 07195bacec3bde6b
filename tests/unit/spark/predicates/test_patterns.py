"""Patterns of texts."""

from __future__ import annotations

import duckdb
import pytest

from sparkport.spark.predicates.patterns import after, ilike, like, lower_pattern, upper_pattern


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("a", "b"),
        ("az", "a{"),
        ("a\U0010ffff", "b"),
        ("\ud7ff", "\ue000"),
        ("\U0010ffff", None),
    ],
)
def test_the_text_after_a_prefix_is_valid(start: str, expected: str | None) -> None:
    """The upper end of a prefix is a text too: there is nothing in the gap of the surrogates."""
    assert after(start) == expected


def test_a_like_pattern_knows_its_start() -> None:
    """What comes before the first wildcard, escaped ones included, starts every match."""
    pattern = like("a!%b%c", "!")

    assert pattern is not None
    assert pattern.start == "a%b"
    assert pattern.text == r"(?s)\Aa\x{25}b.*c\z"


def test_a_pattern_that_duckdb_refuses_is_none() -> None:
    """An escape character at the end escapes nothing, and it is one byte."""
    assert like("a!", "!") is None
    assert like("a", "é") is None


def test_letters_beyond_ascii_have_no_case_here() -> None:
    """Their case mappings depend on the Unicode version."""
    assert ilike("é%") is None
    assert lower_pattern("é") is None
    assert upper_pattern("É") is None


def test_no_other_letter_becomes_ascii() -> None:
    """The letters that DuckDB maps to ASCII are those that the patterns know."""
    rows = duckdb.execute(
        "SELECT chr(n::INTEGER) AS c, lower(c), upper(c) FROM range(128, 1114112) AS t(n) "
        "WHERE n NOT BETWEEN 55296 AND 57343 AND (ord(lower(c)) < 128 OR ord(upper(c)) < 128)"
    ).fetchall()

    assert rows == [
        ("\u0130", "i", "\u0130"),
        ("\u0131", "\u0131", "I"),
        ("\u017f", "\u017f", "S"),
        ("\u212a", "k", "\u212a"),
    ]
