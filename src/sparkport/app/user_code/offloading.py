"""A scalar function that an engine may run instead of the server."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from sparkport.app.user_code.functions import PythonScalar
from sparkport.catalog.call import Call
from sparkport.catalog.functions import FunctionSignature
from sparkport.catalog.offloading import Offloadable, OffloadingCatalog
from sparkport.catalog.tables import Catalog


class OffloadedScalar:
    """Runs in this process, or batches of many rows in the engine that has taken the function over.

    The result is the same. DuckDB sends 2048 rows at a time and waits for each answer, which a Spark
    job could only delay; other clients send as many as they like.
    """

    def __init__(self, local: PythonScalar, min_rows: int) -> None:
        if local.declaration.injected:
            raise TypeError(f"{local.name!r} takes the call, which does not exist in Spark's workers")
        if min_rows < 1:
            raise ValueError("min_rows is at least 1")
        self._local = local
        self._min_rows = min_rows
        self._remote: Callable[[Call, pa.RecordBatch], pa.RecordBatch] | None = None

    @property
    def name(self) -> str:
        """The function's name."""
        return self._local.name

    @property
    def comment(self) -> str:
        """The first line of its docstring."""
        return self._local.comment

    @property
    def signature(self) -> FunctionSignature:
        """What was declared."""
        return self._local.signature

    def bind(self, engine: Catalog) -> None:
        """Let an engine take the function over, if it is one that does. Raises ValueError if it cannot."""
        if isinstance(engine, OffloadingCatalog):
            self._remote = engine.offload(Offloadable(self.name, self._local.function, self.signature))

    def execute(self, call: Call, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Call the function in this process, or in the engine."""
        if self._remote is None or batch.num_rows < self._min_rows:
            return self._local.execute(call, batch)
        return self._remote(call, batch)
