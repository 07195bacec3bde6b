"""Functions that run on the server."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from sparkport.catalog.call import Call
from sparkport.catalog.scan import ScanOptions


@dataclass(frozen=True, slots=True)
class FunctionSignature:
    """Parameter and result types; `return_type` is None for table functions."""

    parameters: tuple[pa.DataType, ...]
    return_type: pa.DataType | None = None
    variadic: bool = False

    def __post_init__(self) -> None:
        if not self.parameters:
            raise ValueError("a function needs at least one parameter")


@runtime_checkable
class ScalarFunction(Protocol):
    """A function of values, called with a whole batch at once."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The function's name, never empty; upper case by convention."""
        raise NotImplementedError

    @property
    @abstractmethod
    def comment(self) -> str:
        """The function's documentation, or an empty text."""
        raise NotImplementedError

    @property
    @abstractmethod
    def signature(self) -> FunctionSignature:
        """Parameter types and the return type."""
        raise NotImplementedError

    @abstractmethod
    def execute(self, call: Call, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return one column of the return type, with a row for each row of `batch`."""
        raise NotImplementedError


@runtime_checkable
class TableFunction(Protocol):
    """A function that returns a table whose columns may depend on its parameters."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The function's name, never empty; upper case by convention."""
        raise NotImplementedError

    @property
    @abstractmethod
    def comment(self) -> str:
        """The function's documentation, or an empty text."""
        raise NotImplementedError

    @property
    @abstractmethod
    def signature(self) -> FunctionSignature:
        """Parameter types."""
        raise NotImplementedError

    @abstractmethod
    def schema_for_parameters(self, call: Call, parameters: Sequence[Any]) -> pa.Schema:
        """Return the result's columns without running the function.

        Raises InvalidRequestError for parameters that mean nothing.
        """
        raise NotImplementedError

    @abstractmethod
    def execute(self, call: Call, parameters: Sequence[Any], options: ScanOptions) -> pa.RecordBatchReader:
        """Run the function; the stream has the columns of `schema_for_parameters`."""
        raise NotImplementedError
