"""Deletion vectors: which rows of a Parquet file are no longer in the table."""

from __future__ import annotations

import base64
import struct
import uuid
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap64

from sparkport.errors import PreconditionError
from sparkport.spark.delta.files.data_files import removed_on_failure
from sparkport.spark.delta.log.actions import DeletionVector
from sparkport.spark.storage.filesystem import location_of, resolve, storage_of
from sparkport.spark.storage.folder_names import table_label

_MAGIC = 1681511377
_UUID_CHARACTERS = 20
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_Z85_TO_B85 = str.maketrans(_Z85, _B85)  # the same code with other letters
_B85_TO_Z85 = str.maketrans(_B85, _Z85)
_FORMAT_VERSION = b"\x01"
_LENGTH = 5  # characters of Z85 that make four bytes


class CorruptDeletionVectorError(PreconditionError):
    """A deletion vector cannot be read: no row of its file may be delivered."""

    def __init__(self, root: str, detail: str) -> None:
        super().__init__(f"a deletion vector of table '{table_label(root)}' is damaged: {detail}")


def keep_mask(vector: DeletionVector, root: str, row_count: int) -> bytes:
    """Return Arrow's bitmap of the rows that are left of a file with `row_count` rows."""
    deleted = deleted_positions(vector, root)
    if len(deleted) and int(deleted[-1]) >= row_count:
        raise CorruptDeletionVectorError(root, f"row {deleted[-1]} of a file of {row_count} rows")
    kept = np.ones(row_count, np.bool_)
    kept[deleted] = False
    return np.packbits(kept, bitorder="little").tobytes()


def deleted_positions(vector: DeletionVector, root: str) -> npt.NDArray[np.int64]:
    """Return the positions of the deleted rows in their file, ascending."""
    folder = location_of(root)
    location = vector_location(vector, folder)
    data = _read_inline(vector, folder) if location is None else _read_stored(vector, folder, location)
    if len(data) < struct.calcsize("<I") or struct.unpack_from("<I", data)[0] != _MAGIC:
        raise CorruptDeletionVectorError(folder, "it does not begin with the magic number")
    try:
        bitmap: Any = BitMap64.deserialize(data[4:])
    except ValueError as error:
        raise CorruptDeletionVectorError(folder, "its bitmap cannot be decoded") from error
    if len(bitmap) != vector.cardinality:
        raise CorruptDeletionVectorError(folder, f"{len(bitmap)} rows instead of {vector.cardinality}")
    return np.asarray(bitmap.to_array(), np.uint64).astype(np.int64)


def vector_location(vector: DeletionVector, root: str) -> str | None:
    """Return the file that has a vector, None if it is in the log itself."""
    match vector.storage_type:
        case "i":
            return None
        case "p":
            return resolve(root, vector.path_or_inline)
        case "u":
            prefix = vector.path_or_inline[:-_UUID_CHARACTERS]
            name = uuid.UUID(bytes=_decode_z85(vector.path_or_inline[-_UUID_CHARACTERS:], root))
            folder = f"{root}/{prefix}" if prefix else root
            return f"{folder}/deletion_vector_{name}.bin"
        case other:
            raise CorruptDeletionVectorError(root, f"storage type {other!r} is unknown")


def write_vectors(root: str, deleted: Sequence[npt.NDArray[np.int64]]) -> tuple[Path, list[DeletionVector]]:
    """Write the positions of deleted rows, file by file, into one new file of a table on the local disk.

    Returns that file, and where in it the positions of each are.
    """
    name = uuid.uuid4()
    where = base64.b85encode(name.bytes).decode().translate(_B85_TO_Z85)
    parts, vectors, offset = [_FORMAT_VERSION], [], len(_FORMAT_VERSION)
    for positions in deleted:
        bitmap: Any = BitMap64(positions.astype(np.uint64))
        data = struct.pack("<I", _MAGIC) + bitmap.serialize()
        parts += [struct.pack(">I", len(data)), data, struct.pack(">I", zlib.crc32(data))]
        vectors.append(DeletionVector("u", where, offset, len(data), len(bitmap)))
        offset += len(data) + 8
    path = Path(location_of(root)) / f"deletion_vector_{name}.bin"
    with removed_on_failure(path):
        path.write_bytes(b"".join(parts))
    return path, vectors


def inline_vector(positions: npt.NDArray[np.int64]) -> DeletionVector:
    """Return a vector that has the positions of deleted rows in itself."""
    bitmap: Any = BitMap64(positions.astype(np.uint64))
    data = struct.pack("<I", _MAGIC) + bitmap.serialize()
    padded = data + b"\0" * (-len(data) % 4)
    text = base64.b85encode(padded).decode().translate(_B85_TO_Z85)
    return DeletionVector("i", text, None, len(data), len(bitmap))


def _read_inline(vector: DeletionVector, root: str) -> bytes:
    data = _decode_z85(vector.path_or_inline, root)
    if len(data) < vector.size:
        raise CorruptDeletionVectorError(root, f"{len(data)} bytes instead of {vector.size}")
    return data[: vector.size]  # the encoding pads to a multiple of four


def _read_stored(vector: DeletionVector, root: str, location: str) -> bytes:
    name = location.rpartition("/")[2]
    try:
        stored = storage_of(location).read_range(location, vector.offset or 0, vector.size + 8)
    except FileNotFoundError as error:
        raise CorruptDeletionVectorError(root, f"{name} is missing") from error
    if len(stored) != vector.size + 8:
        raise CorruptDeletionVectorError(root, f"{name} ends too early")
    (size,) = struct.unpack_from(">I", stored)
    data = stored[4:-4]
    (checksum,) = struct.unpack_from(">I", stored, vector.size + 4)
    if size != vector.size:
        raise CorruptDeletionVectorError(root, f"{name} holds {size} bytes instead of {vector.size}")
    if zlib.crc32(data) != checksum:
        raise CorruptDeletionVectorError(root, f"the checksum in {name} does not match")
    return data


def _decode_z85(text: str, root: str) -> bytes:
    if len(text) % _LENGTH:
        raise CorruptDeletionVectorError(root, f"{len(text)} characters are no Z85")
    try:
        return base64.b85decode(text.translate(_Z85_TO_B85))
    except ValueError as error:
        raise CorruptDeletionVectorError(root, "its text is no Z85") from error
