"""What a call's values become before a function sees them."""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
from typing import Any

import pyarrow as pa
import pytest

from sparkport.catalog import ANY, TABLE, FunctionSignature, Parameter, Stability
from sparkport.catalog.parameters import bound
from sparkport.errors import InvalidRequestError

N = Parameter("n", pa.int64())
START = Parameter("start", pa.int64(), default=10)
STEP = Parameter("step", pa.int64(), named=True, default=1)
LABEL = Parameter("label", pa.string(), named=True)
TABLE_NAME = Parameter("table", pa.string())
DAY = dt.date(2024, 1, 2)


def test_signature_of_bare_types_stays_as_it_is() -> None:
    """Types alone are a signature, with made-up names."""
    signature = FunctionSignature((pa.int64(), pa.string()), pa.bool_(), variadic=True)

    assert signature.parameters == (pa.int64(), pa.string())
    assert [one.name for one in signature.declared] == ["arg1", "arg2"]
    assert signature.stability is Stability.CONSISTENT
    assert not signature.takes_table
    assert FunctionSignature((N, Parameter("rows", TABLE))).takes_table


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ((N, Parameter("N", pa.string())), "two parameters are named 'n'"),
        ((START, N), "parameter 'n' needs a default, because 'start' has one"),
        ((Parameter("rows", TABLE), N), "a function takes one table, as the last"),
        ((Parameter("a", TABLE), Parameter("b", TABLE)), "a function takes one table, as the last"),
    ],
)
def test_signature_that_no_call_could_fit_is_refused(parameters: Any, message: str) -> None:
    """Names are unique, defaults come last, and a table last of all."""
    with pytest.raises(ValueError, match=message):
        FunctionSignature(parameters)


def test_parameter_of_any_type_cannot_be_named() -> None:
    """A named parameter has a type, and every parameter a name."""
    with pytest.raises(ValueError, match="cannot be named"):
        Parameter("v", ANY, named=True)
    with pytest.raises(ValueError, match="needs a name"):
        Parameter("", pa.int64())


@pytest.mark.parametrize(
    ("values", "named", "expected"),
    [
        ([3], {}, (3, 10, 1)),
        ([3, 5], {"STEP": 2}, (3, 5, 2)),
        ([None, None], {"step": None}, (None, None, 1)),
        (["3", 5.0], {}, (3, 5, 1)),
        ([pa.array([3], pa.int8())], {"step": pa.array([4], pa.int64())}, (3, 10, 4)),
    ],
)
def test_defaults_stand_in_for_what_is_missing(
    values: list[Any], named: dict[str, Any], expected: tuple[Any, ...]
) -> None:
    """Values come in declared order and in the declared types; a named NULL is a missing one."""
    assert bound("f", (N, START, STEP), values, named) == expected


def test_values_of_bare_types_come_as_they_were_sent() -> None:
    """The specification's signatures get what was decoded, whatever it is."""
    assert bound("f", (pa.int64(), pa.string()), ["x", pa.array([5])], {}) == ("x", 5)


def test_values_are_brought_to_any_declared_type() -> None:
    """Text is read as the declared type, and a value of any type stays an Arrow scalar."""
    one = uuid.UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")
    parameters = (Parameter("u", pa.uuid()), Parameter("d", pa.date32()), Parameter("v", ANY))
    values = bound("f", parameters, [pa.array([str(one)]), "2024-01-02", pa.array([7], pa.int8())], {})

    assert values == (one, dt.date(2024, 1, 2), pa.array([7], pa.int8())[0])


def test_numbers_and_what_duckdb_sends_fit_other_types_of_their_kind() -> None:
    """A number is brought to any type that can hold it, and a boolean may come as DuckDB lays it out."""
    parameters = (
        Parameter("f", pa.float64()),
        Parameter("m", pa.decimal128(30, 2)),
        Parameter("t", pa.large_string()),
        Parameter("on", pa.bool_()),
        Parameter("at", pa.timestamp("us")),
    )
    values = bound("f", parameters, [3, 4, "x", pa.array([1], pa.int8()), DAY], {})

    assert values == (3.0, decimal.Decimal("4.00"), "x", True, dt.datetime(2024, 1, 2))  # noqa: DTZ001


def test_variadic_function_gets_the_rest_at_the_end() -> None:
    """More values than parameters follow the others, in the last positional one's type."""
    assert bound("f", (N, STEP), [1, "2", 3], {"step": 9}, variadic=True) == (1, 9, 2, 3)


@pytest.mark.parametrize(
    ("parameters", "values", "named", "message"),
    [
        ((N, START), [], {}, "function 'f' takes 1 to 2 parameters, not 0"),
        ((N, START), [1, 2, 3], {}, "function 'f' takes 1 to 2 parameters, not 3"),
        ((N,), [1], {"stop": 2}, "function 'f' has no named parameter 'stop'"),
        ((N,), [], {"n": 2}, "function 'f' takes 1 parameters, not 0"),
        ((N, LABEL), [1], {}, "function 'f' needs the parameter 'label'"),
        ((N,), ["x"], {}, "parameter 'n' of function 'f' is not a value of type int64"),
        ((N,), [1.5], {}, "parameter 'n' of function 'f' is not a value of type int64"),
        ((N,), [1 << 70], {}, "parameter 'n' of function 'f' is not a value of type int64"),
        ((N,), [[1]], {}, "parameter 'n' of function 'f' is of type list<item: int64>, not int64"),
        ((N,), [True], {}, "parameter 'n' of function 'f' is of type bool, not int64"),
        ((N, LABEL), [1], {"label": 3}, "parameter 'label' of function 'f' is of type int64, not string"),
        ((TABLE_NAME,), [3], {}, "parameter 'table' of function 'f' is of type int64, not string"),
        (
            (TABLE_NAME,),
            [["t"]],
            {},
            "parameter 'table' of function 'f' is of type list<item: string>, not string",
        ),
        ((TABLE_NAME,), [DAY], {}, "parameter 'table' of function 'f' is of type date32[day], not string"),
        (
            (Parameter("on", pa.bool_()),),
            [1],
            {},
            "parameter 'on' of function 'f' is of type int64, not bool",
        ),
        (
            (Parameter("d", pa.date32()),),
            [1],
            {},
            "parameter 'd' of function 'f' is of type int64, not date32[day]",
        ),
        ((N,), [{1: [2, "x"]}], {}, "parameter 'n' of function 'f' is not a value of type int64"),
    ],
)
def test_call_that_does_not_fit_is_refused(
    parameters: Any, values: list[Any], named: dict[str, Any], message: str
) -> None:
    """Too few, too many, unknown or of another type: the sentence says which."""
    with pytest.raises(InvalidRequestError) as refused:
        bound("f", parameters, values, named)

    assert str(refused.value) == message
