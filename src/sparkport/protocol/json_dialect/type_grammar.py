"""Arrow types as words: how the JSON dialect spells the type of a column.

Plain words (`int64`, `timestamp`) have defaults; parameters are written as Arrow
prints them (`timestamp[us, tz=UTC]`, `decimal128(10, 2)`, `list<int64>`,
`struct<a: int64, b: list<utf8>>`).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence

import pyarrow as pa

from sparkport.errors import InvalidRequestError
from sparkport.protocol import schemas

GEOMETRY = "extension<airport.geometry>"

_PLAIN: dict[str, pa.DataType] = {
    "null": pa.null(),
    "bool": pa.bool_(),
    "boolean": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "uint8": pa.uint8(),
    "uint16": pa.uint16(),
    "uint32": pa.uint32(),
    "uint64": pa.uint64(),
    "float16": pa.float16(),
    "halffloat": pa.float16(),
    "float32": pa.float32(),
    "float": pa.float32(),
    "float64": pa.float64(),
    "double": pa.float64(),
    "utf8": pa.string(),
    "string": pa.string(),
    "large_utf8": pa.large_string(),
    "large_string": pa.large_string(),
    "string_view": pa.string_view(),
    "utf8_view": pa.string_view(),
    "binary": pa.binary(),
    "large_binary": pa.large_binary(),
    "binary_view": pa.binary_view(),
    "date32": pa.date32(),
    "date64": pa.date64(),
    "timestamp": pa.timestamp("us"),
    "time32": pa.time32("ms"),
    "time64": pa.time64("us"),
    "duration": pa.duration("us"),
    "interval": pa.month_day_nano_interval(),
    "month_day_nano_interval": pa.month_day_nano_interval(),
    "extension<arrow.uuid>": pa.uuid(),
    "extension<arrow.json>": pa.json_(),
    "extension<arrow.bool8>": pa.bool8(),
    GEOMETRY: pa.binary(),
}

_NESTED = {
    "list": "list<int64>",
    "large_list": "large_list<int64>",
    "fixed_size_list": "fixed_size_list<int64>[3]",
    "struct": "struct<a: int64, b: utf8>",
    "map": "map<utf8, int64>",
    "union": "sparse_union<a: int64, b: utf8>",
    "sparse_union": "sparse_union<a: int64, b: utf8>",
    "dense_union": "dense_union<a: int64, b: utf8>",
    "dictionary": "dictionary<int32, utf8>",
}
_PARAMETERISED = ("decimal32", "decimal64", "decimal128", "decimal256", "fixed_size_binary")

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_NAME = re.compile(r"[^:<>,\[\]()]+(?=:)")
_CODE = re.compile(r"=([0-9]{1,3})")
_SIZED_LIST = re.compile(r"fixed_size_list\s*\[\s*([0-9]{1,9})\s*\]")
_UNITS = {"time32": ("s", "ms"), "time64": ("us", "ns"), "timestamp": ("s", "ms", "us", "ns")}
_MAKE_UNIT: dict[str, Callable[..., pa.DataType]] = {
    "timestamp": pa.timestamp,
    "time32": pa.time32,
    "time64": pa.time64,
    "duration": pa.duration,
}
_DECIMALS: dict[str, Callable[[int, int], pa.DataType]] = {
    "decimal32": pa.decimal32,
    "decimal64": pa.decimal64,
    "decimal128": pa.decimal128,
    "decimal256": pa.decimal256,
}
_DATE_UNITS = {"date32": "day", "date64": "ms"}
_LONGEST = 100_000
_MAX_SIZE = 1 << 16  # a null of a fixed size takes the room of a value


def parse(text: str, children: list[pa.Field] | None = None) -> pa.DataType:
    """Return the type that the text spells; `children` are those given beside a nested word.

    Raises InvalidRequestError, with the nearest known word for one that is unknown, and
    LimitExceededError for a type that nests too deep.
    """
    word = text.strip()
    if len(word) > _LONGEST:
        raise InvalidRequestError(f"a type is written in at most {_LONGEST} characters")
    sized = _SIZED_LIST.fullmatch(word)
    if sized and children:
        return _built("fixed_size_list", children, size=int(sized.group(1)))
    if word in _NESTED:
        if not children or word == "fixed_size_list":
            raise InvalidRequestError(
                f"type '{word}' needs its children: write '{_NESTED[word]}',"
                ' or give them beside the type as "fields": [{"name": ..., "type": ...}]'
            )
        return _built(word, children)
    if children:
        raise InvalidRequestError(f"type '{word}' takes no \"fields\"")
    parser = _Parser(word)
    parsed = parser.type(1)
    parser.end()
    return parsed


def named_field(name: str, data_type: pa.DataType, *, nullable: bool) -> pa.Field:
    """Return a field. Raises InvalidRequestError where the two cannot go together."""
    if pa.types.is_null(data_type) and not nullable:
        raise InvalidRequestError(f"column '{name}' has type null, so it is nullable")
    return pa.field(name, data_type, nullable)


class _Parser:
    """Reads one type from a text, left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def type(self, depth: int) -> pa.DataType:
        schemas.check_depth(depth)
        self._space()
        for name in (GEOMETRY, "extension<arrow.uuid>", "extension<arrow.json>", "extension<arrow.bool8>"):
            if self._text.startswith(name, self._at):
                self._at += len(name)
                return _PLAIN[name]
        word = self._word()
        if word in _NESTED:
            return self._nested(word, depth)
        if word in _DECIMALS:
            precision, scale = self._numbers(2)
            return self._made(word, lambda: _DECIMALS[word](precision, scale))
        if word == "fixed_size_binary":
            return pa.binary(_checked_size(word, self._bracketed_number()))
        if word in _MAKE_UNIT and self._peek() == "[":
            return self._with_unit(word)
        if word in _DATE_UNITS and self._peek() == "[":
            if self._upto("]") != _DATE_UNITS[word]:
                raise InvalidRequestError(f"type '{word}' is counted in [{_DATE_UNITS[word]}] only")
            return _PLAIN[word]
        if word not in _PLAIN:
            raise _unknown(word)
        return _PLAIN[word]

    def end(self) -> None:
        self._space()
        if self._at != len(self._text):
            raise InvalidRequestError(
                f"type '{self._text}' has unexpected text at '{self._text[self._at :]}'"
            )

    def _nested(self, word: str, depth: int) -> pa.DataType:
        self._expect("<")
        if word == "dictionary" and self._text.startswith("values=", self._at):
            return self._printed_dictionary(depth)
        children: list[pa.Field] = []
        codes: list[int] = []
        while True:
            default = "item" if word.endswith("list") else f"f{len(children)}"
            children.append(self._child(default, codes, depth))
            if self._peek() != ",":
                break
            self._at += 1
        self._expect(">")
        size = self._bracketed_number() if word == "fixed_size_list" else 0
        return _built(word, children, codes, size)

    def _child(self, default: str, codes: list[int], depth: int) -> pa.Field:
        """Read `type` or `name: type`, perhaps followed by a union's code or `not null`."""
        self._space()
        named = _NAME.match(self._text, self._at)
        name = default
        if named:
            name = named.group(0).strip()
            self._at = named.end() + 1
        child = self.type(depth + 1)
        self._space()
        code = _CODE.match(self._text, self._at)
        if code:
            codes.append(int(code.group(1)))
            self._at = code.end()
        nullable = True
        if self._text.startswith("not null", self._at):
            self._at += len("not null")
            nullable = False
        return named_field(name, child, nullable=nullable)

    def _printed_dictionary(self, depth: int) -> pa.DataType:
        self._at += len("values=")
        values = self.type(depth + 1)
        self._expect(",")
        self._expect("indices=")
        indices = self.type(depth + 1)
        ordered = False
        if self._peek() == ",":
            self._expect(",")
            self._expect("ordered=")
            ordered = self._text[self._at : self._at + 1] == "1"
            self._at += 1
        self._expect(">")
        return self._made("dictionary", lambda: _dictionary(indices, values, ordered=ordered))

    def _with_unit(self, word: str) -> pa.DataType:
        parts = [part.strip() for part in self._upto("]").split(",")]
        unit = parts[0]
        if unit not in _UNITS.get(word, ("s", "ms", "us", "ns")):
            raise InvalidRequestError(f"type '{word}' has no unit '{unit}'")
        zone = parts[1].removeprefix("tz=") if len(parts) > 1 else None
        if parts[1:] and (word != "timestamp" or not zone or parts[1:] != [f"tz={zone}"]):
            raise InvalidRequestError(f"type '{self._text}' is not written as Arrow prints it")
        return self._made(word, lambda: _MAKE_UNIT[word](unit, zone) if zone else _MAKE_UNIT[word](unit))

    def _numbers(self, count: int) -> list[int]:
        self._expect("(")
        inside = self._until(")")
        numbers = [part.strip() for part in inside.split(",")]
        if not 1 <= len(numbers) <= count or not all(re.fullmatch(r"-?[0-9]{1,9}", n) for n in numbers):
            raise InvalidRequestError(
                f"type '{self._text}' needs precision and scale, as in decimal128(10, 2)"
            )
        return [int(n) for n in numbers] + [0] * (count - len(numbers))

    def _bracketed_number(self) -> int:
        inside = self._upto("]")
        if not re.fullmatch(r"[0-9]{1,9}", inside):
            raise InvalidRequestError(f"type '{self._text}' needs a size, as in fixed_size_binary[16]")
        return int(inside)

    def _made(self, word: str, make: Callable[[], pa.DataType]) -> pa.DataType:
        try:
            return make()
        except (pa.ArrowException, ValueError, OverflowError, TypeError) as error:
            raise InvalidRequestError(f"type '{word}' does not take these parameters") from error

    def _upto(self, closing: str) -> str:
        self._expect("[")
        return self._until(closing)

    def _until(self, closing: str) -> str:
        end = self._text.find(closing, self._at)
        if end < 0:
            raise InvalidRequestError(f"type '{self._text}' lacks a '{closing}'")
        inside = self._text[self._at : end]
        self._at = end + 1
        return inside.strip()

    def _word(self) -> str:
        match = _WORD.match(self._text, self._at)
        if match is None:
            raise InvalidRequestError(f"type '{self._text}' is not complete")
        self._at = match.end()
        return match.group(0)

    def _expect(self, token: str) -> None:
        self._space()
        if not self._text.startswith(token, self._at):
            raise InvalidRequestError(f"type '{self._text}' lacks a '{token}'")
        self._at += len(token)

    def _peek(self) -> str:
        self._space()
        return self._text[self._at : self._at + 1]

    def _space(self) -> None:
        while self._text[self._at : self._at + 1].isspace():
            self._at += 1


def _built(word: str, children: list[pa.Field], codes: Sequence[int] = (), size: int = 0) -> pa.DataType:
    """Return the nested type of these children; `codes` are those of a union."""
    child_count = {"list": 1, "large_list": 1, "fixed_size_list": 1, "map": 2, "dictionary": 2}.get(word)
    if child_count is not None and len(children) != child_count:
        noun = "child" if child_count == 1 else "children"
        raise InvalidRequestError(f"type '{word}' has {child_count} {noun}, not {len(children)}")
    if codes and (len(codes) != len(children) or len(set(codes)) != len(codes)):
        raise InvalidRequestError(f"type '{word}' needs a code of its own for each child, or none at all")
    try:
        match word:
            case "list":
                return pa.list_(children[0])
            case "large_list":
                return pa.large_list(children[0])
            case "fixed_size_list":
                return pa.list_(children[0], _checked_size(word, size))
            case "struct":
                return pa.struct(children)
            case "map":
                return pa.map_(children[0].type, children[1].with_name("value"))
            case "union" | "sparse_union":
                return pa.sparse_union(children, list(codes) or None)
            case "dense_union":
                return pa.dense_union(children, list(codes) or None)
            case _:
                return _dictionary(children[0].type, children[1].type)
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        raise InvalidRequestError(f"type '{word}' cannot be made of these children") from error


def _dictionary(indices: pa.DataType, values: pa.DataType, *, ordered: bool = False) -> pa.DataType:
    if isinstance(values, pa.BaseExtensionType):
        # Arrow can write such a column, but not read it.
        raise InvalidRequestError(f"type 'dictionary' cannot have values of type {values}")
    return pa.dictionary(indices, values, ordered)


def _checked_size(word: str, size: int) -> int:
    if size > _MAX_SIZE:
        raise InvalidRequestError(f"type '{word}' has a size of at most {_MAX_SIZE}")
    return size


def _unknown(word: str) -> InvalidRequestError:
    all_words = [*_PLAIN, *_NESTED, *_PARAMETERISED]
    near = difflib.get_close_matches(word.lower(), all_words, n=1)
    hint = f". Did you mean '{near[0]}'?" if near else ""
    return InvalidRequestError(f"unknown Arrow type '{word}'{hint}")
