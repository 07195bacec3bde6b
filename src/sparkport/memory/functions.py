"""DuckDB's functions and operators that Arrow can compute with the same result.

Arithmetic is checked: an overflow raises an error where it does so in DuckDB.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from sparkport.memory.casts import convert
from sparkport.memory.values import InexactError, Value, bounds, call, cast, has_unknown_extension, load

_YEARS_1_TO_9999 = (-719_162, 2_932_896)
_LITERAL = frozenset(string.ascii_letters + string.digits)
# Latin, Greek, Cyrillic, Hebrew, Arabic, punctuation, Chinese, Japanese, Korean, emoji: the case
# mappings of other letters depend on the Unicode version, which differs between Arrow and DuckDB.
_STABLE_LETTERS = (
    r"\A[\x{0}-\x{17f}\x{370}-\x{52f}\x{590}-\x{6ff}\x{2000}-\x{206f}"
    r"\x{3000}-\x{9fff}\x{ac00}-\x{d7a3}\x{1f300}-\x{1faff}]*\z"
)


def apply(name: str, arguments: Sequence[Value]) -> Value:
    """Return what DuckDB's function of that name returns."""
    if (function := _FUNCTIONS.get(name)) is None:
        raise InexactError(f"function {name}")
    return function(*arguments)


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise InexactError(what)


def _text(value: Value) -> str:
    _require(isinstance(value, pa.Scalar) and value.type == pa.string(), "a text that is not constant")
    text = value.as_py()
    _require(isinstance(text, str), "a text that is null")
    return str(text)


def _substring_test(kernel: str) -> Callable[[Value, Value], Value]:
    def test(value: Value, substring: Value) -> Value:
        _require(value.type == pa.string(), f"{kernel} on {value.type}")
        return call(kernel, value, options=pc.MatchSubstringOptions(_text(substring)))

    return test


def _regex(pattern: str, escape: str = "") -> str:
    """Return the RE2 pattern that matches what a LIKE pattern does."""
    parts = [r"(?s)\A"]
    symbols = iter(pattern)
    for symbol in symbols:
        if symbol == escape:
            literal = next(symbols, None)
            _require(literal is not None, "a LIKE pattern that ends with its escape character")
            parts.append(_escape(str(literal)))
        elif symbol == "%":
            parts.append(".*")
        elif symbol == "_":
            parts.append(".")
        else:
            parts.append(_escape(symbol))
    return "".join([*parts, r"\z"])


def _escape(symbol: str) -> str:
    return symbol if symbol in _LITERAL else f"\\x{{{ord(symbol):x}}}"


def _like(value: Value, pattern: Value, escape: Value | None = None) -> Value:
    _require(value.type == pa.string(), f"LIKE on {value.type}")
    symbol = "" if escape is None else _text(escape)
    _require(len(symbol.encode()) <= 1, "an escape character that is not one byte")
    return call(
        "match_substring_regex", value, options=pc.MatchSubstringOptions(_regex(_text(pattern), symbol))
    )


def _not_like(value: Value, pattern: Value, escape: Value | None = None) -> Value:
    return call("invert", _like(value, pattern, escape))


def _ilike(value: Value, pattern: Value) -> Value:
    return _like(_lower(value), _lower(pattern))


def _not_ilike(value: Value, pattern: Value) -> Value:
    return call("invert", _ilike(value, pattern))


def _case_mapping(kernel: str) -> Callable[[Value], Value]:
    def convert_case(value: Value) -> Value:
        _require(value.type == pa.string(), f"{kernel} on {value.type}")
        is_stable = call("match_substring_regex", value, options=pc.MatchSubstringOptions(_STABLE_LETTERS))
        is_stable = is_stable if isinstance(is_stable, pa.Scalar) else call("all", is_stable)
        _require(is_stable.as_py() is not False, "letters whose case depends on the Unicode version")
        return call(kernel, value)

    return convert_case


_lower = _case_mapping("utf8_lower")


def _length(value: Value) -> Value:
    if types.is_list(value.type) or types.is_large_list(value.type):
        return cast(call("list_value_length", value), pa.int64())
    _require(value.type == pa.string(), f"length of {value.type}")
    return cast(call("utf8_length", value), pa.int64())


def _byte_length(value: Value) -> Value:
    _require(value.type in (pa.string(), pa.binary()), f"length of {value.type}")
    return cast(call("binary_length", value), pa.int64())


def _join(left: Value, right: Value) -> Value:
    _require(left.type == right.type == pa.string(), f"|| of {left.type} and {right.type}")
    options = pc.JoinOptions(null_handling="emit_null")
    return call("binary_join_element_wise", left, right, pa.scalar(""), options=options)


def _arithmetic(kernel: str) -> Callable[[Value, Value], Value]:
    def compute(left: Value, right: Value) -> Value:
        both = (left.type, right.type)
        are_decimals = all(isinstance(arrow_type, pa.Decimal128Type) for arrow_type in both)
        _require(are_decimals or (both[0] == both[1] and _is_number(both[0])), f"{kernel} of {both}")
        return call(kernel, left, right)

    return compute


def _is_number(arrow_type: pa.DataType) -> bool:
    return bool(types.is_integer(arrow_type) or types.is_float32(arrow_type) or types.is_float64(arrow_type))


def _subtract(left: Value, right: Value | None = None) -> Value:
    if right is not None:
        return _difference(left, right)
    _require(_is_signed(left.type), f"negation of {left.type}")
    return call("negate_checked", left)


_difference = _arithmetic("subtract_checked")


def _is_signed(arrow_type: pa.DataType) -> bool:
    return _is_number(arrow_type) and not types.is_unsigned_integer(arrow_type)


def _absolute(value: Value) -> Value:
    _require(_is_number(value.type), f"abs of {value.type}")
    return call("abs_checked", value)


def _divide(left: Value, right: Value) -> Value:
    # Whether x / 0 is infinite or NULL is a setting in DuckDB; the checked kernel raises.
    _require(left.type == right.type and types.is_floating(left.type), f"/ of {left.type} and {right.type}")
    return call("divide_checked", left, right)


def _quotient(left: Value, right: Value) -> Value:
    _require(left.type == right.type and types.is_integer(left.type), f"// of {left.type} and {right.type}")
    zero = pa.scalar(0, right.type)
    divisor = call("if_else", call("equal", right, zero), pa.scalar(None, right.type), right)
    return call("divide_checked", left, divisor)


def _remainder(left: Value, right: Value) -> Value:
    whole = call("multiply_checked", _quotient(left, right), right)
    return call("subtract_checked", left, whole)


def _bitwise(kernel: str) -> Callable[..., Value]:
    def compute(*values: Value) -> Value:
        arrow_types = {value.type for value in values}
        is_integer = len(arrow_types) == 1 and all(map(types.is_integer, arrow_types))
        _require(is_integer, f"{kernel} of {arrow_types}")
        return call(kernel, *values)

    return compute


def _float_function(kernel: str) -> Callable[[Value], Value]:
    def compute(value: Value) -> Value:
        _require(types.is_float32(value.type) or types.is_float64(value.type), f"{kernel} of {value.type}")
        return call(kernel, value)

    return compute


def _date_part(kernel: str) -> Callable[[Value], Value]:
    def part(value: Value) -> Value:
        day = convert(value, pa.date32())
        extremes = bounds(day)
        least, greatest = _YEARS_1_TO_9999
        _require(
            extremes is None or least <= extremes[0] <= extremes[1] <= greatest, "a far or infinite date"
        )
        return call(kernel, day)

    return part


def _struct_extract(value: Value, name: Value) -> Value:
    _require(isinstance(value, pa.StructArray), f"a field of {value.type}")
    assert isinstance(value, pa.StructArray)
    field_name = _text(name).lower()
    matches = [index for index, child in enumerate(value.type) if child.name.lower() == field_name]
    _require(len(matches) == 1, f"field '{field_name}', of which there are {len(matches)}")
    _require(not has_unknown_extension(value.type.field(matches[0])), "a field of an unknown extension type")
    return load(value.flatten()[matches[0]])


def _extract(value: Value, key: Value) -> Value:
    """Return a list's element, counted from 1 or from -1 at the end, or a struct's field."""
    if types.is_struct(value.type):
        return _struct_extract(value, key)
    _require(isinstance(value, pa.ListArray | pa.LargeListArray), f"an element of {value.type}")
    assert isinstance(value, pa.ListArray | pa.LargeListArray)
    _require(not has_unknown_extension(value.type.value_field), "elements of an unknown extension type")
    _require(isinstance(key, pa.Scalar) and types.is_integer(key.type) and key.is_valid, "a varying position")
    position = int(key.as_py())
    sizes = cast(call("list_value_length", value), pa.int64())
    offsets: pa.Array[Any] = value.offsets
    starts = cast(offsets[:-1] if position > 0 else offsets[1:], pa.int64())
    shift = pa.scalar(position - 1 if position > 0 else position, pa.int64())
    within = call("greater_equal", sizes, pa.scalar(max(abs(position), 1), pa.int64()))
    if position == 0:
        within = call("and", within, pa.scalar(False, pa.bool_()))
    places = call("if_else", within, call("add", starts, shift), pa.scalar(None, pa.int64()))
    elements = call("take", value.values, places)
    assert isinstance(elements, pa.Array)
    return load(elements)


def _constant_or_null(value: Value, *others: Value) -> Value:
    for other in others:
        value = call("if_else", call("is_valid", other), value, pa.scalar(None, value.type))
    return value


_starts_with = _substring_test("starts_with")
_ends_with = _substring_test("ends_with")

_FUNCTIONS: dict[str, Callable[..., Value]] = {
    "prefix": _starts_with,
    "starts_with": _starts_with,
    "^@": _starts_with,
    "suffix": _ends_with,
    "ends_with": _ends_with,
    "contains": _substring_test("match_substring"),
    "~~": _like,
    "!~~": _not_like,
    "like_escape": _like,
    "not_like_escape": _not_like,
    "~~*": _ilike,
    "!~~*": _not_ilike,
    "lower": _lower,
    "lcase": _lower,
    "upper": _case_mapping("utf8_upper"),
    "ucase": _case_mapping("utf8_upper"),
    "length": _length,
    "len": _length,
    "array_length": _length,
    "strlen": _byte_length,
    "octet_length": _byte_length,
    "||": _join,
    "+": _arithmetic("add_checked"),
    "add": _arithmetic("add_checked"),
    "-": _subtract,
    "subtract": _subtract,
    "*": _arithmetic("multiply_checked"),
    "multiply": _arithmetic("multiply_checked"),
    "/": _divide,
    "//": _quotient,
    "%": _remainder,
    "mod": _remainder,
    "abs": _absolute,
    "@": _absolute,
    "&": _bitwise("bit_wise_and"),
    "|": _bitwise("bit_wise_or"),
    "xor": _bitwise("bit_wise_xor"),
    "~": _bitwise("bit_wise_not"),
    "isnan": _float_function("is_nan"),
    "isinf": _float_function("is_inf"),
    "isfinite": _float_function("is_finite"),
    "floor": _float_function("floor"),
    "ceil": _float_function("ceil"),
    "ceiling": _float_function("ceil"),
    "year": _date_part("year"),
    "month": _date_part("month"),
    "day": _date_part("day"),
    "struct_extract": _struct_extract,
    "array_extract": _extract,
    "list_extract": _extract,
    "list_element": _extract,
    "constant_or_null": _constant_or_null,
}
