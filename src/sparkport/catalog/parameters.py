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
    declared = [one for one in parameters if not (isinstance(one, Parameter) and one.type is TABLE)]
    positional = [one for one in declared if not (isinstance(one, Parameter) and one.named)]
    _check_count(function, positional, len(values), variadic=variadic)
    _check_names(function, declared, named)
    given = iter(values)
    result = [_value(function, one, given, named) for one in declared]
    last = positional[-1] if positional else None
    return (*result, *(_brought(function, last, extra) for extra in given))


def _check_count(
    function: str, positional: Sequence[pa.DataType | Parameter], count: int, *, variadic: bool
) -> None:
    least = sum(not isinstance(one, Parameter) or one.required for one in positional)
    most = len(positional)
    if count >= least and (variadic or count <= most):
        return
    wanted = f"{least} or more" if variadic else str(most) if least == most else f"{least} to {most}"
    raise InvalidRequestError(f"function '{function}' takes {wanted} parameters, not {count}")


def _check_names(
    function: str, declared: Sequence[pa.DataType | Parameter], named: Mapping[str, Any]
) -> None:
    known = {one.name.lower() for one in declared if isinstance(one, Parameter) and one.named}
    for name in named:
        if name.lower() not in known:
            raise InvalidRequestError(f"function '{function}' has no named parameter '{name}'")


def _value(
    function: str, one: pa.DataType | Parameter, given: Iterator[Any], named: Mapping[str, Any]
) -> object:
    if not isinstance(one, Parameter):
        return _brought(function, one, next(given))
    if not one.named:
        value = next(given, REQUIRED)
        return one.default if value is REQUIRED else _brought(function, one, value)
    value = next((value for name, value in named.items() if name.lower() == one.name.lower()), None)
    result = None if value is None else _brought(function, one, value)
    if result is not None:
        return result
    if one.required:
        raise InvalidRequestError(f"function '{function}' needs the parameter '{one.name}'")
    return one.default


def _brought(function: str, one: pa.DataType | Parameter | None, value: Any) -> object:  # noqa: ANN401
    kind = one.type if isinstance(one, Parameter) else None
    try:
        if kind is None or (value is None and kind is not ANY):
            return value[0].as_py() if isinstance(value, pa.Array) else value
        if isinstance(kind, Special):
            return _array(value, None)[0]
        array = _array(value, kind)
        if not _may_become(array.type, kind):
            raise InvalidRequestError(
                f"parameter '{_name(one)}' of function '{function}' is of type {array.type}, not {kind}"
            )
        return conform_column(array, pa.field("value", kind))[0].as_py()
    except (pa.ArrowException, SchemaMismatchError, ValueError, TypeError, OverflowError) as error:
        wanted = "any type" if kind is ANY else f"type {kind}"
        raise InvalidRequestError(
            f"parameter '{_name(one)}' of function '{function}' is not a value of {wanted}"
        ) from error


def _name(one: pa.DataType | Parameter | None) -> str:
    return one.name if isinstance(one, Parameter) else "?"


def _may_become(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Say whether a value is of the wanted kind, or text, which is read as what is wanted."""
    own, other = _family(given), _family(wanted)
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
