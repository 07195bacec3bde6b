"""Python functions as the protocols of `sparkport.catalog` want them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sparkport.app.user_code import declarations
from sparkport.app.user_code.batches import batches_of
from sparkport.app.user_code.declarations import Columns, Declaration
from sparkport.arrow.columns import as_column
from sparkport.catalog.call import Call
from sparkport.catalog.functions import FunctionSignature, Stability
from sparkport.catalog.parameters import TABLE
from sparkport.catalog.scan import ScanOptions


@dataclass(frozen=True, slots=True)
class PythonFunction:
    """A function with what was declared of it."""

    function: Callable[..., Any]
    declaration: Declaration
    signature: FunctionSignature

    @property
    def name(self) -> str:
        """The function's name."""
        return self.declaration.name

    @property
    def comment(self) -> str:
        """The first line of its docstring."""
        return self.declaration.comment


@dataclass(frozen=True, slots=True)
class PythonScalar(PythonFunction):
    """A function from Arrow arrays to an Arrow array."""

    result: pa.Schema

    def execute(self, call: Call, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Call the function once for the whole batch."""
        given = dict.fromkeys(self.declaration.injected, call)
        result = as_column(self.function(*batch.columns, **given), self.signature.return_type)
        if result.type == self.signature.return_type:
            return pa.RecordBatch.from_arrays([result], schema=self.result)
        return pa.RecordBatch.from_arrays([result], names=self.result.names)


@dataclass(frozen=True, slots=True)
class PythonTableFunction(PythonFunction):
    """A function from values to rows."""

    columns: Columns

    def schema_for_parameters(self, call: Call, parameters: Sequence[Any]) -> pa.Schema:
        """Return the declared columns, or those that a function gives for the parameters."""
        del call
        return _computed(self.columns, self.declaration.by_name(parameters))

    def execute(self, call: Call, parameters: Sequence[Any], options: ScanOptions) -> pa.RecordBatchReader:
        """Stream what the function yields."""
        arrow_schema = self.schema_for_parameters(call, parameters)
        positional, named = self.declaration.arguments(parameters, [call, options])
        rows = batches_of(self.function(*positional, **named), arrow_schema, options.columns)
        return pa.RecordBatchReader.from_batches(arrow_schema, rows)


@dataclass(frozen=True, slots=True)
class PythonInOut(PythonFunction):
    """A function from a stream of batches, or from each batch, to rows."""

    columns: Columns | None

    def schema_for_input(self, call: Call, parameters: Sequence[Any], incoming: pa.Schema) -> pa.Schema:
        """Return the declared columns, those that a function gives, or those of the input."""
        del call
        if self.columns is None:
            return incoming
        return _computed(self.columns, self.declaration.by_name(self._with_table(parameters, incoming)))

    def process(
        self, call: Call, parameters: Sequence[Any], incoming: pa.Schema, batches: Iterator[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """Yield what the function makes of the batches."""
        arrow_schema = self.schema_for_input(call, parameters, incoming)
        if self.declaration.by_batch:
            for batch in batches:
                yield from self._results(call, parameters, batch, arrow_schema)
        else:
            yield from self._results(call, parameters, batches, arrow_schema)

    def _results(
        self, call: Call, parameters: Sequence[Any], table: object, arrow_schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        positional, named = self.declaration.arguments(self._with_table(parameters, table), [call])
        return batches_of(self.function(*positional, **named), arrow_schema, None)

    def _with_table(self, parameters: Sequence[Any], table: object) -> list[Any]:
        at = next(
            index for index, parameter in enumerate(self.declaration.parameters) if parameter.type is TABLE
        )
        return [*parameters[:at], table, *parameters[at:]]


def scalar(
    function: Callable[..., Any],
    *,
    name: str = "",
    parameters: Mapping[str, Any] | pa.Schema | None = None,
    returns: Any = None,  # noqa: ANN401
    stability: Stability | str = Stability.CONSISTENT,
) -> PythonScalar:
    """Return a scalar function. Raises TypeError or ValueError for a signature that does not fit."""
    declared = declarations.declaration(function, name=name, declared=parameters)
    for parameter in declared.parameters:
        if parameter.named or not parameter.required or parameter.type is TABLE:
            raise TypeError(
                f"parameter {parameter.name!r} of {declared.name!r}: a scalar function has positional"
                " parameters without defaults; write another function of the same name instead"
            )
    result = declared.result if returns is None else returns
    if result is inspect.Signature.empty:
        raise TypeError(f"the result of {declared.name!r} needs a type")
    return_type = declarations.value_type(result)
    signature = FunctionSignature(declared.parameters, return_type, declared.variadic, Stability(stability))
    return PythonScalar(function, declared, signature, pa.schema([("result", return_type)]))


def table_function(function: Callable[..., Any], columns: Columns, *, name: str = "") -> PythonTableFunction:
    """Return a table function. Raises TypeError or ValueError for a signature that does not fit."""
    declared = declarations.declaration(function, name=name, injected=(Call, ScanOptions))
    if any(parameter.type is TABLE for parameter in declared.parameters):
        raise TypeError(f"{declared.name!r} takes a table: declare it with table_in_out")
    if not declared.parameters:
        raise TypeError(f"{declared.name!r} takes no parameters: declare it as a table")
    signature = FunctionSignature(declared.parameters, variadic=declared.variadic)
    return PythonTableFunction(function, declared, signature, _checked(columns, declared))


def in_out(function: Callable[..., Any], columns: Columns | None, *, name: str = "") -> PythonInOut:
    """Return a function of a table. Raises TypeError or ValueError for a signature that does not fit."""
    declared = declarations.declaration(function, name=name)
    signature = FunctionSignature(declared.parameters)
    if not signature.takes_table or declared.variadic:
        raise TypeError(f"{declared.name!r} needs one parameter of type Iterator[pyarrow.RecordBatch]")
    return PythonInOut(
        function, declared, signature, None if columns is None else _checked(columns, declared)
    )


def _checked(columns: Columns, declared: Declaration) -> Columns:
    if not callable(columns):
        return declarations.arrow_schema(columns)
    parameters = {parameter.name for parameter in declared.parameters}
    unknown = next((name for name in inspect.signature(columns).parameters if name not in parameters), None)
    if unknown is not None:
        raise TypeError(f"the columns of {declared.name!r} depend on {unknown!r}, which is not a parameter")
    return columns


def _computed(columns: Columns, values: Mapping[str, Any]) -> pa.Schema:
    if not callable(columns):
        return columns
    # It names those of the function's parameters that the columns depend on.
    names = inspect.signature(columns).parameters
    return declarations.arrow_schema(columns(**{name: values[name] for name in names}))
