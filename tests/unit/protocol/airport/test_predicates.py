from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from sparkport.catalog.predicates import (
    And,
    Cast,
    Column,
    Comparison,
    ComparisonOperator,
    Constant,
    Expression,
    Function,
    Not,
    Unknown,
    walk,
)
from sparkport.errors import InvalidRequestError
from sparkport.protocol.airport.predicates import decode

INTEGER = {"id": "INTEGER", "type_info": None}
VARCHAR = {"id": "VARCHAR", "type_info": None}
LETTERS = {"id": "ENUM", "type_info": {"type": "ENUM_TYPE_INFO", "values": ["z", "a"]}}


def read(*filters: object, names: tuple[str, ...] = ("i", "s")) -> Expression | None:
    """Decode filters over the columns `i` and `s`."""
    return decode(json.dumps({"filters": filters, "column_binding_names_by_index": names}))


def column(index: int, kind: object = INTEGER) -> dict[str, Any]:
    """Return a reference to a column."""
    return {
        "expression_class": "BOUND_COLUMN_REF",
        "type": "BOUND_COLUMN_REF",
        "return_type": kind,
        "binding": {"table_index": 0, "column_index": index},
        "depth": 0,
    }


def constant(kind: object, value: object = None) -> dict[str, Any]:
    """Return a constant; None is NULL."""
    content = {"is_null": True} if value is None else {"is_null": False, "value": value}
    return {
        "expression_class": "BOUND_CONSTANT",
        "type": "VALUE_CONSTANT",
        "value": {"type": kind, **content},
    }


def comparison(left: object, right: object, kind: str = "COMPARE_EQUAL") -> dict[str, Any]:
    """Return a comparison."""
    return {"expression_class": "BOUND_COMPARISON", "type": kind, "left": left, "right": right}


def operator(kind: str, *children: object) -> dict[str, Any]:
    """Return an operator."""
    return {"expression_class": "BOUND_OPERATOR", "type": kind, "children": list(children)}


def function(name: str, *children: object, catalog: str = "system", **more: object) -> dict[str, Any]:
    """Return a call of a function."""
    return {
        "expression_class": "BOUND_FUNCTION",
        "type": "BOUND_FUNCTION",
        "name": name,
        "children": list(children),
        "catalog_name": catalog,
        **more,
    }


def cast(child: object, target: object) -> dict[str, Any]:
    """Return a cast."""
    return {
        "expression_class": "BOUND_CAST",
        "type": "OPERATOR_CAST",
        "child": child,
        "return_type": target,
        "try_cast": False,
    }


def scalar(kind: object, value: object = None) -> pa.Scalar[Any]:
    """Return the scalar that a constant decodes to."""
    tree = read(constant(kind, value))
    assert isinstance(tree, Constant)
    return tree.value


def nested(kind: str, info: object) -> dict[str, Any]:
    """Return a type with parameters."""
    return {"id": kind, "type_info": info}


@pytest.mark.parametrize(
    "text", ["", b"", '{"filters":[]}', b'{"filters":[],"column_binding_names_by_index":["i"]}']
)
def test_no_filters_mean_no_predicate(text: str | bytes) -> None:
    """Empty text and an empty list both keep every row."""
    assert decode(text) is None


def test_several_filters_are_all_required() -> None:
    """The list of filters is an implicit AND."""
    assert read(column(0), column(1)) == And((Column("i"), Column("s")))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        ("1" * 5000, "not JSON"),
        ("[]", "not an object"),
        ("{}", "'filters' is missing"),
        ('{"filters":{}}', "'filters' is not of type list"),
        ('{"filters":[1]}', "not a list of objects"),
        ('{"filters":[{}]}', "'expression_class' is missing"),
        ('{"filters":[{"expression_class":7}]}', "'expression_class' is not of type str"),
        ('{"filters":[],"column_binding_names_by_index":[1]}', "not a list of names"),
        ('{"filters":[],"column_binding_names_by_index":"i"}', "not of type list"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_a_malformed_document_is_refused(text: str | bytes, message: str) -> None:
    """What is not a filter document at all is the caller's mistake."""
    with pytest.raises(InvalidRequestError, match=message):
        decode(text)


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (column(2), "column index 2 of 2 columns"),
        (column(-1), "column index -1"),
        ({**column(0), "binding": {"column_index": True}}, "'column_index' is not of type int"),
        ({**column(0), "binding": {}}, "'column_index' is missing"),
        ({"expression_class": "BOUND_CONSTANT"}, "'value' is missing"),
        (
            {"expression_class": "BOUND_COMPARISON", "type": "COMPARE_EQUAL", "left": column(0)},
            "'right' is missing",
        ),
        ({"expression_class": "BOUND_CONJUNCTION", "type": "CONJUNCTION_OR", "children": []}, "0 children"),
        (operator("OPERATOR_NOT", column(0), column(0)), "OPERATOR_NOT has 2 children"),
        (operator("COMPARE_IN", column(0)), "COMPARE_IN has no options"),
        ({"expression_class": "BOUND_CASE", "case_checks": [], "else_expr": column(0)}, "no branches"),
        ({**cast(column(0), INTEGER), "try_cast": None}, "'try_cast' is not of type bool"),
        (cast(column(0), {"type_info": None}), "'id' is missing"),
        ({**function("f"), "name": None}, "'name' is not of type str"),
    ],
)
def test_a_known_class_without_its_members_is_refused(node: object, message: str) -> None:
    """A class that is known must have what it needs, of the right kind."""
    with pytest.raises(InvalidRequestError, match=message):
        read(node)


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        ({"expression_class": "BOUND_SUBQUERY"}, "expression class BOUND_SUBQUERY"),
        ({"expression_class": "BOUND_PARAMETER"}, "expression class BOUND_PARAMETER"),
        (comparison(column(0), column(0), "COMPARE_NEARLY"), "comparison COMPARE_NEARLY"),
        (operator("OPERATOR_TRY", column(0)), "operator OPERATOR_TRY"),
        ({**column(0), "depth": 1}, "a column of an outer query"),
        (constant({"id": "VARIANT", "type_info": None}), "a constant of type VARIANT"),
        (cast(column(0), {"id": "GEOMETRY", "type_info": None}), "a cast to GEOMETRY"),
        (cast(column(0), {"id": "STRUCT", "type_info": {"alias": "INET"}}), "a cast to STRUCT"),
        (cast(column(0), LETTERS), "a cast to ENUM"),
        (function("shout", column(1), catalog="mine"), "function shout of catalog mine"),
        (
            function("list_filter", column(0), function_data={"lambda_expr": {}}),
            "function list_filter, whose arguments are not all children",
        ),
    ],
)
def test_what_is_not_known_is_unknown(node: object, reason: str) -> None:
    """A filter that is not understood costs push-down, never the scan."""
    assert read(node) == Unknown(reason)


def test_columns_of_a_listing_have_no_names() -> None:
    """Without a list of names a reference means nothing."""
    assert decode(json.dumps({"filters": [column(0)]})) == Unknown("a column without a name")


def test_functions_of_the_system_catalog_are_known_by_name() -> None:
    """Both an empty catalog and `system` are DuckDB's own functions."""
    expected = Function("prefix", (Column("s"),))

    assert read(function("prefix", column(1), catalog="")) == expected
    assert read(function("prefix", column(1), catalog="system")) == expected


def test_deep_nesting_ends_in_unknown() -> None:
    """An expression nested beyond the limit is cut off, not an overflow of the stack."""
    node: object = column(0)
    for _ in range(150):
        node = operator("OPERATOR_NOT", node)
    tree = read(node)

    assert isinstance(tree, Not)
    assert list(walk(tree))[-1] == Unknown("nesting deeper than 100")


def test_deeply_nested_types_have_no_arrow_type() -> None:
    """A type nested beyond the limit is not understood."""
    kind: object = INTEGER
    for _ in range(150):
        kind = nested("LIST", {"child_type": kind})

    assert read(cast(column(0), kind)) == Unknown("a cast to LIST")


@pytest.mark.parametrize("kind", ["COMPARE_LESSTHAN", "COMPARE_GREATERTHANOREQUALTO"])
def test_the_order_of_an_enum_is_not_that_of_its_text(kind: str) -> None:
    """ENUMs are ordered by position, which is lost when they are read as text."""
    assert read(comparison(column(0, LETTERS), constant(LETTERS, 1), kind)) == Unknown("the order of an ENUM")


def test_an_enum_equals_its_text() -> None:
    """An ENUM constant is the text at its position."""
    tree = read(comparison(column(0, LETTERS), constant(LETTERS, 1)))

    assert tree == Comparison(ComparisonOperator.EQUAL, Column("i"), Constant(pa.scalar("a")))


def test_json_is_not_mistaken_for_text() -> None:
    """A cast to JSON parses, so its type is not that of VARCHAR."""
    json_type = nested("VARCHAR", {"type": "GENERIC_TYPE_INFO", "alias": "JSON"})

    assert read(cast(column(1), json_type)) == Cast(Column("s"), pa.json_(pa.string()))


def test_infinities_stand_bare() -> None:
    """Numbers that JSON does not have are read all the same."""
    text = json.dumps({"filters": [constant({"id": "DOUBLE", "type_info": None}, float("inf"))]})

    assert "Infinity" in text
    assert decode(text) == Constant(pa.scalar(float("inf")))


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("DOUBLE", 1, pa.scalar(1.0)),
        ("VARCHAR", {"base64": "/w=="}, pa.scalar(b"\xff")),
        ("BLOB", "a\\x5Cb", pa.scalar(b"a\\b")),
        ("UBIGINT", 2**64 - 1, pa.scalar(2**64 - 1, pa.uint64())),
        ("HUGEINT", {"upper": -1, "lower": 2**64 - 1}, pa.scalar(Decimal(-1), pa.decimal256(39, 0))),
        ("UHUGEINT", {"upper": 1, "lower": 0}, pa.scalar(Decimal(2**64), pa.decimal256(39, 0))),
        ("NULL", None, pa.scalar(None, pa.null())),
        ("UUID", None, pa.nulls(1, pa.uuid())[0]),
        ("TIME_NS", 1, pa.array([1]).view(pa.time64("ns"))[0]),
    ],
)
def test_a_constant_has_its_arrow_type(kind: str, value: object, expected: pa.Scalar[Any]) -> None:
    """Constants that were never seen on the wire are read by the same rules."""
    found = scalar({"id": kind, "type_info": None}, value)

    assert found.type == expected.type
    assert found == expected


def test_a_time_with_zone_keeps_its_bits() -> None:
    """TIME WITH TIME ZONE is the eight little-endian bytes that DuckDB exports."""
    found = scalar({"id": "TIME WITH TIME ZONE", "type_info": None}, 634337280000057599)

    assert found.type == pa.opaque(pa.binary(8), "time_tz", "DuckDB")
    assert found.as_py() == (634337280000057599).to_bytes(8, "little")


def test_nested_constants_may_hold_anything() -> None:
    """Lists of structs, with nulls, keep the types of their members."""
    point = nested(
        "STRUCT",
        {
            "child_types": [
                {"first": "x", "second": INTEGER},
                {"first": "id", "second": {"id": "UUID", "type_info": None}},
            ]
        },
    )
    member = {"is_null": False, "type": INTEGER, "value": 3}
    nothing = {"is_null": True, "type": {"id": "UUID", "type_info": None}}
    whole = {"is_null": False, "type": point, "value": {"children": [member, nothing]}}
    found = scalar(
        nested("LIST", {"child_type": point}), {"children": [whole, {"is_null": True, "type": point}]}
    )

    assert found.type == pa.list_(pa.struct([("x", pa.int32()), ("id", pa.uuid())]))
    assert found.as_py() == [{"x": 3, "id": None}, None]


def test_a_null_array_of_any_size_is_cheap() -> None:
    """A short text must not make the server allocate a large array."""
    square = nested(
        "ARRAY", {"child_type": nested("ARRAY", {"child_type": INTEGER, "size": 100_000}), "size": 100_000}
    )

    assert read(constant(square)) == Unknown("a constant of type ARRAY")


def test_an_interval_beyond_nanoseconds_is_unknown() -> None:
    """Arrow counts nanoseconds where DuckDB counts microseconds."""
    parts = {"months": 0, "days": 0, "micros": 2**62}

    assert read(constant({"id": "INTERVAL", "type_info": None}, parts)) == Unknown(
        "a constant of type INTERVAL"
    )


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ({"id": "TINYINT", "type_info": None}, 300),
        ({"id": "INTEGER", "type_info": None}, "1"),
        ({"id": "INTEGER", "type_info": None}, True),
        ({"id": "INTEGER", "type_info": None}, 1.5),
        ({"id": "BOOLEAN", "type_info": None}, 1),
        ({"id": "DOUBLE", "type_info": None}, 10**400),
        ({"id": "DATE", "type_info": None}, 2**31),
        ({"id": "HUGEINT", "type_info": None}, {"upper": 2**63, "lower": 0}),
        ({"id": "UUID", "type_info": None}, {"upper": 0, "lower": -1}),
        ({"id": "NULL", "type_info": None}, 1),
        ({"id": "BIT", "type_info": None}, {"base64": "*"}),
        ({"id": "VARCHAR", "type_info": None}, "\ud800"),
        (LETTERS, 2),
        (nested("DECIMAL", {"width": 3, "scale": 1}), 12345),
        (nested("DECIMAL", {"width": 39, "scale": 0}), 1),
        (nested("ARRAY", {"child_type": INTEGER, "size": 2}), {"children": []}),
        (nested("LIST", {"child_type": INTEGER}), {"children": [{"type": VARCHAR, "is_null": True}]}),
        (nested("MAP", {"child_type": INTEGER}), {"children": []}),
    ],
)
def test_an_impossible_constant_is_refused(kind: object, value: object) -> None:
    """A value that its own type cannot hold is the caller's mistake."""
    with pytest.raises(InvalidRequestError, match="filter: "):
        read(constant(kind, value))
