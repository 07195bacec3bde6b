"""Calling the functions of a catalog as a server does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from sparkport.catalog import Call, ScanOptions
from sparkport.catalog.functions import TableFunction
from sparkport.catalog.parameters import bound
from sparkport.errors import InvalidRequestError
from sparkport.spark.catalog.catalog import SparkCatalog

Row = dict[str, Any]


def prepared(
    catalog: SparkCatalog, name: str, values: Sequence[Any], named: Row
) -> tuple[TableFunction, tuple[Any, ...]]:
    """Return a function and the values it is called with: of several, the first that takes them."""
    schema = catalog.schema(Call(), "sparkport")
    assert schema is not None
    alike = [one for one in schema.table_functions(Call()) if one.name == name]
    for function in alike:
        assert isinstance(function, TableFunction)
        try:
            return function, bound(name, function.signature.parameters, values, named)
        except InvalidRequestError:
            continue
    raise AssertionError(f"no function {name!r} takes {values} and {named}")


def columns(catalog: SparkCatalog, name: str, *values: Any, **named: Any) -> pa.Schema:
    """Return the columns that a call would have."""
    function, parameters = prepared(catalog, name, values, named)
    return function.schema_for_parameters(Call(), parameters)


def table(catalog: SparkCatalog, name: str, *values: Any, call: Call | None = None, **named: Any) -> pa.Table:
    """Return the result of a call, which has just the columns that were announced."""
    function, parameters = prepared(catalog, name, values, named)
    call = call or Call()
    announced = function.schema_for_parameters(call, parameters)
    result = function.execute(call, parameters, ScanOptions()).read_all()
    assert result.schema.equals(announced)
    return result


def rows(catalog: SparkCatalog, name: str, *values: Any, **named: Any) -> list[Row]:
    """Return the rows of a call."""
    found: list[Row] = table(catalog, name, *values, **named).to_pylist()
    return found
