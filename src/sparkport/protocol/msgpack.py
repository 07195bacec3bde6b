"""MessagePack as the Airport client speaks it.

The client packs binary data (descriptors, Arrow IPC) as msgpack *str*, so fields
that hold bytes are declared `msgspec.Raw` and taken out with `raw_bytes`.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from sparkport.errors import InvalidRequestError
from sparkport.protocol.decoding import decode_msgpack
from sparkport.protocol.names import explain

T = TypeVar("T")

_FIXSTR = range(0xA0, 0xC0)
_LENGTH_BYTES = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4}  # bin and str


def decode(body: bytes, shape: type[T]) -> T:
    """Return the body as the given type.

    Raises InvalidRequestError for anything that does not fit; unknown keys and
    repeated keys are allowed.
    """
    try:
        return decode_msgpack(body, shape)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequestError(f"malformed request body: {explain(error)}") from error


def has_key(body: bytes, key: str) -> bool:
    """Return whether the body is a map with that key."""
    return key in decode(body, dict[str, msgspec.Raw])


def encode(value: object) -> bytes:
    """Return the value as msgpack; bytes become bin, which the client accepts everywhere."""
    return msgspec.msgpack.encode(value)


def raw_bytes(raw: msgspec.Raw) -> bytes:
    """Return the content of a msgpack str or bin, whatever its bytes."""
    data = bytes(raw)
    if data and data[0] in _FIXSTR:
        return data[1:]
    width = _LENGTH_BYTES.get(data[0]) if data else None
    if width is None:
        raise InvalidRequestError("malformed request body: expected a string or bytes")
    return data[1 + width :]
