"""Functions of the user's that an engine may run where its data is."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from sparkport.catalog.call import Call
from sparkport.catalog.functions import FunctionSignature


@dataclass(frozen=True, slots=True)
class Offloadable:
    """A function from Arrow arrays to an Arrow array that needs nothing of the server."""

    name: str
    function: Callable[..., Any]
    signature: FunctionSignature


class Offloaded(Protocol):
    """A function as the engine runs it."""

    @abstractmethod
    def __call__(self, call: Call, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the one column of the result, with a row for each row of `batch`."""
        raise NotImplementedError


@runtime_checkable
class OffloadingCatalog(Protocol):
    """A catalog whose engine runs functions of the user's."""

    @abstractmethod
    def offload(self, function: Offloadable) -> Offloaded:
        """Take over a function, under its name also in the engine's own SQL.

        Raises ValueError if it cannot be sent to where the engine runs it.
        """
        raise NotImplementedError
