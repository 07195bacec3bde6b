"""How one Arrow type is stored: its storage type, the conversions both ways, and what filters may do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkport.spark.delta.log.spark_fields import SparkType
from sparkport.spark.types.storage import storage_type

Convert = Callable[[pa.Array], pa.Array]


@dataclass(frozen=True, slots=True)
class Pushdown:
    """Which comparisons of stored values give what DuckDB gets for the exact values."""

    equality: bool = False
    order: bool = False
    has_nan: bool = False
    """NaN equals itself and is greater than all else in DuckDB and Spark, unlike in Arrow; and
    the least and greatest values that files record leave it out."""


NOTHING = Pushdown()
EQUALITY = Pushdown(equality=True)
ORDER = Pushdown(equality=True, order=True)
FLOATS = Pushdown(equality=True, order=True, has_nan=True)


@dataclass(frozen=True, slots=True)
class Codec:
    """How values of one Arrow type are stored.

    `from_storage` takes any Arrow layout of the stored values: other names of list items, other
    zones, views. Children of structs are taken by position.
    """

    arrow: pa.DataType
    spark: SparkType
    to_storage: Convert
    from_storage: Convert
    pushdown: Pushdown
    description: str
    storage: pa.DataType = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "storage", storage_type(self.spark))

    @property
    def is_plain(self) -> bool:
        """Whether stored values are the exact ones, down to the names of list items."""
        return bool(self.arrow.equals(self.storage, check_metadata=True))

    def encode(self, array: pa.Array) -> pa.Array:
        """Return the stored form of exact values."""
        return array if self.is_plain else self.to_storage(array)

    def decode(self, array: pa.Array) -> pa.Array:
        """Return the exact values of stored ones."""
        if array.type.equals(self.arrow, check_metadata=True):
            return array
        return self.from_storage(array)


def cast_to(target: pa.DataType) -> Convert:
    """Return a conversion that fails rather than change a value."""
    return lambda array: array if array.type == target else array.cast(target)


def view_as(storage: pa.DataType, kind: pa.DataType) -> Convert:
    """Return a conversion from `storage` that reads the same bits as another type of that width."""
    to_stored = cast_to(storage)
    return lambda array: to_stored(array).view(kind)


def validity(array: pa.Array) -> pa.Buffer | None:
    """Return the bitmap of non-null values, from bit 0 on; None when nothing is null."""
    if not array.null_count:
        return None
    flags = array.is_valid().to_numpy(zero_copy_only=False)
    return pa.py_buffer(np.packbits(flags, bitorder="little"))


def byte_rows(array: pa.Array) -> npt.NDArray[np.uint8]:
    """Return fixed-size binary values as a matrix of bytes; what null rows hold does not matter."""
    width, buffer = array.type.byte_width, array.buffers()[1]
    if buffer is None or not len(array):
        return np.zeros((len(array), width), np.uint8)
    flat = np.frombuffer(buffer, np.uint8, len(array) * width, array.offset * width)
    return flat.reshape(len(array), width)


def from_byte_rows(kind: pa.DataType, rows: npt.NDArray[np.uint8], valid: pa.Buffer | None) -> pa.Array:
    """Return a matrix of bytes as values of a fixed width, or as texts or binaries of one length."""
    data = pa.py_buffer(np.ascontiguousarray(rows))
    if pa.types.is_fixed_size_binary(kind):
        return pa.Array.from_buffers(kind, len(rows), [valid, data])
    return pa.Array.from_buffers(kind, len(rows), [valid, offsets(np.full(len(rows), rows.shape[1])), data])


def offset_values(lengths: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
    """Return where each piece of these lengths begins, and where the last one ends."""
    ends = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=ends[1:])
    return ends


def offsets(lengths: npt.NDArray[np.integer], width: pa.DataType | None = None) -> pa.Buffer:
    """Return Arrow's offsets buffer for pieces of these lengths, in 32 bits by default."""
    return pa.array(offset_values(lengths)).cast(width or pa.int32()).buffers()[1]
