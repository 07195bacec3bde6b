"""The one row of Arrow values in which DuckDB sends the parameters of a table function."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from sparkport.errors import InvalidRequestError
from sparkport.protocol.ipc.flight_data import Decoder, FlightData, Limits
from sparkport.protocol.ipc.limits import body_length, inspect

_CONTINUATION = b"\xff\xff\xff\xff"
_PREFIX_BYTES = 8
_LIMITS = Limits(decompressed_bytes=64 << 20, columns=1000)


def decode(data: bytes) -> pa.RecordBatch:
    """Return the row of an Arrow IPC stream, checked as streams of clients are.

    Raises InvalidRequestError for anything but one row.
    """
    batches = [batch for batch, _ in Decoder(_frames(data), _LIMITS)]
    if len(batches) != 1 or batches[0].num_rows != 1:
        raise InvalidRequestError("the parameters of a function must be one row")
    return batches[0]


def _frames(data: bytes) -> Iterator[FlightData]:
    view = memoryview(data)
    at = 0
    while at < len(view):
        if bytes(view[at : at + 4]) != _CONTINUATION:
            raise InvalidRequestError("the parameters are not an Arrow stream")
        size = int.from_bytes(view[at + 4 : at + _PREFIX_BYTES], "little")
        if not size:
            return
        header = view[at + _PREFIX_BYTES : at + _PREFIX_BYTES + size]
        at += _PREFIX_BYTES + size
        # Checks the header before its length is believed.
        inspect(bytes(header), view[at:], _LIMITS)
        length = body_length(bytes(header))
        yield FlightData(None, header, b"", view[at : at + length])
        at += length
