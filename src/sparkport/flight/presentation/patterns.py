"""Search patterns of listings, as in SQL's LIKE."""

from __future__ import annotations

ESCAPE = "\\"
"""The character that takes the special meaning from the one after it."""

_ANY_TEXT = "%"
_ANY_CHARACTER = "_"


def matches(pattern: str | None, name: str) -> bool:
    """Return whether a name fits a pattern: % is any text, _ any character, and a backslash escapes both.

    A regular expression would take exponential time for many %.
    """
    if pattern is None:
        return True
    parts = _parts(pattern)
    at = position = 0
    retry: tuple[int, int] | None = None
    while at < len(name):
        part = parts[position] if position < len(parts) else None
        if part == (_ANY_TEXT, True):
            retry = (at, position)
            position += 1
        elif part in {(_ANY_CHARACTER, True), (name[at], False)}:
            at, position = at + 1, position + 1
        elif retry is not None:
            # Let the last % match one character more.
            retry = (retry[0] + 1, retry[1])
            at, position = retry[0], retry[1] + 1
        else:
            return False
    return all(part == (_ANY_TEXT, True) for part in parts[position:])


def _parts(pattern: str) -> list[tuple[str, bool]]:
    """Return the characters of a pattern, each with whether it is special."""
    parts: list[tuple[str, bool]] = []
    escaped = False
    for character in pattern:
        if character == ESCAPE and not escaped:
            escaped = True
            continue
        parts.append((character, not escaped and character in (_ANY_TEXT, _ANY_CHARACTER)))
        escaped = False
    return [*parts, (ESCAPE, False)] if escaped else parts
