"""Deletion vectors, as bytes."""

from __future__ import annotations

import struct
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from sparkport.spark.delta.files.deletion_vectors import (
    CorruptDeletionVectorError,
    deleted_positions,
    keep_mask,
)
from sparkport.spark.delta.log.actions import DeletionVector

# The example of the Delta protocol, in an older format than it describes, and the same rows in today's.
OLD_INLINE = DeletionVector("i", "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", None, 40, 6)
INLINE = DeletionVector("i", "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", None, 44, 6)
STORED = DeletionVector("u", "ab^-aqEH.-t@S}K{vb[*k^", 4, 40, 6)
STORED_NAME = "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def serialized(positions: list[int]) -> bytes:
    """Return the bytes of a deletion vector."""
    return struct.pack("<I", 1681511377) + bytes(BitMap64(positions).serialize())


def z85(data: bytes) -> str:
    """Return bytes in the encoding of ZeroMQ, padded to a multiple of four."""
    text = ""
    for start in range(0, len(data), 4):
        number = int.from_bytes(data[start : start + 4].ljust(4, b"\0"))
        text += "".join(Z85[number // 85**power % 85] for power in (4, 3, 2, 1, 0))
    return text


def in_a_file(folder: Path, positions: list[int], *, before: bytes = b"\1") -> DeletionVector:
    """Write a deletion vector to the file of the protocol's example."""
    data = serialized(positions)
    folder.mkdir(parents=True, exist_ok=True)
    framed = struct.pack(">I", len(data)) + data + struct.pack(">I", zlib.crc32(data))
    (folder / STORED_NAME).write_bytes(before + framed + b"more")
    return replace(STORED, offset=len(before), size=len(data), cardinality=len(set(positions)))


def test_inline_vector_is_decoded() -> None:
    """A vector in the log needs no file."""
    assert deleted_positions(INLINE, "/nowhere").tolist() == [3, 4, 7, 11, 18, 29]


def test_mask_has_a_bit_for_each_row_that_is_left() -> None:
    """The mask is Arrow's bitmap, least significant bit first."""
    mask = keep_mask(INLINE, "/nowhere", 30)
    kept = pa.BooleanArray.from_buffers(pa.bool_(), 30, [None, pa.py_buffer(mask)]).to_pylist()

    assert mask[0] == 0b01100111
    assert [row for row, keep in enumerate(kept) if not keep] == [3, 4, 7, 11, 18, 29]


@given(st.lists(st.integers(0, 200_000), max_size=50))
def test_every_set_of_rows_comes_back(positions: list[int]) -> None:
    """Whatever rows are deleted, exactly these are missing from the mask."""
    data = serialized(positions)
    vector = DeletionVector("i", z85(data), None, len(data), len(set(positions)))
    bits = np.unpackbits(np.frombuffer(keep_mask(vector, "/nowhere", 200_001), np.uint8), bitorder="little")

    assert np.flatnonzero(bits[:200_001] == 0).tolist() == sorted(set(positions))


def test_stored_vector_lies_under_its_prefix(tmp_path: Path) -> None:
    """The file's name is made of the prefix and the id in the path."""
    vector = in_a_file(tmp_path / "a b" / "ab", [1, 5, 2**33], before=b"\1other vector")

    assert deleted_positions(vector, str(tmp_path / "a b")).tolist() == [1, 5, 2**33]


def test_stored_vector_without_prefix_lies_in_the_table(tmp_path: Path) -> None:
    """Spark's default has no random prefix."""
    vector = replace(in_a_file(tmp_path, [2]), path_or_inline=STORED.path_or_inline[2:])

    assert deleted_positions(vector, f"file:{tmp_path}/").tolist() == [2]


def test_absolute_vector_is_where_it_says(tmp_path: Path) -> None:
    """Shallow clones refer to the vectors of their source by encoded URIs."""
    made = in_a_file(tmp_path / "x y", [2])
    vector = replace(made, storage_type="p", path_or_inline=f"file://{tmp_path}/x%20y/{STORED_NAME}")

    assert deleted_positions(vector, "/nowhere/else").tolist() == [2]


def test_missing_file_is_told(tmp_path: Path) -> None:
    """Without its vector a file must not be read."""
    with pytest.raises(CorruptDeletionVectorError, match=f"{STORED_NAME} is missing"):
        deleted_positions(STORED, str(tmp_path))


def test_row_beyond_the_file_is_damage() -> None:
    """A vector of another file is noticed."""
    with pytest.raises(CorruptDeletionVectorError, match="row 29 of a file of 29 rows"):
        keep_mask(INLINE, "/warehouse/sales/orders", 29)


@pytest.mark.parametrize(
    ("vector", "message"),
    [
        (replace(INLINE, cardinality=5), "6 rows instead of 5"),
        (replace(INLINE, size=48), "44 bytes instead of 48"),
        (OLD_INLINE, "it does not begin with the magic number"),
        (replace(INLINE, path_or_inline="wi5b"), "4 characters are no Z85"),
        (replace(INLINE, path_or_inline='"""""'), "its text is no Z85"),
        (replace(INLINE, path_or_inline="00000" * 11), "it does not begin with the magic number"),
        (replace(INLINE, size=20), "its bitmap cannot be decoded"),
        (replace(INLINE, storage_type="x"), "storage type 'x' is unknown"),
    ],
)
def test_damaged_description_is_told(vector: DeletionVector, message: str) -> None:
    """A vector that is not what its description says is not used."""
    with pytest.raises(CorruptDeletionVectorError, match=f"'orders' is damaged: {message}"):
        deleted_positions(vector, "/warehouse/sales/orders")


@pytest.mark.parametrize(
    ("at", "message"),
    [(4, "holds .* bytes instead of"), (20, "the checksum in .* does not match"), (None, "ends too early")],
)
def test_damaged_file_is_told(tmp_path: Path, at: int | None, message: str) -> None:
    """Size and checksum in the file must agree with the data."""
    vector = in_a_file(tmp_path / "ab", [1, 2, 3])
    path = tmp_path / "ab" / STORED_NAME
    data = bytearray(path.read_bytes())
    if at is None:
        del data[-12:]
    else:
        data[at] ^= 1
    path.write_bytes(data)

    with pytest.raises(CorruptDeletionVectorError, match=message):
        deleted_positions(vector, str(tmp_path))
