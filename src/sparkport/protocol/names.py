"""Names in request bodies: of schemas, tables, columns, functions and transactions."""

from __future__ import annotations

import re
from typing import Annotated

import msgspec

Name = Annotated[str, msgspec.Meta(min_length=1)]
"""The type of a field that names something."""

_EMPTY = re.compile(r"Expected `str` of length >= 1 - at `\$\.(.+)`")


def explain(error: Exception) -> str:
    """Return why a request body could not be decoded; an empty name is called that."""
    empty = _EMPTY.fullmatch(str(error))
    return f"'{empty[1]}' must not be empty" if empty else str(error)
