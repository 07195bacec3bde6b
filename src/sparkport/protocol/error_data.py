"""Errors on the wire: the class and the data of an error, beside its gRPC status and sentence.

The server sends them in a trailer, so that a client raises the very class with its attributes. Fields that a
server did not send, or that would not fit into a trailer, have the values in `FIELDS`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from sparkport import errors
from sparkport.errors import SparkportError
from sparkport.protocol.decoding import decode_msgpack

TRAILER = "x-sparkport-error-bin"

FIELDS: dict[type[SparkportError], dict[str, object]] = {
    errors.SchemaMismatchError: {"detail": ""},
    errors.ConstraintViolationError: {"constraint": "", "table": "", "column": None},
    errors.NotFoundError: {"kind": "", "name": ""},
    errors.RowNotFoundError: {"kind": "row", "name": ""},
    errors.AlreadyExistsError: {"kind": "", "name": ""},
    errors.SchemaNotEmptyError: {"schema": "", "tables": (), "others": ()},
    errors.LastColumnError: {"table": "", "column": ""},
    errors.UnsupportedOperationError: {"kind": "", "name": "", "operation": ""},
    errors.TransactionNotActiveError: {"transaction_id": "", "state": ""},
    errors.ConflictError: {"table": ""},
    errors.ClientSilentError: {"action": "", "seconds": None},
    errors.UserCodeError: {"kind": "", "name": ""},
}

_CLASSES: dict[str, type[SparkportError]] = {name: getattr(errors, name) for name in errors.__all__}
_MAX_BYTES = 2048  # all response headers share 16 KiB, and the sentence is one of them


class _Wire(msgspec.Struct):
    error: str
    data: dict[str, str | float | int | tuple[str, ...] | None] = {}


def encode(error: SparkportError) -> bytes:
    """Return the class of an error, as far as clients know it, and those of its fields that fit."""
    error_class = next(base for base in type(error).__mro__ if base in _CLASSES.values())
    wire = _Wire(error_class.__name__)
    encoded = msgspec.msgpack.encode(wire)
    for name in FIELDS.get(error_class, {}):
        longer = msgspec.structs.replace(wire, data={**wire.data, name: _valid(getattr(error, name))})
        data = msgspec.msgpack.encode(longer)
        if len(data) <= _MAX_BYTES:
            wire, encoded = longer, data
    return encoded


def _valid(value: Any) -> Any:  # noqa: ANN401  (a field of any error)
    """Return a value with text that is valid UTF-8: JSON can spell half a character."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    return tuple(map(_valid, value)) if isinstance(value, tuple) else value


def decode(data: bytes, text: str) -> SparkportError | None:
    """Return the error with a server's sentence; None for a class that this version does not know."""
    try:
        wire = decode_msgpack(data, _Wire)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    error_class = _CLASSES.get(wire.error)
    return None if error_class is None else make(error_class, text, wire.data)


def make(error_class: type[SparkportError], text: str, data: dict[str, Any] | None = None) -> SparkportError:
    """Return an error whose sentence another process wrote, with the data that came along."""
    # The class's own constructor would write the sentence anew, from data that may be incomplete.
    error = error_class.__new__(error_class)
    SparkportError.__init__(error, text)
    for name, default in FIELDS.get(error_class, {}).items():
        setattr(error, name, (data or {}).get(name, default))
    return error
