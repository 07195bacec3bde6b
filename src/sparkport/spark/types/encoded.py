"""Types that wrap another one: dictionaries, run-end encoding, extensions; and nulls."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkport.spark.types.codec import EQUALITY, NOTHING, ORDER, Codec, Pushdown
from sparkport.spark.types.errors import BatchTooLargeError


def dictionary(kind: pa.DataType, value: Codec) -> Codec:
    """Return the codec of dictionaries: the values themselves.

    Which values a dictionary has is up to each batch. DuckDB orders an ENUM by position, so only
    equality is left.
    """

    def to_storage(array: pa.Array) -> pa.Array:
        return value.encode(array.dictionary).take(array.indices)

    def from_storage(array: pa.Array) -> pa.Array:
        if pa.types.is_nested(array.type):
            values, indices = array, _places(array)
        else:
            encoded = array.dictionary_encode()
            values, indices = encoded.dictionary, encoded.indices
        _check_room(kind, kind.index_type, len(values) - 1)
        return pa.DictionaryArray.from_arrays(
            indices.cast(kind.index_type), value.decode(values), ordered=kind.ordered
        )

    pushdown = EQUALITY if value.pushdown.equality else NOTHING
    return Codec(kind, value.spark, to_storage, from_storage, pushdown, value.description)


def run_ends(kind: pa.DataType, value: Codec) -> Codec:
    """Return the codec of run-end encoded values: the values themselves."""

    def to_storage(array: pa.Array) -> pa.Array:
        wanted = np.arange(array.offset, array.offset + len(array))
        places = np.searchsorted(array.run_ends.to_numpy(), wanted, side="right")
        return value.encode(array.values).take(pa.array(places))

    def from_storage(array: pa.Array) -> pa.Array:
        _check_room(kind, kind.run_end_type, len(array))
        if pa.types.is_nested(array.type):
            ends, values = pa.array(np.arange(1, len(array) + 1)), array
        else:
            encoded = pc.run_end_encode(array, run_end_type=kind.run_end_type)
            ends, values = encoded.run_ends, encoded.values
        return pa.RunEndEncodedArray.from_arrays(
            ends.cast(kind.run_end_type), value.decode(values), type=kind
        )

    return Codec(kind, value.spark, to_storage, from_storage, value.pushdown, value.description)


def extension(kind: pa.DataType, value: Codec, pushdown: Pushdown = NOTHING) -> Codec:
    """Return the codec of an extension type that is stored as its storage is.

    What its values mean to DuckDB is not known, so nothing is pushed by default.
    """

    def to_storage(array: pa.Array) -> pa.Array:
        return value.encode(array.storage)

    def from_storage(array: pa.Array) -> pa.Array:
        return pa.ExtensionArray.from_storage(kind, value.decode(array))

    return Codec(kind, value.spark, to_storage, from_storage, pushdown, value.description)


def bool8(kind: pa.DataType) -> Codec:
    """Return the codec of booleans in bytes; every truth comes back as 1."""

    def to_storage(array: pa.Array) -> pa.Array:
        return pc.not_equal(array.storage, pa.scalar(0, pa.int8()))

    def from_storage(array: pa.Array) -> pa.Array:
        return pa.ExtensionArray.from_storage(kind, array.cast(pa.int8()))

    return Codec(kind, "boolean", to_storage, from_storage, ORDER, "the boolean")


def null(kind: pa.DataType) -> Codec:
    """Return the codec of nulls: a boolean column, as Delta hides columns of type VOID."""

    def to_storage(array: pa.Array) -> pa.Array:
        return pa.nulls(len(array), pa.bool_())

    def from_storage(array: pa.Array) -> pa.Array:
        if array.null_count != len(array):
            raise pa.ArrowInvalid("something that is not null")
        return pa.nulls(len(array))

    return Codec(kind, "boolean", to_storage, from_storage, NOTHING, "null")


def _places(array: pa.Array) -> pa.Array:
    places = np.arange(len(array))
    return pa.array(places, mask=array.is_null().to_numpy(zero_copy_only=False))


def _check_room(kind: pa.DataType, width: pa.DataType, needed: int) -> None:
    limit = np.iinfo(width.to_pandas_dtype()).max
    if needed > limit:
        raise BatchTooLargeError(str(kind), needed)
