"""Functions that run on the server."""

from __future__ import annotations

import enum
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from sparkport.catalog.abilities import Ability
from sparkport.catalog.call import Call
from sparkport.catalog.parameters import TABLE, Parameter, check_order
from sparkport.catalog.scan import ScanOptions


class Stability(enum.StrEnum):
    """How far the result of a scalar function may be reused for the same values."""

    CONSISTENT = "consistent"
    WITHIN_QUERY = "consistent_within_query"
    VOLATILE = "volatile"


@dataclass(frozen=True, slots=True)
class FunctionSignature:
    """Parameters and result type; `return_type` is None for table functions.

    A parameter is a bare type, whose values reach the function as they were sent, or a
    `Parameter`, whose values are brought to its type first and whose default stands in for
    a missing one. A variadic function takes its last positional parameter any number of times.
    """

    parameters: tuple[pa.DataType | Parameter, ...]
    return_type: pa.DataType | None = None
    variadic: bool = False
    stability: Stability = Stability.CONSISTENT

    def __post_init__(self) -> None:
        if not self.parameters:
            raise ValueError("a function needs at least one parameter")
        check_order(self.declared)

    @property
    def declared(self) -> tuple[Parameter, ...]:
        """The parameters; those that are bare types are called `arg1`, `arg2` and so on."""
        return tuple(
            parameter if isinstance(parameter, Parameter) else Parameter(f"arg{number}", parameter)
            for number, parameter in enumerate(self.parameters, 1)
        )

    @property
    def takes_table(self) -> bool:
        """Whether one of the parameters is a table."""
        return any(parameter.type is TABLE for parameter in self.declared)


@runtime_checkable
class _Function(Protocol, metaclass=Ability):
    @property
    @abstractmethod
    def name(self) -> str:
        """The function's name, never empty; upper case by convention.

        Several functions of a schema may have it, if their parameters differ.
        """
        raise NotImplementedError

    @property
    @abstractmethod
    def comment(self) -> str:
        """The function's documentation, or an empty text."""
        raise NotImplementedError

    @property
    @abstractmethod
    def signature(self) -> FunctionSignature:
        """Parameters and, of a scalar function, the return type."""
        raise NotImplementedError


@runtime_checkable
class ScalarFunction(_Function, Protocol):
    """A function of values, called with a whole batch at once."""

    @abstractmethod
    def execute(self, call: Call, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return one column of the return type, with a row for each row of `batch`.

        The batch has a column per parameter, with exactly its type. NULLs are values like others.
        """
        raise NotImplementedError


@runtime_checkable
class TableFunction(_Function, Protocol):
    """A function that returns a table whose columns may depend on its parameters.

    Parameters come as one value per declared parameter, in declared order, defaults filled in.
    """

    @abstractmethod
    def schema_for_parameters(self, call: Call, parameters: Sequence[Any]) -> pa.Schema:
        """Return the result's columns, at least one, without running the function.

        It is asked more than once for one call of the function. Raises InvalidRequestError
        for parameters that mean nothing.
        """
        raise NotImplementedError

    @abstractmethod
    def execute(self, call: Call, parameters: Sequence[Any], options: ScanOptions) -> pa.RecordBatchReader:
        """Run the function; the stream has the columns of `schema_for_parameters`.

        Columns and filter in `options` are hints, as for `Table.scan`. The server closes the reader.
        """
        raise NotImplementedError


@runtime_checkable
class TableInOutFunction(_Function, Protocol):
    """A function that turns the rows of one table into those of another, batch by batch.

    Its signature has one parameter of type `TABLE`, the last positional one; the others are
    handed over as to a `TableFunction`.
    """

    @abstractmethod
    def schema_for_input(self, call: Call, parameters: Sequence[Any], incoming: pa.Schema) -> pa.Schema:
        """Return the result's columns for an input of such columns. Raises InvalidRequestError."""
        raise NotImplementedError

    @abstractmethod
    def process(
        self, call: Call, parameters: Sequence[Any], incoming: pa.Schema, batches: Iterator[pa.RecordBatch]
    ) -> Iterable[pa.RecordBatch]:
        """Consume the batches and yield the result's; what is yielded after the last one ends it.

        It runs on a thread of its own. Asking for the next batch waits for the client. When
        the client goes away, asking raises CancelledError and a generator is closed.
        """
        raise NotImplementedError


@runtime_checkable
class UnlistedFunction(_Function, Protocol):
    """A function that clients are not told of, and that answers a call with the reason."""

    @property
    @abstractmethod
    def unlisted_because(self) -> str:
        """Why it is not listed."""
        raise NotImplementedError
