"""The names of the columns of a result: Spark's rows are read by name, so that equal ones are told apart."""

from __future__ import annotations

from collections.abc import Sequence

_AGAIN = "\x1fcolumn "  # with a control character, which no name has by chance


def distinct_names(names: Sequence[str]) -> list[str]:
    """Return names that differ in more than letter case; those that are there for the first time stay."""
    seen: set[str] = set()
    distinct = []
    for number, name in enumerate(names, 1):
        made = f"{name}{_AGAIN}{number}" if name.lower() in seen else name
        seen.add(made.lower())
        distinct.append(made)
    return distinct


def name_given(name: str) -> str:
    """Return the name that a query has given to a column."""
    return name.partition(_AGAIN)[0]
