"""Two rows of one key."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

from sparkport.catalog.tables import TableConstraints
from sparkport.errors import ConstraintViolationError
from sparkport.toolkit.keys import Key, KeySet, example, keys_of
from tests.behaviour.samples import SAMPLES

KEY = Key("UNIQUE", ("c",))


def test_all_keys_of_a_table() -> None:
    """The primary key is one of them."""
    constraints = TableConstraints(("a > 0",), ("a", "b"), (("c",),))

    assert keys_of(constraints) == [Key("UNIQUE", ("c",)), Key("PRIMARY KEY", ("a", "b"))]


@pytest.mark.parametrize("name", SAMPLES)
def test_values_of_every_type_are_compared(name: str) -> None:
    """The values are apart from each other, and each is found again; NULL is equal to nothing."""
    values = pa.chunked_array([SAMPLES[name]])
    if name in {"bool", "dictionary", "dictionary of large texts", "run-end encoded", "arrow.bool8"}:
        values = values.slice(0, 3)  # a value comes twice
    known = KeySet("t", KEY, pa.table({"c": values}))
    empty = pa.table({"c": pa.chunked_array([SAMPLES[name].slice(0, 0)])})
    known.check_apart(empty)

    if name == "null":
        known.check_apart(pa.table({"c": values}))
    else:
        with pytest.raises(ConstraintViolationError, match=r"^UNIQUE constraint of table 't' failed in"):
            known.check_apart(pa.table({"c": values.slice(0, 1)}))


@pytest.mark.parametrize(("one", "other"), [(0.0, -0.0), (math.nan, -math.nan)])
def test_floats_are_equal_as_in_sql(one: float, other: float) -> None:
    """Both zeros are one value, and so is every NaN."""
    with pytest.raises(ConstraintViolationError):
        KeySet("t", KEY, pa.table({"c": [one, other]}))


def test_a_key_is_taken_as_a_whole() -> None:
    """Parts may be the same, and a part that is NULL makes the key equal to none."""
    rows = pa.table({"a": [1, 1, None, None], "b": ["x", "y", "x", "x"]})
    known = KeySet("t", Key("PRIMARY KEY", ("a", "b")), rows)
    known.check_apart(pa.table({"b": ["z", "x"], "a": [1, None]}))

    with pytest.raises(ConstraintViolationError) as caught:
        known.check_apart(pa.table({"b": ["z", "y"], "a": [1, 1]}))
    assert str(caught.value) == "PRIMARY KEY constraint of table 't' failed in column 'a, b': a=1, b='y'"


def test_example_is_short() -> None:
    """A message shows the beginning of a long row."""
    assert example(pa.table({"a": ["x" * 100]}), ["a"]) == "a='" + "x" * 54 + "..."
