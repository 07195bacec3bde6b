"""Convert what a user's function returns to a column.

Shipped by value to machines that have pyarrow but not sparkport, so it imports nothing of the package.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def as_column(result: Any, arrow_type: pa.DataType) -> pa.Array:  # noqa: ANN401  (whatever a user returns)
    """Return a result as a column: Arrow arrays as they are, other sequences as values of the type.

    Raises TypeError for what is not a column.
    """
    if isinstance(result, pa.ChunkedArray):
        result = result.combine_chunks()
    if not isinstance(result, pa.Array):
        if isinstance(result, pa.Scalar) or not hasattr(result, "__len__"):
            raise TypeError(f"a {type(result).__name__} is not a column: return a pyarrow.Array")
        result = pa.array(result, arrow_type)
    return result
