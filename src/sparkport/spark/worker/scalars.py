"""What runs in Spark's Python workers when they call a user's function.

Executors need pyarrow but not sparkport: like `spark.tasks` this is shipped by value where they are
elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sparkport.arrow.columns import as_column

NUMBER, BATCH, ERROR, MESSAGE = "number", "batch", "error", "message"
RESULT_TYPE = f"{NUMBER} int, {BATCH} binary, {ERROR} string, {MESSAGE} string"
_RESULT = pa.schema(
    [(NUMBER, pa.int32()), (BATCH, pa.binary()), (ERROR, pa.string()), (MESSAGE, pa.string())]
)


class UserFunctionError(Exception):
    """Marks what a user's function raised among all that may go wrong in a task."""


@dataclass(frozen=True, slots=True)
class ScalarTask:
    """A user's function; `types` are those of its parameters, None for any."""

    function: Callable[..., Any]
    types: tuple[pa.DataType | None, ...]
    return_type: pa.DataType

    def column(self, columns: Sequence[pa.Array]) -> pa.Array:
        """Call the function. Raises whatever it raises, and TypeError for a result that does not fit."""
        result = as_column(self.function(*columns), self.return_type)
        if columns and len(result) != len(columns[0]):
            raise TypeError(f"the result has {len(result)} values for {len(columns[0])} rows")
        return result

    def blobs(self, parts: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Answer batches that are Arrow streams in a column; what the function raises is returned by name."""
        for part in parts:
            for number, data in zip(part[NUMBER].to_pylist(), part[BATCH], strict=True):
                yield pa.RecordBatch.from_pylist([self._answer(number, data.as_buffer())], _RESULT)

    def in_sql(self, *columns: pa.Array) -> pa.Array:
        """Call the function as Spark SQL does, whose arguments are cast to the declared types."""
        types = self.types + self.types[-1:] * (len(columns) - len(self.types))
        try:
            arguments = [
                column if kind is None else column.cast(kind)
                for column, kind in zip(columns, types, strict=True)
            ]
            return self.column(arguments).cast(self.return_type)
        except Exception as error:
            raise UserFunctionError(f"{type(error).__name__}: {error}") from error

    def _answer(self, number: int, data: pa.Buffer) -> dict[str, Any]:
        with pa.ipc.open_stream(data) as stream:
            batch = stream.read_next_batch()
        try:
            result = self.column(batch.columns)
        except Exception as error:  # noqa: BLE001  (it is raised where the call was made)
            return {NUMBER: number, ERROR: type(error).__name__, MESSAGE: str(error)}
        return {NUMBER: number, BATCH: to_ipc(pa.RecordBatch.from_arrays([result], ["result"]))}


def to_ipc(batch: pa.RecordBatch) -> bytes:
    """Return a batch as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())
