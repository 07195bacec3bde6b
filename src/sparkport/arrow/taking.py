"""Take rows at given positions, for every Arrow type."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkport.arrow.conform import batch_of


def take(column: pa.Array | pa.ChunkedArray, positions: npt.NDArray[np.int64]) -> pa.Array:
    """Return the values at the positions, for every Arrow type."""
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(whole, pa.ChunkedArray):
        whole = pa.concat_arrays(whole.chunks) if whole.num_chunks else pa.nulls(0, whole.type)
    try:
        return whole.take(pa.array(positions))
    except pa.ArrowNotImplementedError:
        # Views and run-end encoding have no take kernel, but can be sliced and joined.
        runs = np.split(positions, np.flatnonzero(np.diff(positions) != 1) + 1) if len(positions) else []
        slices = [whole.slice(int(run[0]), len(run)) for run in runs]
        return pa.concat_arrays(slices) if slices else whole.slice(0, 0)


def take_batch(batch: pa.RecordBatch, positions: npt.NDArray[np.int64]) -> pa.RecordBatch:
    """Return the rows at the positions."""
    columns = [take(column, positions) for column in batch.columns]
    return batch_of(columns, batch.schema, len(positions))


def take_rows(table: pa.Table, positions: npt.NDArray[np.int64]) -> pa.RecordBatch:
    """Return the rows at the positions as one batch."""
    return batch_of([take(column, positions) for column in table.columns], table.schema, len(positions))
