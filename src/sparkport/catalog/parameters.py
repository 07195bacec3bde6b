"""The parameters of a function: names, types and defaults, and the values of one call."""

from __future__ import annotations

import enum
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from sparkport.arrow.conform import conform_column
from sparkport.errors import InvalidRequestError, SchemaMismatchError


class Special(enum.Enum):
    """What a parameter can be beside a value of one type."""

    ANY = "any"
    """A value of any type, handed over as a `pyarrow.Scalar`, or as an array to scalar functions."""
    TABLE = "table"
    """The rows of a query, for a `TableInOutFunction`."""


class _Missing(enum.Enum):
    REQUIRED = "required"


ANY: Final = Special.ANY
TABLE: Final = Special.TABLE
REQUIRED: Final = _Missing.REQUIRED


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter; `named` ones are given as `name := value`, in any order.

    DuckDB sends NULL for a named parameter that was left out, so a NULL there means
    the default.
    """

    name: str
    type: pa.DataType | Special
    named: bool = False
    default: Any = REQUIRED

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("a parameter needs a name")
        if self.named and isinstance(self.type, Special):
            raise ValueError(f"parameter {self.name!r} has no type of its own, so it cannot be named")

    @property
    def required(self) -> bool:
        """Whether a call must give it."""
        return self.default is REQUIRED


def check_order(parameters: Sequence[Parameter]) -> None:
    """Raise ValueError for parameters that no call could tell apart."""
    names = [parameter.name.lower() for parameter in parameters]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise ValueError(f"two parameters are named {repeated!r}")
    positional = [parameter for parameter in parameters if not parameter.named]
    tables = [parameter for parameter in positional if parameter.type is TABLE]
    if tables and (len(tables) > 1 or positional[-1] is not tables[0]):
        raise ValueError("a function takes one table, as the last of its positional parameters")
    values = [parameter for parameter in positional if parameter.type is not TABLE]
    if tables and not all(parameter.required for parameter in values):
        raise ValueError("beside a table only named parameters have defaults")
    for before, after in itertools.pairwise(values):
        if not before.required and after.required:
            raise ValueError(f"parameter {after.name!r} needs a default, because {before.name!r} has one")


def bound(
    function: str,
    parameters: Sequence[pa.DataType | Parameter],
    values: Sequence[Any],
    named: Mapping[str, Any],
    *,
    variadic: bool = False,
) -> tuple[Any, ...]:
    """Return a value for each parameter but the table, in declared order, then those of a variadic function.

    A value is a Python object, or an Arrow array of one element. Values of a `Parameter`
    are brought to its type; for a bare type they come as they were sent. Raises
    InvalidRequestError.
    """
    declared = [
        parameter
        for parameter in parameters
        if not (isinstance(parameter, Parameter) and parameter.type is TABLE)
    ]
    positional = [
        parameter for parameter in declared if not (isinstance(parameter, Parameter) and parameter.named)
    ]
    _check_count(function, positional, len(values), variadic=variadic)
    _check_names(function, declared, named)
    given = iter(values)
    result = [_value(function, parameter, given, named) for parameter in declared]
    last = positional[-1] if positional else None
    return (*result, *(_converted(function, last, extra) for extra in given))


def _check_count(
    function: str, positional: Sequence[pa.DataType | Parameter], count: int, *, variadic: bool
) -> None:
    min_count = sum(not isinstance(parameter, Parameter) or parameter.required for parameter in positional)
    max_count = len(positional)
    if count >= min_count and (variadic or count <= max_count):
        return
    if variadic:
        expected = f"{min_count} or more"
    else:
        expected = str(max_count) if min_count == max_count else f"{min_count} to {max_count}"
    raise InvalidRequestError(f"function '{function}' takes {expected} parameters, not {count}")


def _check_names(
    function: str, declared: Sequence[pa.DataType | Parameter], named: Mapping[str, Any]
) -> None:
    names = {
        parameter.name.lower()
        for parameter in declared
        if isinstance(parameter, Parameter) and parameter.named
    }
    for name in named:
        if name.lower() not in names:
            raise InvalidRequestError(f"function '{function}' has no named parameter '{name}'")


def _value(
    function: str, parameter: pa.DataType | Parameter, given: Iterator[Any], named: Mapping[str, Any]
) -> object:
    if not isinstance(parameter, Parameter):
        return _converted(function, parameter, next(given))
    if not parameter.named:
        value = next(given, REQUIRED)
        return parameter.default if value is REQUIRED else _converted(function, parameter, value)
    value = next((value for name, value in named.items() if name.lower() == parameter.name.lower()), None)
    result = None if value is None else _converted(function, parameter, value)
    if result is not None:
        return result
    if parameter.required:
        raise InvalidRequestError(f"function '{function}' needs the parameter '{parameter.name}'")
    return parameter.default


def _converted(function: str, parameter: pa.DataType | Parameter | None, value: Any) -> object:  # noqa: ANN401
    kind = parameter.type if isinstance(parameter, Parameter) else None
    try:
        if kind is None or (value is None and kind is not ANY):
            return value[0].as_py() if isinstance(value, pa.Array) else value
        if isinstance(kind, Special):
            return _array(value, None)[0]
        array = _array(value, kind)
        if not _may_become(array.type, kind):
            raise InvalidRequestError(
                f"parameter '{_name(parameter)}' of function '{function}' is of type {array.type}, not {kind}"
            )
        return conform_column(array, pa.field("value", kind))[0].as_py()
    except (pa.ArrowException, SchemaMismatchError, ValueError, TypeError, OverflowError) as error:
        expected = "any type" if kind is ANY else f"type {kind}"
        raise InvalidRequestError(
            f"parameter '{_name(parameter)}' of function '{function}' is not a value of {expected}"
        ) from error


def _name(parameter: pa.DataType | Parameter | None) -> str:
    return parameter.name if isinstance(parameter, Parameter) else "?"


def _may_become(given: pa.DataType, expected: pa.DataType) -> bool:
    """Return whether a value is of the expected family, or text, which is parsed."""
    own, other = _family(given), _family(expected)
    if own in {None, "text", other} or other is None:
        return True
    return other == "boolean" and pa.types.is_int8(given)  # as which DuckDB may send it


def _family(kind: pa.DataType) -> str | None:
    """Return what Arrow would cast freely to something else, for types that are a matter of course."""
    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return "text"
    if pa.types.is_temporal(kind):
        return "time"
    return "nested" if pa.types.is_nested(kind) else None


def _array(value: Any, kind: pa.DataType | None) -> pa.Array:  # noqa: ANN401
    if isinstance(value, pa.Array):
        return value
    try:
        return pa.array([value])  # with the type it would cut a fraction off
    except (pa.ArrowException, TypeError, OverflowError):
        return pa.array([value], kind)
