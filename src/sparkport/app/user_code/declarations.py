"""What a function's annotations say about its parameters and result."""

from __future__ import annotations

import datetime as dt
import inspect
import types
import typing
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sparkport.catalog.call import Call
from sparkport.catalog.parameters import ANY, REQUIRED, TABLE, Parameter, Special

_TYPES: dict[object, pa.DataType] = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
    dt.date: pa.date32(),
    dt.time: pa.time64("us"),
    dt.datetime: pa.timestamp("us"),
    uuid.UUID: pa.uuid(),
}
# DuckDB's client takes these for options of its own.
_RESERVED = frozenset({"auth_token", "secret", "ticket", "headers", "at_unit", "at_value"})

Columns = pa.Schema | Mapping[str, Any] | Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Declaration:
    """A function as it was declared: what a client gives, and what the server gives beside that."""

    name: str
    comment: str
    parameters: tuple[Parameter, ...]
    injected: Mapping[str, type]
    variadic: bool
    result: object
    by_batch: bool = False
    """Whether the table parameter takes one batch at a time."""

    def by_name(self, values: Sequence[Any]) -> dict[str, Any]:
        """Return the values by the names of their parameters."""
        return {parameter.name: value for parameter, value in zip(self.parameters, values, strict=False)}

    def arguments(self, values: Iterable[Any], given: Iterable[object]) -> tuple[list[Any], dict[str, Any]]:
        """Return what the function is called with for the values of its parameters.

        `given` are the call and what belongs to it, for parameters that are annotated so.
        """
        remaining = iter(values)
        positional: list[Any] = []
        named: dict[str, Any] = {}
        for parameter in self.parameters:
            value = next(remaining)
            if parameter.named:
                named[parameter.name] = value
            else:
                positional.append(value)
        positional.extend(remaining)
        for name, type_ in self.injected.items():
            named[name] = next(value for value in given if isinstance(value, type_))
        return positional, named


def declaration(
    function: Callable[..., Any],
    *,
    name: str = "",
    declared: Mapping[str, Any] | pa.Schema | None = None,
    injected: tuple[type, ...] = (Call,),
) -> Declaration:
    """Read a function's signature; `declared` gives types by name and wins over annotations.

    Parameters of a type in `injected` are not the client's. Raises TypeError for a
    parameter without a type.
    """
    called = name or function.__name__
    try:
        signature = inspect.signature(function, eval_str=True)
    except NameError as error:
        raise TypeError(f"an annotation of {called!r} cannot be read: {error}") from error
    explicit = {field.name: field.type for field in declared} if isinstance(declared, pa.Schema) else declared
    parameters, given = [], {}
    variadic = by_batch = False
    for parameter in signature.parameters.values():
        annotation = (explicit or {}).get(parameter.name, parameter.annotation)
        if annotation in injected:
            given[parameter.name] = annotation
            continue
        if parameter.kind is parameter.VAR_KEYWORD or annotation is parameter.empty:
            raise TypeError(f"parameter {parameter.name!r} of {called!r} needs a type")
        by_batch = by_batch or annotation is pa.RecordBatch
        variadic = variadic or parameter.kind is parameter.VAR_POSITIONAL
        parameters.append(_parameter(called, parameter, annotation))
    return Declaration(
        called,
        (inspect.getdoc(function) or "").partition("\n")[0],
        tuple(parameters),
        given,
        variadic,
        signature.return_annotation,
        by_batch,
    )


def arrow_type(annotation: Any) -> pa.DataType | Special:  # noqa: ANN401
    """Return the type that an annotation means. Raises TypeError.

    Known are Arrow types, some of Python's, `list[...]` of these, `Any`, and
    `Annotated[..., type]`; `None` beside a type says nothing, since every value may be NULL.
    """
    if isinstance(annotation, pa.DataType | Special):
        return annotation
    if annotation is Any:
        return ANY
    if _is_table(annotation):
        return TABLE
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return arrow_type(arguments[-1])
    if origin in {typing.Union, types.UnionType}:
        rest = [member for member in arguments if member is not type(None)]
        if len(rest) == 1:
            return arrow_type(rest[0])
    if origin is list:
        return pa.list_(value_type(arguments[0]))
    mapped = _TYPES.get(annotation) if isinstance(annotation, type) else None
    if mapped is None:
        raise TypeError(f"no Arrow type corresponds to {annotation!r}")
    return mapped


def value_type(annotation: Any) -> pa.DataType:  # noqa: ANN401
    """Return the type of a value. Raises TypeError for a table or any type."""
    resolved = arrow_type(annotation)
    if isinstance(resolved, Special):
        raise TypeError(f"{annotation!r} is not the type of a value")
    return resolved


def arrow_schema(columns: Any) -> pa.Schema:  # noqa: ANN401
    """Return the columns that a schema, or a mapping of names to types, means. Raises TypeError."""
    if isinstance(columns, pa.Schema):
        return columns
    if isinstance(columns, Mapping):
        return pa.schema([(name, value_type(annotation)) for name, annotation in columns.items()])
    raise TypeError("columns are a pyarrow.Schema or a mapping of names to types")


def _parameter(function: str, parameter: inspect.Parameter, annotation: Any) -> Parameter:  # noqa: ANN401
    named = parameter.kind is parameter.KEYWORD_ONLY
    if named and parameter.name in _RESERVED:
        raise TypeError(f"parameter {parameter.name!r} of {function!r}: DuckDB reserves this name")
    default = REQUIRED if parameter.default is parameter.empty else parameter.default
    try:
        return Parameter(parameter.name, arrow_type(annotation), named=named, default=default)
    except (TypeError, ValueError) as error:
        raise TypeError(f"parameter {parameter.name!r} of {function!r}: {error}") from error


def _is_table(annotation: Any) -> bool:  # noqa: ANN401
    if annotation is pa.RecordBatch:
        return True
    streams = typing.get_origin(annotation) in {Iterator, Iterable}
    return streams and typing.get_args(annotation) == (pa.RecordBatch,)
