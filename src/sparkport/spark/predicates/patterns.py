"""DuckDB's tests of texts as patterns that Arrow and Spark match alike.

The regular expressions use only what RE2 and Java read the same way: `.` for any one
character, also a line break, and characters by number.
"""

from __future__ import annotations

import enum
import itertools
import string
from dataclasses import dataclass

_LITERAL = frozenset(string.ascii_letters + string.digits)
_LAST_CHARACTER = "\U0010ffff"
_SURROGATES = range(0xD800, 0xE000)
# All of Unicode that maps to an ASCII letter beside the other ASCII letter: dotted capital I and the
# Kelvin sign by lower(), dotless i and long s by upper().
_BECOMING_LOWER = {"i": "\u0130", "k": "\u212a"}
_BECOMING_UPPER = {"I": "\u0131", "S": "\u017f"}


class PatternKind(enum.Enum):
    """Where in a text the pattern has to be."""

    PREFIX = enum.auto()
    SUFFIX = enum.auto()
    PART = enum.auto()
    REGEX = enum.auto()


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern; `start` is what every matching text begins with."""

    kind: PatternKind
    text: str
    start: str = ""


def prefix(text: str) -> Pattern:
    """Return the pattern of texts that start with this one."""
    return Pattern(PatternKind.PREFIX, text, start=text)


def suffix(text: str) -> Pattern:
    """Return the pattern of texts that end with this one."""
    return Pattern(PatternKind.SUFFIX, text)


def part(text: str) -> Pattern:
    """Return the pattern of texts that contain this one."""
    return Pattern(PatternKind.PART, text)


def like(pattern: str, escape: str = "") -> Pattern | None:
    """Return the pattern that LIKE means; None where DuckDB refuses it."""
    if len(escape.encode()) > 1:
        return None
    symbols: list[tuple[str, bool]] = []
    remaining = iter(pattern)
    for symbol in remaining:
        if symbol == escape:
            if (literal := next(remaining, None)) is None:
                return None
            symbols.append((literal, True))
        else:
            symbols.append((symbol, symbol not in "%_"))
    start = "".join(symbol for symbol, _ in itertools.takewhile(lambda pair: pair[1], symbols))
    body = "".join(_quote(symbol) if literal else _WILDCARDS[symbol] for symbol, literal in symbols)
    return Pattern(PatternKind.REGEX, _whole(body), start)


def ilike(pattern: str) -> Pattern | None:
    """Return the pattern that ILIKE means; None for letters whose case depends on the Unicode version."""
    if not pattern.isascii():
        return None
    body = (_WILDCARDS.get(symbol) or _any_case(symbol.lower(), _BECOMING_LOWER) for symbol in pattern)
    return Pattern(PatternKind.REGEX, _whole("".join(body)))


def lower_pattern(text: str) -> Pattern | None:
    """Return the pattern of texts that lower() turns into this lower-case one; None as for ILIKE."""
    if not text.isascii():
        return None
    return Pattern(PatternKind.REGEX, _whole("".join(_any_case(symbol, _BECOMING_LOWER) for symbol in text)))


def upper_pattern(text: str) -> Pattern | None:
    """Return the pattern of texts that upper() turns into this upper-case one; None as for ILIKE."""
    if not text.isascii():
        return None
    return Pattern(PatternKind.REGEX, _whole("".join(_any_case(symbol, _BECOMING_UPPER) for symbol in text)))


def after(start: str) -> str | None:
    """Return the least text greater than all that start so; None if there is none."""
    trimmed = start.rstrip(_LAST_CHARACTER)
    if not trimmed:
        return None
    following = ord(trimmed[-1]) + 1
    return trimmed[:-1] + chr(_SURROGATES.stop if following in _SURROGATES else following)


_WILDCARDS = {"%": ".*", "_": "."}


def _whole(body: str) -> str:
    return rf"(?s)\A{body}\z"


def _quote(symbol: str) -> str:
    return symbol if symbol in _LITERAL else f"\\x{{{ord(symbol):x}}}"


def _any_case(symbol: str, more: dict[str, str]) -> str:
    if symbol not in string.ascii_letters:
        return _quote(symbol)
    return f"[{symbol.lower()}{symbol.upper()}{''.join(map(_quote, more.get(symbol, '')))}]"
