"""Buffers that several columns of a batch have in common, sent once.

A message says of each buffer where it lies in the body, so that two may lie at the same place. That
makes columns that were not asked for, and go as nulls, almost free: they are all one block of zeros, and
what is under the nulls of numbers is whatever values the batch has anyway.
"""

from __future__ import annotations

import struct
from typing import TypeAlias

import pyarrow as pa

from sparkport.protocol.ipc.limits import batch_buffers

__all__ = ["FileSlice", "send_once", "values_of", "zeros"]

FileSlice: TypeAlias = bytes | memoryview | pa.Buffer

_ALIGNMENT = 8
_PAIR_BYTES = 16
_pack_offset = struct.Struct("<q").pack_into


def values_of(array: pa.Array) -> pa.Buffer | None:
    """Return the memory of the values, if they are of a type that can lie under the nulls of others."""
    if not _is_number(array.type) or not len(array):
        return None
    width = array.type.bit_width // 8
    return array.buffers()[1].slice(width * array.offset, width * len(array))


def zeros(
    data_type: pa.DataType, length: int, block: pa.Buffer, values: pa.Buffer | None = None
) -> pa.Array | None:
    """Return nulls that are views of a block of zeros, or None for types whose nulls are made otherwise.

    Under the nulls of numbers lie `values`, if there are enough of them.
    """
    if pa.types.is_string(data_type) or pa.types.is_binary(data_type):
        buffers = [block.slice(0, -(-length // 8)), block.slice(0, 4 * (length + 1)), block.slice(0, 0)]
    elif pa.types.is_primitive(data_type) or pa.types.is_decimal128(data_type):
        size = -(-length * data_type.bit_width // 8)
        under = values if values is not None and len(values) >= size and _is_number(data_type) else block
        buffers = [block.slice(0, -(-length // 8)), under.slice(0, size)]
    else:
        return None
    return pa.Array.from_buffers(data_type, length, buffers, null_count=length)


def _is_number(data_type: pa.DataType) -> bool:
    """Return whether clients take any bits for a value, also where they convert what is under a null."""
    return bool(
        pa.types.is_integer(data_type)
        or pa.types.is_floating(data_type)
        or pa.types.is_decimal128(data_type)
        or pa.types.is_date32(data_type)
        or (isinstance(data_type, pa.TimestampType) and data_type.unit == "us")
    )


def send_once(header: bytes, body: list[FileSlice]) -> tuple[bytes, list[FileSlice]]:
    """Leave out of a batch's body what is in it already; the header refers to the first place."""
    buffers, pairs_at, length_at = batch_buffers(header)
    pieces = _pieces(buffers, body)
    longest: dict[int, pa.Buffer] = {}
    for piece in pieces.values():
        longest_so_far = longest.get(piece.address)
        if longest_so_far is None or len(longest_so_far) < len(piece):
            longest[piece.address] = piece
    if len(longest) == len(pieces):
        return header, body
    changed = bytearray(header)
    placed: dict[int, int] = {}
    kept: list[FileSlice] = []
    end = 0
    for number, (offset, length) in enumerate(buffers):
        address = pieces[offset].address if length else 0
        _pack_offset(changed, pairs_at + _PAIR_BYTES * number, placed.get(address, end))
        if not length or address in placed:
            continue
        placed[address] = end
        padding = -len(longest[address]) % _ALIGNMENT
        kept += (longest[address], bytes(padding))
        end += len(longest[address]) + padding
    _pack_offset(changed, length_at, end)
    return bytes(changed), kept


def _pieces(buffers: list[tuple[int, int]], body: list[FileSlice]) -> dict[int, pa.Buffer]:
    """Return the buffers of a body by their offsets; nothing if it is cut in another way."""
    starts = {offset: length for offset, length in buffers if length}
    pieces: dict[int, pa.Buffer] = {}
    at = 0
    for piece in body:
        if isinstance(piece, pa.Buffer) and starts.get(at) == len(piece):
            pieces[at] = piece
        at += len(piece)
    return pieces if len(pieces) == len(starts) else {}
