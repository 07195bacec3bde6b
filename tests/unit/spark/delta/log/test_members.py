from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sparkport.spark.delta.log import members


@pytest.mark.parametrize(
    ("read", "value", "expected"),
    [
        (members.text, "a", "a"),
        (members.optional_text, None, None),
        (members.integer, 5, 5),
        (members.integer, "5", 5),
        (members.integer, 5.0, 5),
        (members.optional_integer, None, None),
        (members.optional_integer, 0, 0),
        (members.optional_object, None, None),
        (members.optional_object, {"x": 1}, {"x": 1}),
        (members.texts, None, []),
        (members.texts, ["a"], ["a"]),
        (members.text_values, None, {}),
        (members.text_values, {"x": "1", "y": None, "z": True, "n": 2}, {"x": "1", "z": "true", "n": "2"}),
        (members.optional_text_values, {"x": "1", "y": None}, {"x": "1", "y": None}),
    ],
)
def test_members_are_read(read: Callable[..., Any], value: object, expected: object) -> None:
    """What the protocol allows is given back, and what Delta reads as text is text."""
    assert read({"a": value}, "a") == expected


@pytest.mark.parametrize(
    ("read", "value", "message"),
    [
        (members.text, None, "a is not a text"),
        (members.text, 5, "a is not a text"),
        (members.integer, None, "a is not a whole number"),
        (members.integer, True, "a is not a whole number"),
        (members.integer, float("inf"), "a is not a whole number"),
        (members.integer, float("nan"), "a is not a whole number"),
        (members.integer, "five", "invalid literal for int"),
        (members.optional_object, [], "a is not an object"),
        (members.texts, "ab", "a is not a list of texts"),
        (members.texts, [{}], "a is not a list of texts"),
        (members.text_values, {"x": []}, "a is not an object of texts"),
    ],
)
def test_other_members_are_refused(read: Callable[..., Any], value: object, message: str) -> None:
    """A ValueError is what a damaged log raises; nothing else counts as damage."""
    with pytest.raises(ValueError, match=message):
        read({"a": value}, "a")
