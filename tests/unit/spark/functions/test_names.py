from __future__ import annotations

import pytest

from sparkport.errors import InvalidRequestError
from sparkport.spark.functions.names import schema_and_table, split_name


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("orders", ("orders",)),
        (" sales . orders ", ("sales", "orders")),
        ('sales."the ""odd"" one"', ("sales", 'the "odd" one')),
        ("`a``b`.`c.d`", ("a`b", "c.d")),
        ("größe.x y", ("größe", "x y")),
        ("a.b.c", ("a", "b", "c")),
    ],
)
def test_a_name_has_parts(text: str, parts: tuple[str, ...]) -> None:
    """Parts are parted by dots, and quoted as in DuckDB or Spark where they have any in them."""
    assert split_name(text) == parts


@pytest.mark.parametrize("text", ["", " ", ".", "a.", ".a", 'a."b', 'a"b"', '""', "``", 'a."b"c'])
def test_what_is_no_name_is_refused(text: str) -> None:
    """A name that is cut off, empty or half quoted is not guessed at."""
    with pytest.raises(InvalidRequestError, match="is not the name of a table"):
        split_name(text)


def test_a_table_without_a_schema_is_in_the_default_one() -> None:
    """More than a schema and a table cannot be meant."""
    assert schema_and_table("t") == ("default", "t")
    with pytest.raises(InvalidRequestError, match="too many parts"):
        schema_and_table("a.b.c")
