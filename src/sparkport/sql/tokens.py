"""A statement as a list of tokens: enough to tell the parts of a change from each other.

DuckDB has parsed the statement before, so what is read here is well-formed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import duckdb

from sparkport.errors import InvalidRequestError

_QUOTE = '"'


@dataclass(frozen=True, slots=True)
class Token:
    """A token; `depth` counts the parentheses and brackets that are open before it."""

    text: str
    start: int
    end: int
    depth: int

    def is_word(self, *words: str) -> bool:
        """Return whether the token is one of these words, which are in upper case."""
        return self.text.upper() in words

    @property
    def is_name(self) -> bool:
        """Whether the token can name something."""
        return self.name[:1].isalnum() or self.text.startswith(_QUOTE) or "_" in self.text

    @property
    def name(self) -> str:
        """The token as the name of something."""
        if self.text.startswith(_QUOTE) and self.text.endswith(_QUOTE):
            return self.text[1:-1].replace(2 * _QUOTE, _QUOTE)
        return self.text


def tokenize(sql: str) -> list[Token]:
    """Return the tokens of a statement without its comments and its closing semicolon."""
    data = sql.encode()
    starts = [start for start, _ in duckdb.tokenize(sql)]
    tokens: list[Token] = []
    depth = 0
    for start, limit in zip(starts, [*starts[1:], len(data)], strict=True):
        text = _without_comment(data[start:limit].decode())
        # Two operators next to each other are one token for DuckDB only if they belong together.
        depth -= text in {")", "]", "}"}
        tokens.append(Token(text, start, start + len(text.encode()), depth))
        depth += text in {"(", "[", "{"}
    while tokens and tokens[-1].text == ";":
        tokens.pop()
    return tokens


def _without_comment(text: str) -> str:
    """Return the token at the start of a text that goes on to the next token."""
    if text.startswith(("'", _QUOTE)):
        quote = text[0]
        at = 1
        while at < len(text):
            if text[at] == quote:
                if text[at + 1 : at + 2] != quote:
                    return text[: at + 1]
                at += 1
            at += 1
        return text
    for mark in ("--", "/*"):
        text = text.partition(mark)[0]
    return text.rstrip()


@dataclass(slots=True)
class Cursor:
    """Reads the tokens of a statement one after the other."""

    sql: str
    tokens: Sequence[Token]
    at: int = 0

    @property
    def token(self) -> Token | None:
        """The next token, None at the end."""
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def skip(self, *words: str) -> bool:
        """Go past words if they come next, and return whether they do."""
        following = self.tokens[self.at : self.at + len(words)]
        if len(following) == len(words) and all(
            token.is_word(word) for token, word in zip(following, words, strict=True)
        ):
            self.at += len(words)
            return True
        return False

    def expect(self, *words: str) -> None:
        """Go past words. Raises InvalidRequestError if others come next."""
        if not self.skip(*words):
            raise self.unexpected()

    def name(self) -> str:
        """Read one name."""
        token = self.token
        if token is None or not token.is_name:
            raise self.unexpected()
        self.at += 1
        return token.name

    def names(self) -> tuple[str, ...]:
        """Read a name with its qualifiers."""
        names = [self.name()]
        while self.skip("."):
            names.append(self.name())
        return tuple(names)

    def until(self, *words: str) -> str:
        """Read up to one of some words outside of parentheses, or to the end, and return the text."""
        start = self.at
        depth = self.token.depth if self.token else 0
        while self.token is not None and not (self.token.depth == depth and self.token.is_word(*words)):
            self.at += 1
        return self.text(start, self.at)

    def text(self, start: int, end: int) -> str:
        """Return the text of some tokens, as it was written."""
        if start >= end:
            return ""
        data = self.sql.encode()
        return data[self.tokens[start].start : self.tokens[end - 1].end].decode()

    def rest(self) -> str:
        """Read up to the end and return the text."""
        start, self.at = self.at, len(self.tokens)
        return self.text(start, self.at)

    def end(self) -> None:
        """Raise InvalidRequestError if something is left."""
        if self.token is not None:
            raise self.unexpected()

    def unexpected(self) -> InvalidRequestError:
        """Return the error for what comes next."""
        token = self.token
        where = "the end of the statement" if token is None else f"'{token.text[:40]}'"
        return InvalidRequestError(f"this statement is not offered with {where} at this place")
