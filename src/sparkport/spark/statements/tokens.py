"""The tokens of Spark SQL: enough to tell the parts of a change from each other.

Spark has parsed the statement before, so what is read here is well-formed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from sparkport.errors import InvalidRequestError
from sparkport.spark.query.placeholders import TOKEN
from sparkport.sql.tokens import Cursor, Token

_QUOTE = "`"
_OPENING = frozenset({"(", "[", "{", "CASE"})
_CLOSING = frozenset({")", "]", "}", "END"})
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "0": "\0", "%": "\\%", "_": "\\_"}


@dataclass(frozen=True, slots=True)
class SparkToken(Token):
    """A token, with names in back-ticks; the WHENs of a CASE are deeper than those of a MERGE."""

    @property
    def is_name(self) -> bool:
        """Whether the token can name something."""
        return self.text.startswith(_QUOTE) or self.text[:1].isalnum() or self.text.startswith("_")

    @property
    def name(self) -> str:
        """The token as the name of something."""
        if self.text.startswith(_QUOTE):
            return self.text[1:-1].replace(2 * _QUOTE, _QUOTE)
        return self.text


def cursor_of(sql: str) -> Cursor:
    """Return the tokens of a statement without its comments and its closing semicolon."""
    tokens: list[SparkToken] = []
    depth = end = place = 0
    for match in TOKEN.finditer(sql):
        place += len(sql[end : match.start()].encode())
        text, end = match.group(), match.end()
        size = len(text.encode())
        if text.startswith("/*") and "/*" in text[2:]:
            raise InvalidRequestError("a statement that changes rows cannot have a comment within a comment")
        if not text.startswith(("--", "/*")):
            depth -= text.upper() in _CLOSING
            tokens.append(SparkToken(text, place, place + size, depth))
            depth += text.upper() in _OPENING
        place += size
    if depth:
        raise InvalidRequestError("columns that are named `case` or `end` must be in back-ticks")
    while tokens and tokens[-1].text == ";":
        tokens.pop()
    return Cursor(sql, tokens)


def first_word(sql: str) -> str:
    """Return the word that a statement begins with, in upper case."""
    for match in TOKEN.finditer(sql):
        if not match.group().startswith(("--", "/*")):
            return match.group().upper()
    return ""


def text_of(cursor: Cursor) -> str:
    """Read a literal text. Raises InvalidRequestError if something else comes next."""
    token = cursor.token
    if token is None or token.text[:1] not in {"'", '"'}:
        raise cursor.unexpected()
    cursor.at += 1
    quote, inner = token.text[0], token.text[1:-1]
    return _ESCAPE.sub(lambda match: _unescaped(match[1]), inner.replace(2 * quote, f"\\{quote}"))


def _unescaped(escaped: str) -> str:
    return chr(int(escaped[1:], 16)) if len(escaped) > 1 else _ESCAPED.get(escaped, escaped)
