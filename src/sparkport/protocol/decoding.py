"""Decoders of MessagePack and JSON, made by one thread at a time.

msgspec learns a type when it is first used, and publishes what it has before that is complete: a second
thread that decodes the same type at that moment crashes the process. A finished decoder is safe to share.
"""

from __future__ import annotations

import threading
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

_msgpack_decoders: dict[object, msgspec.msgpack.Decoder[Any]] = {}
_json_decoders: dict[object, msgspec.json.Decoder[Any]] = {}
_lock = threading.Lock()  # one for both: they share what msgspec has learned of a type


def decode_msgpack(data: bytes, shape: type[T]) -> T:
    """Return MessagePack as a type of the package. Raises what `msgspec.msgpack.decode` does."""
    decoder = _msgpack_decoders.get(shape)
    if decoder is None:
        with _lock:
            decoder = _msgpack_decoders.setdefault(shape, msgspec.msgpack.Decoder(shape))
    decoded: T = decoder.decode(data)
    return decoded


def decode_json(data: bytes, shape: type[T]) -> T:
    """Return JSON as a type of the package. Raises what `msgspec.json.decode` does."""
    decoder = _json_decoders.get(shape)
    if decoder is None:
        with _lock:
            decoder = _json_decoders.setdefault(shape, msgspec.json.Decoder(shape))
    decoded: T = decoder.decode(data)
    return decoded
