"""Patterns of names, such as `lakehouse.sales.*`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sparkport.errors import ConfigError

_PART = re.compile(r'"((?:[^"]|"")+)"|([^."\s]+)')


@dataclass(frozen=True, slots=True)
class NamePattern:
    """A name with its parts, in which `*` stands for any text within a part; letter case does not matter."""

    text: str
    parts: tuple[re.Pattern[str], ...]

    def matches(self, path: tuple[str, ...]) -> bool:
        """Return whether the path begins with names that the parts match."""
        if len(path) < len(self.parts):
            return False
        return all(part.fullmatch(name) for part, name in zip(self.parts, path, strict=False))

    def reaches_below(self, path: tuple[str, ...]) -> bool:
        """Return whether the pattern could match something inside what the path names."""
        if len(path) >= len(self.parts):
            return False
        return all(part.fullmatch(name) for part, name in zip(self.parts, path, strict=False))


def parse_pattern(text: str) -> NamePattern:
    """Return the pattern of a text; a part in double quotes may have dots. Raises ConfigError."""
    return NamePattern(text, tuple(map(_part, parse_name(text))))


def parse_name(text: str) -> tuple[str, ...]:
    """Return the parts of a name; one in double quotes may have dots. Raises ConfigError."""
    parts: list[str] = []
    position = 0
    while True:
        found = _PART.match(text, position)
        if found is None:
            raise ConfigError(f"{text!r} is not a name such as lakehouse.sales.orders")
        quoted, bare = found.groups()
        parts.append(quoted.replace('""', '"') if quoted else bare)
        position = found.end()
        if position == len(text):
            return tuple(parts)
        if text[position] != ".":
            raise ConfigError(f"{text!r} is not a name such as lakehouse.sales.orders")
        position += 1


def _part(text: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, text.split("*"))), re.IGNORECASE | re.DOTALL)
