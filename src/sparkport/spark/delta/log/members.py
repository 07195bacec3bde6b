"""Members of the JSON objects in a log, checked: whoever wrote the log may have written anything.

All functions raise ValueError for a member that is not what the protocol says.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

Object = Mapping[str, Any]


def text(raw: Object, name: str) -> str:
    """Return a required text."""
    value = raw.get(name)
    if isinstance(value, str):
        return value
    raise _wrong(name, "text")


def optional_text(raw: Object, name: str) -> str | None:
    """Return a text, or None if it is absent."""
    return None if raw.get(name) is None else text(raw, name)


def integer(raw: Object, name: str) -> int:
    """Return a required whole number; some writers quote it or give it a decimal point."""
    value = raw.get(name)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) or (isinstance(value, float) and value.is_integer()):
        return int(value)
    raise _wrong(name, "whole number")


def optional_integer(raw: Object, name: str) -> int | None:
    """Return a whole number, or None if it is absent."""
    return None if raw.get(name) is None else integer(raw, name)


def optional_object(raw: Object, name: str) -> Object | None:
    """Return an object, or None if it is absent."""
    value = raw.get(name)
    if value is None or isinstance(value, dict):
        return value
    raise _wrong(name, "object")


def texts(raw: Object, name: str) -> list[str]:
    """Return a list of texts, empty if it is absent."""
    value = raw.get(name)
    if value is None:
        return []
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return value
    raise _wrong(name, "list of texts")


def text_values(raw: Object, name: str) -> dict[str, str]:
    """Return an object whose values are texts; those that are null are left out."""
    values = optional_text_values(raw, name)
    return {key: value for key, value in values.items() if value is not None}


def optional_text_values(raw: Object, name: str) -> dict[str, str | None]:
    """Return an object whose values are texts or null, empty if it is absent."""
    values = optional_object(raw, name) or {}
    return {
        key: value if value is None or isinstance(value, str) else _as_text(value, name)
        for key, value in values.items()
    }


def _as_text(value: object, name: str) -> str:
    """Return a number or a boolean as the text that Delta takes it for."""
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    raise _wrong(name, "object of texts")


def _wrong(name: str, expected: str) -> ValueError:
    article = "an" if expected[0] in "aeiou" else "a"
    return ValueError(f"{name} is not {article} {expected}")
