"""The file with roles, grants, row filters and column masks."""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from sparkport.access.patterns import NamePattern, parse_pattern
from sparkport.access.rules import EVERYONE, AccessRules, ColumnMask, Grant, Kind, RowFilter, Subjects
from sparkport.catalog.guards import Privilege
from sparkport.errors import ConfigError

_HEADER = re.compile(r"\s*\[\[?\s*([A-Za-z_]+)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"""\s*["']?([A-Za-z0-9_.@-]+)["']?\s*=""")
_KINDS = {f"{kind}s": kind for kind in Kind}
_SECTIONS = ("roles", "grant", "filter", "mask")


def read_rules(path: Path) -> AccessRules:
    """Return what a file says. Raises ConfigError with all that is wrong and the lines."""
    try:
        with path.open("rb") as file:
            is_open_to_others = bool(os.fstat(file.fileno()).st_mode & (stat.S_IWGRP | stat.S_IWOTH))
            text = file.read().decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text in UTF-8"
        raise ConfigError(f"the access file '{path}' cannot be read: {reason}") from error
    if is_open_to_others:
        raise ConfigError(f"others can write the access file '{path}'; use: chmod go-w {path}")
    try:
        return parse_rules(text)
    except ConfigError as error:
        raise ConfigError(f"the access file '{path}' is not valid:\n{error}") from None


def parse_rules(text: str) -> AccessRules:
    """Return what a text says. Raises ConfigError with all that is wrong and the lines."""
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"  {error}") from error
    return _Reader(content, _Lines(text)).rules()


class _Lines:
    """Where the parts of a file are: the parser does not tell."""

    def __init__(self, text: str) -> None:
        self._lines: dict[tuple[str, int, str], int] = {}
        counts = dict.fromkeys(_SECTIONS, -1)
        section, quote = "", ""
        for number, line in enumerate(text.splitlines(), 1):
            if not quote:
                header, key = _HEADER.match(line), _KEY.match(line)
                if header:
                    section = header[1]
                    counts[section] = counts.get(section, -1) + 1
                    self._lines[section, counts[section], ""] = number
                elif key:
                    self._lines[section, counts.get(section, -1), key[1]] = number
            for mark in ('"""', "'''"):
                if line.count(mark) % 2:
                    quote = "" if quote == mark else quote or mark

    def of(self, section: str, index: int, key: str = "") -> int:
        """Return the line of a key, or of the header of its block."""
        return self._lines.get((section, index, key)) or self._lines.get((section, index, ""), 1)


class _Reader:
    """Turns the content of a file into rules, and collects everything that is wrong."""

    def __init__(self, content: Mapping[str, Any], lines: _Lines) -> None:
        self._content = content
        self._lines = lines
        self._errors: list[tuple[int, str]] = []

    def rules(self) -> AccessRules:
        """Return the rules. Raises ConfigError."""
        for name in self._content:
            if name not in _SECTIONS:
                self._wrong(name, 0, "", f"there is no part '{name}': use {', '.join(_SECTIONS)}")
        members = self._members()
        grants = [grant for block in self._blocks("grant") for grant in self._grants(*block, members.keys())]
        filters = [one for block in self._blocks("filter") for one in self._filters(*block, members.keys())]
        masks = [one for block in self._blocks("mask") for one in self._masks(*block, members.keys())]
        if self._errors:
            raise ConfigError("\n".join(f"  line {line}: {text}" for line, text in sorted(self._errors)))
        return AccessRules(members, tuple(grants), tuple(filters), tuple(masks))

    def _members(self) -> dict[str, frozenset[str]]:
        roles = self._content.get("roles", {})
        if not isinstance(roles, dict):
            self._wrong("roles", 0, "", "roles is a table: [roles]")
            return {}
        members: dict[str, frozenset[str]] = {}
        for role, names in roles.items():
            if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
                self._wrong("roles", 0, role, f"role '{role}' is a list of names, which may be empty")
                names = []  # noqa: PLW2901  (what is wrong was said)
            members[role] = frozenset(names)
        return members

    def _blocks(self, section: str) -> Iterable[tuple[int, dict[str, Any]]]:
        blocks = self._content.get(section, [])
        if not isinstance(blocks, list) or not all(isinstance(block, dict) for block in blocks):
            self._wrong(section, 0, "", f"write [[{section}]], once for each")
            return []
        return list(enumerate(blocks))

    def _grants(self, index: int, block: dict[str, Any], roles: Iterable[str]) -> Iterable[Grant]:
        self._check_keys("grant", index, block, {"to", "unless", "allow", "deny", *_KINDS})
        subjects = self._subjects("grant", index, block, "to", roles)
        line = self._lines.of("grant", index)
        things = [(key, kind) for key, kind in _KINDS.items() if key in block]
        if not things:
            self._wrong("grant", index, "", f"it is about nothing: give one of {', '.join(_KINDS)}")
        if "allow" not in block and "deny" not in block:
            self._wrong("grant", index, "", "it neither allows nor denies anything")
        for key, kind in things:
            patterns = list(self._patterns("grant", index, block, key, kind))
            for word in ("allow", "deny"):
                privileges = self._privileges(index, block, word, kind)
                for pattern in patterns if privileges else ():
                    yield Grant(subjects, kind, pattern, privileges, word == "deny", line)

    def _filters(self, index: int, block: dict[str, Any], roles: Iterable[str]) -> Iterable[RowFilter]:
        self._check_keys("filter", index, block, {"for", "unless", "tables", "rows"})
        subjects = self._subjects("filter", index, block, "for", roles)
        condition = self._text("filter", index, block, "rows", "a condition such as \"region = 'EU'\"")
        for pattern in self._patterns("filter", index, block, "tables", Kind.TABLE):
            yield RowFilter(subjects, pattern, condition, self._lines.of("filter", index))

    def _masks(self, index: int, block: dict[str, Any], roles: Iterable[str]) -> Iterable[ColumnMask]:
        self._check_keys("mask", index, block, {"for", "unless", "columns", "value"})
        subjects = self._subjects("mask", index, block, "for", roles)
        value = self._text("mask", index, block, "value", "an expression such as \"'***'\"")
        for pattern in self._patterns("mask", index, block, "columns", Kind.COLUMN):
            yield ColumnMask(subjects, pattern, value, self._lines.of("mask", index))

    def _subjects(
        self, section: str, index: int, block: dict[str, Any], key: str, roles: Iterable[str]
    ) -> Subjects:
        if key not in block:
            self._wrong(
                section, index, "", f"it does not say whom it is for: {key} = a role, or '{EVERYONE}'"
            )
        known = {*roles}
        subjects = {EVERYONE}
        unless: set[str] = set()
        for word, names in ((key, subjects), ("unless", unless)):
            if word in block:
                names.clear()
                names.update(self._texts(section, index, block, word))
                for name in names - known - ({EVERYONE} if word == key else set()):
                    self._wrong(section, index, word, f"role '{name}' is not in [roles]")
        return Subjects(frozenset(subjects), frozenset(unless))

    def _privileges(self, index: int, block: dict[str, Any], word: str, kind: Kind) -> frozenset[Privilege]:
        names = self._texts("grant", index, block, word) if word in block else []
        privileges: set[Privilege] = set()
        for name in names:
            if name == EVERYONE:
                privileges |= kind.privileges
            elif name not in set(Privilege):
                self._wrong("grant", index, word, f"there is no '{name}': use {', '.join(Privilege)}")
            elif name not in kind.privileges:
                self._wrong("grant", index, word, f"'{name}' is nothing that can be done to a {kind}")
            else:
                privileges.add(Privilege(name))
        return frozenset(privileges)

    def _patterns(
        self, section: str, index: int, block: dict[str, Any], key: str, kind: Kind
    ) -> Iterable[NamePattern]:
        if key not in block:
            self._wrong(section, index, "", f"it needs {key}")
            return
        for text in self._texts(section, index, block, key):
            try:
                pattern = parse_pattern(text)
            except ConfigError as error:
                self._wrong(section, index, key, str(error))
                continue
            if len(pattern.parts) == kind.parts:
                yield pattern
            else:
                form = ".".join(["catalog", "schema", "table", "column"][: kind.parts])
                form = f"catalog.schema.{kind}" if kind is Kind.FUNCTION else form
                form = kind if kind is Kind.ACTION else form
                self._wrong(section, index, key, f"the name of a {kind} is written {form}, not '{text}'")

    def _texts(self, section: str, index: int, block: dict[str, Any], key: str) -> list[str]:
        value = block[key]
        values = [value] if isinstance(value, str) else value
        if not isinstance(values, list) or not all(isinstance(one, str) for one in values) or not values:
            self._wrong(section, index, key, f"{key} is a text or a list of texts")
            return []
        return values

    def _text(self, section: str, index: int, block: dict[str, Any], key: str, example: str) -> str:
        value = block.get(key)
        if not isinstance(value, str) or not value.strip():
            self._wrong(section, index, key, f"{key} is {example}")
            return "false"
        return value

    def _check_keys(self, section: str, index: int, block: dict[str, Any], known: set[str]) -> None:
        for key in block:
            if key not in known:
                self._wrong(section, index, key, f"there is no '{key}': use {', '.join(sorted(known))}")

    def _wrong(self, section: str, index: int, key: str, text: str) -> None:
        error = self._lines.of(section, index, key), text
        if error not in self._errors:
            self._errors.append(error)
