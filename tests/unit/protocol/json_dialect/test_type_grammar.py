"""Arrow types as words: every word, every parameter, and what is refused."""

from __future__ import annotations

import time

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkport.errors import InvalidRequestError, LimitExceededError
from sparkport.protocol.json_dialect import type_grammar

PLAIN = {
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "uint8": pa.uint8(),
    "uint16": pa.uint16(),
    "uint32": pa.uint32(),
    "uint64": pa.uint64(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "utf8": pa.string(),
    "large_utf8": pa.large_string(),
    "binary": pa.binary(),
    "large_binary": pa.large_binary(),
    "date32": pa.date32(),
    "date64": pa.date64(),
    "bool": pa.bool_(),
}
DEFAULTS = {
    "timestamp": pa.timestamp("us"),
    "time32": pa.time32("ms"),
    "time64": pa.time64("us"),
    "duration": pa.duration("us"),
    "interval": pa.month_day_nano_interval(),
    "extension<airport.geometry>": pa.binary(),
}
PARAMETERISED = {
    "timestamp[us, tz=UTC]": pa.timestamp("us", "UTC"),
    "timestamp[ns,tz=Europe/Paris]": pa.timestamp("ns", "Europe/Paris"),
    "timestamp[ s ]": pa.timestamp("s"),
    "time32[s]": pa.time32("s"),
    "time64[ns]": pa.time64("ns"),
    "duration[ms]": pa.duration("ms"),
    "date32[day]": pa.date32(),
    "date64[ms]": pa.date64(),
    "decimal128(10, 2)": pa.decimal128(10, 2),
    "decimal128(10)": pa.decimal128(10, 0),
    "decimal32(9,1)": pa.decimal32(9, 1),
    "decimal64(18, 1)": pa.decimal64(18, 1),
    "decimal256(76, -3)": pa.decimal256(76, -3),
    "fixed_size_binary[16]": pa.binary(16),
    "list<int64>": pa.list_(pa.int64()),
    "list<item: int64 not null>": pa.list_(pa.field("item", pa.int64(), nullable=False)),
    "large_list<utf8>": pa.large_list(pa.string()),
    "fixed_size_list<float32>[3]": pa.list_(pa.float32(), 3),
    "struct<a: int64, b: list<utf8>>": pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))]),
    "struct<with space: int64>": pa.struct([("with space", pa.int64())]),
    "map<utf8, int64>": pa.map_(pa.string(), pa.int64()),
    "map<utf8, int64 not null>": pa.map_(pa.string(), pa.field("value", pa.int64(), nullable=False)),
    "dictionary<int32, utf8>": pa.dictionary(pa.int32(), pa.string()),
    "dictionary<values=string, indices=int8, ordered=1>": pa.dictionary(pa.int8(), pa.string(), True),
    "sparse_union<a: int64, b: utf8>": pa.sparse_union(
        [pa.field("a", pa.int64()), pa.field("b", pa.string())]
    ),
    "dense_union<a: int64=5, b: string=7>": pa.dense_union(
        [pa.field("a", pa.int64()), pa.field("b", pa.string())], [5, 7]
    ),
    "extension<arrow.uuid>": pa.uuid(),
    "list<extension<airport.geometry>>": pa.list_(pa.binary()),
}
NESTED = ["list", "large_list", "struct", "map", "union", "sparse_union", "dense_union", "dictionary"]
REFUSED = {
    "": "type '' is not complete",
    "int65": "unknown Arrow type 'int65'. Did you mean 'int64'?",
    "Int64": "unknown Arrow type 'Int64'. Did you mean 'int64'?",
    "varchar": "unknown Arrow type 'varchar'",
    "int64 x": "type 'int64 x' has unexpected text at 'x'",
    "int64[us]": "type 'int64[us]' has unexpected text at '[us]'",
    "timestamp[": "type 'timestamp[' lacks a ']'",
    "timestamp[days]": "type 'timestamp' has no unit 'days'",
    "time32[us]": "type 'time32' has no unit 'us'",
    "timestamp[us, tz=]": "type 'timestamp[us, tz=]' is not written as Arrow prints it",
    "timestamp[us, UTC]": "type 'timestamp[us, UTC]' is not written as Arrow prints it",
    "time64[ns, tz=UTC]": "type 'time64[ns, tz=UTC]' is not written as Arrow prints it",
    "date32[ms]": "type 'date32' is counted in [day] only",
    "decimal128": "type 'decimal128' lacks a '('",
    "decimal128()": "type 'decimal128()' needs precision and scale, as in decimal128(10, 2)",
    "decimal128(1, 2, 3)": "type 'decimal128(1, 2, 3)' needs precision and scale, as in decimal128(10, 2)",
    "decimal128(39, 2)": "type 'decimal128' does not take these parameters",
    "decimal128(0, 0)": "type 'decimal128' does not take these parameters",
    "fixed_size_binary": "type 'fixed_size_binary' lacks a '['",
    "fixed_size_binary[-1]": "type 'fixed_size_binary[-1]' needs a size, as in fixed_size_binary[16]",
    "fixed_size_binary[65537]": "type 'fixed_size_binary' has a size of at most 65536",
    "fixed_size_list<int8>[999999999]": "type 'fixed_size_list' has a size of at most 65536",
    "list<>": "type 'list<>' is not complete",
    "list<int64": "type 'list<int64' lacks a '>'",
    "list<int64, utf8>": "type 'list' has 1 child, not 2",
    "map<utf8>": "type 'map' has 2 children, not 1",
    "dictionary<utf8, utf8>": "type 'dictionary' cannot be made of these children",
    "sparse_union<a: int8=3, b: int8=3>": (
        "type 'sparse_union' needs a code of its own for each child, or none at all"
    ),
    "dictionary<int8, extension<arrow.uuid>>": (
        "type 'dictionary' cannot have values of type extension<arrow.uuid>"
    ),
    "struct<a: null not null>": "column 'a' has type null, so it is nullable",
    "struct<a: int65>": "unknown Arrow type 'int65'. Did you mean 'int64'?",
}


@pytest.mark.parametrize("word", PLAIN)
def test_plain_word_is_its_arrow_type(word: str) -> None:
    """A plain word means the Arrow type of that name."""
    assert type_grammar.parse(word) == PLAIN[word]


@pytest.mark.parametrize("word", DEFAULTS)
def test_plain_word_with_a_parameter_has_a_default(word: str) -> None:
    """A word whose type has a unit, written without one, means the usual unit."""
    assert type_grammar.parse(word) == DEFAULTS[word]


@pytest.mark.parametrize("text", PARAMETERISED)
def test_parameters_are_read_as_arrow_prints_them(text: str) -> None:
    """Parameters are written in Arrow's own form, with or without spaces."""
    parsed = type_grammar.parse(f" {text} ")

    assert parsed == PARAMETERISED[text]
    assert str(parsed) == str(PARAMETERISED[text])


@pytest.mark.parametrize("word", [*NESTED, "fixed_size_list"])
def test_nested_word_alone_shows_both_forms(word: str) -> None:
    """A nested word without children is refused with a message that shows how to give them."""
    with pytest.raises(InvalidRequestError) as refused:
        type_grammar.parse(word)

    message = str(refused.value)
    assert message.startswith(f"type '{word}' needs its children: write '")
    assert message.endswith("""', or give them beside the type as "fields": [{"name": ..., "type": ...}]""")
    shown = message.split("'")[3]
    assert type_grammar.parse(shown).num_fields or "dictionary" in shown


def test_children_may_be_given_beside_the_word() -> None:
    """The children of a nested word may come as fields, and keep their nullability."""
    key, value = pa.field("k", pa.string(), nullable=False), pa.field("v", pa.int64(), nullable=False)

    assert type_grammar.parse("list", [value]).value_field == value
    assert type_grammar.parse("struct", [key, value]) == pa.struct([key, value])
    made = type_grammar.parse("map", [key, value])
    assert (made.key_type, made.item_type, made.item_field.nullable) == (pa.string(), pa.int64(), False)
    assert type_grammar.parse("union", [key, value]) == pa.sparse_union([key, value])
    assert type_grammar.parse("dense_union", [key, value]) == pa.dense_union([key, value])
    index = pa.field("i", pa.int16())
    assert type_grammar.parse("dictionary", [index, key]) == pa.dictionary(pa.int16(), pa.string())
    assert type_grammar.parse("fixed_size_list[2]", [value]).list_size == 2


@pytest.mark.parametrize(
    ("word", "count", "message"),
    [
        ("list", 2, "type 'list' has 1 child, not 2"),
        ("map", 1, "type 'map' has 2 children, not 1"),
        ("dictionary", 3, "type 'dictionary' has 2 children, not 3"),
        ("int64", 1, "type 'int64' takes no \"fields\""),
        ("list<int64>", 1, "type 'list<int64>' takes no \"fields\""),
    ],
)
def test_wrong_children_are_refused(word: str, count: int, message: str) -> None:
    """A word takes as many children as its type has."""
    children = [pa.field(f"c{i}", pa.int64()) for i in range(count)]

    with pytest.raises(InvalidRequestError) as refused:
        type_grammar.parse(word, children)
    assert str(refused.value) == message


@pytest.mark.parametrize("text", REFUSED)
def test_bad_type_is_refused_by_name(text: str) -> None:
    """What is no type is refused with its text, and an unknown word with the nearest known one."""
    with pytest.raises(InvalidRequestError) as refused:
        type_grammar.parse(text)
    assert str(refused.value) == REFUSED[text]


@pytest.mark.parametrize(
    "text",
    [
        "list<" * 15_000 + "int64" + ">" * 15_000,
        "decimal128(" + "9" * 5000 + ", 2)",
        "fixed_size_list<int8>[" + "9" * 5000 + "]",
        "sparse_union<" + ", ".join(f"a{i}: int8" for i in range(200)) + ">",
        "sparse_union<a: int8=200>",
        "struct<" + " " * 50_000 + "x",
        "struct<" + "a" * 50_000,
        "x" * 200_000,
        "\ud800",
    ],
)
def test_monstrous_text_is_refused_quickly(text: str) -> None:
    """No text, however deep or long, takes long or fails in another way."""
    started = time.perf_counter()

    with pytest.raises((InvalidRequestError, LimitExceededError)):
        type_grammar.parse(text)
    assert time.perf_counter() - started < 2


_LEAVES = st.sampled_from(
    [*PLAIN.values(), pa.timestamp("ns", "UTC"), pa.decimal128(5, 1), pa.binary(4), pa.duration("s")]
)
_NAMES = st.sampled_from(["a", "b c", "ü", "x.y", "f0", "item"])


def _struct(fields: dict[str, tuple[pa.DataType, bool]]) -> pa.DataType:
    return pa.struct([pa.field(name, kind, nullable) for name, (kind, nullable) in fields.items()])


_TYPES = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        inner.map(pa.list_),
        inner.map(pa.large_list),
        inner.map(lambda kind: pa.list_(kind, 2)),
        st.dictionaries(_NAMES, st.tuples(inner, st.booleans()), min_size=1, max_size=3).map(_struct),
        inner.map(lambda kind: pa.map_(pa.string(), kind)),
    ),
    max_leaves=6,
)


@given(kind=_TYPES)
def test_what_arrow_prints_is_read_back(kind: pa.DataType) -> None:
    """The text that Arrow prints for a type is read as that type."""
    assert type_grammar.parse(str(kind)) == kind


@given(text=st.text(alphabet='abint64[]<>(),:= "listsructmap_0', max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Whatever the text, the outcome is a type or an InvalidRequestError."""
    try:
        made = type_grammar.parse(text)
    except InvalidRequestError:
        return
    assert isinstance(made, pa.DataType)
