"""A scalar function that an engine may run instead of the server."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from sparkport.app.functions import PythonScalar
from sparkport.catalog.call import Call
from sparkport.catalog.functions import FunctionSignature
from sparkport.catalog.offloading import Offloadable, OffloadingCatalog
from sparkport.catalog.tables import Catalog


class OffloadedScalar:
    """Runs in this process, or batches of many rows in the engine that has taken the function over.

    The result is the same. DuckDB sends 2048 rows at a time and waits for each answer, which a Spark
    job could only delay; other clients send as many as they like.
    """

    def __init__(self, here: PythonScalar, min_rows: int) -> None:
        if here.declaration.injected:
            raise TypeError(f"{here.name!r} takes the call, which there is none of in Spark's workers")
        if min_rows < 1:
            raise ValueError("min_rows counts from 1")
        self._here = here
        self._least_rows = min_rows
        self._there: Callable[[Call, pa.RecordBatch], pa.RecordBatch] | None = None

    @property
    def name(self) -> str:
        """The function's name."""
        return self._here.name

    @property
    def comment(self) -> str:
        """The first line of its docstring."""
        return self._here.comment

    @property
    def signature(self) -> FunctionSignature:
        """What was declared."""
        return self._here.signature

    def bind(self, engine: Catalog) -> None:
        """Let an engine take the function over, if it is one that does. Raises ValueError if it cannot."""
        if isinstance(engine, OffloadingCatalog):
            self._there = engine.offload(Offloadable(self.name, self._here.function, self.signature))

    def execute(self, call: Call, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Call the function here or there."""
        if self._there is None or batch.num_rows < self._least_rows:
            return self._here.execute(call, batch)
        return self._there(call, batch)
