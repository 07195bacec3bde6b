"""What DuckDB sends when it calls a function that returns a table."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import pyarrow as pa

from sparkport.protocol import schemas
from sparkport.protocol.msgpack import decode, raw_bytes


@dataclass(frozen=True, slots=True)
class FunctionInfoRequest:
    """`table_function_flight_info`: describe the result; `incoming` is there with a table argument."""

    descriptor: bytes
    parameters: bytes
    incoming: pa.Schema | None


@dataclass(frozen=True, slots=True)
class InOutParameters:
    """What comes before the rows of a table argument."""

    parameters: bytes
    filters: bytes


class _FunctionInfo(msgspec.Struct):
    descriptor: msgspec.Raw
    parameters: msgspec.Raw
    table_input_schema: msgspec.Raw = msgspec.Raw(b"\xa0")


class _InOut(msgspec.Struct):
    parameters: msgspec.Raw
    json_filters: msgspec.Raw = msgspec.Raw(b"\xa0")


def info(body: bytes) -> FunctionInfoRequest:
    """Decode `table_function_flight_info`."""
    wire = decode(body, _FunctionInfo)
    incoming = raw_bytes(wire.table_input_schema)
    return FunctionInfoRequest(
        raw_bytes(wire.descriptor), raw_bytes(wire.parameters), schemas.decode(incoming) if incoming else None
    )


def in_out(body: bytes) -> InOutParameters:
    """Decode the message that comes before the rows of a table argument."""
    wire = decode(body, _InOut)
    return InOutParameters(raw_bytes(wire.parameters), raw_bytes(wire.json_filters))
