"""Texts, bytes and identifiers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkport.spark.types.codec import (
    EQUALITY,
    ORDER,
    Codec,
    byte_rows,
    cast_to,
    from_byte_rows,
    validity,
)

_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
_NO_DIGIT = 255
_DIGIT = np.full(256, _NO_DIGIT, np.uint8)
_DIGIT[_HEX] = np.arange(16)
_UUID_TEXT = 36
_DASHES = [8, 13, 18, 23]
_DIGITS = [at for at in range(_UUID_TEXT) if at not in _DASHES]


def text(kind: pa.DataType) -> Codec:
    """Return the codec of texts of any layout."""
    return Codec(kind, "string", cast_to(pa.string()), cast_to(kind), ORDER, "the text")


def binary(kind: pa.DataType) -> Codec:
    """Return the codec of bytes of any layout."""
    return Codec(kind, "binary", cast_to(pa.binary()), cast_to(kind), ORDER, "the bytes")


def uuid(kind: pa.DataType) -> Codec:
    """Return the codec of UUIDs: texts in lower case, which sort like the bytes do."""

    def to_storage(array: pa.Array) -> pa.Array:
        raw = byte_rows(array.storage)
        rows = np.full((len(raw), _UUID_TEXT), ord("-"), np.uint8)
        rows[:, _DIGITS[::2]] = _HEX[raw >> 4]
        rows[:, _DIGITS[1::2]] = _HEX[raw & 15]
        return from_byte_rows(pa.string(), rows, validity(array))

    def from_storage(array: pa.Array) -> pa.Array:
        # Upper case is refused: filters compare the stored texts.
        rows = byte_rows(array.cast(pa.binary()).cast(pa.binary(_UUID_TEXT)))
        digits = _DIGIT[rows[:, _DIGITS]]
        wrong = (digits == _NO_DIGIT).any(axis=1) | (rows[:, _DASHES] != ord("-")).any(axis=1)
        if (first := pc.index(pc.and_(pa.array(wrong), array.is_valid()), True).as_py()) >= 0:
            raise pa.ArrowInvalid(f"'{array[first]}'")
        raw = (digits[:, ::2] * 16 + digits[:, 1::2]).astype(np.uint8)
        stored = from_byte_rows(pa.binary(16), raw, validity(array))
        return pa.ExtensionArray.from_storage(kind, stored)

    return Codec(kind, "string", to_storage, from_storage, ORDER, "the usual text, in lower case")


def opaque_bytes(kind: pa.DataType, description: str) -> Codec:
    """Return the codec of a type that only DuckDB can order: its bytes as they are."""

    def from_storage(array: pa.Array) -> pa.Array:
        return pa.ExtensionArray.from_storage(kind, cast_to(kind.storage_type)(array))

    def to_storage(array: pa.Array) -> pa.Array:
        return array.storage.cast(pa.binary())

    return Codec(kind, "binary", to_storage, from_storage, EQUALITY, description)
