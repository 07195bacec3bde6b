"""A short fingerprint of a statement: who sends it, what it does, and its rows."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

FINGERPRINT_BITS = 30
"""How long a fingerprint is: it detects statements that were mixed up; it is no signature."""

_BYTE = 8
_TEXTS = (pa.types.is_string, pa.types.is_binary, pa.types.is_large_string, pa.types.is_large_binary)
_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list, pa.types.is_map)


class Fingerprint:
    """The fingerprint of one statement, made while its rows come.

    How a client cuts the rows into batches makes no difference, as it may cut them otherwise when it
    sends them again: the values, the lengths and the nulls of each column are hashed as streams of their own.
    """

    def __init__(self, principal: str, operation: str, columns: tuple[str, ...] = ()) -> None:
        self._streams: dict[tuple[str, ...], Any] = defaultdict(lambda: hashlib.blake2b(digest_size=16))
        self._streams["statement",].update(repr((principal, operation, columns)).encode())

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows; all batches have the same columns."""
        for place, (name, column) in enumerate(zip(batch.schema.names, batch.columns, strict=True)):
            self._add((f"{place:06}", name), column)

    def value(self) -> int:
        """Return the fingerprint of the rows so far, never 0."""
        digest = hashlib.blake2b(digest_size=8)
        for path, stream in sorted(self._streams.items()):
            digest.update(repr(path).encode(errors="surrogatepass") + stream.digest())
        return int.from_bytes(digest.digest(), "big") >> (64 - FINGERPRINT_BITS) or 1

    def _add(self, path: tuple[str, ...], array: pa.Array) -> None:
        array = _plain(array)
        kind = array.type
        if not len(array):
            return
        self._hash((*path, str(kind), "nulls"), array.is_null().to_numpy(zero_copy_only=False))
        present = array.drop_null() if array.null_count else array
        if pa.types.is_struct(kind):
            for field, child in zip(kind, present.flatten(), strict=True):
                self._add((*path, field.name), child)
        elif any(is_list(kind) for is_list in _LISTS):
            listed = _as_list(present)
            self._hash((*path, "lengths"), pc.list_value_length(listed).to_numpy(zero_copy_only=False))
            self._add((*path, "items"), listed.flatten())
        elif any(is_text(kind) for is_text in _TEXTS):
            self._hash((*path, "lengths"), pc.binary_length(present).to_numpy().astype(np.int64))
            self._streams[*path, "values"].update(_text_bytes(present))
        elif pa.types.is_boolean(kind):
            self._hash((*path, "values"), present.to_numpy(zero_copy_only=False))
        elif _is_fixed_width(kind):
            self._streams[*path, "values"].update(_fixed_bytes(present))
        elif not pa.types.is_null(kind):
            for value in present.to_pylist():
                self._streams[*path, "values"].update(repr(value).encode(errors="surrogatepass"))

    def _hash(self, path: tuple[str, ...], values: np.typing.NDArray[Any]) -> None:
        self._streams[path].update(np.ascontiguousarray(values).view(np.uint8))


def _plain(array: pa.Array) -> pa.Array:
    """Return an array without extension types and dictionaries at its top."""
    while isinstance(array, pa.ExtensionArray):
        array = array.storage
    return _plain(array.dictionary_decode()) if pa.types.is_dictionary(array.type) else array


def _as_list(array: pa.Array) -> pa.Array:
    if not pa.types.is_map(array.type):
        return array
    entries = pa.StructArray.from_arrays([array.keys, array.items], ["key", "value"])
    return pa.ListArray.from_arrays(array.offsets, entries)


def _is_fixed_width(kind: pa.DataType) -> bool:
    try:
        return bool(kind.bit_width % _BYTE == 0)
    except ValueError:  # what Arrow says of all other types
        return False


def _text_bytes(array: pa.Array) -> memoryview:
    _, offsets, data = array.buffers()
    if data is None:
        return memoryview(b"")
    is_large = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    ends = np.frombuffer(offsets, np.int64 if is_large else np.int32)
    start, stop = ends[array.offset], ends[array.offset + len(array)]
    return memoryview(data)[start:stop]


def _fixed_bytes(array: pa.Array) -> memoryview:
    width = array.type.bit_width // _BYTE
    data = array.buffers()[1]
    return memoryview(data)[array.offset * width : (array.offset + len(array)) * width]
