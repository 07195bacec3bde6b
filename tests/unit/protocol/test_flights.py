"""Endpoints."""

from __future__ import annotations

import base64

import msgspec
import pyarrow as pa

from sparkport.catalog import ClientCall
from sparkport.protocol import flights


def test_call_location_names_a_function_of_duckdb() -> None:
    """The client is told a function and its arguments, one row of them as an Arrow stream."""
    location = flights.call_location(
        ClientCall("read_parquet", (["/a b/1.parquet", "s3://b/2.parquet"],), {"hive_partitioning": False})
    )
    head, _, data = location.partition(",")
    call = msgspec.msgpack.decode(base64.b64decode(data))
    arguments = pa.ipc.open_stream(call["data"]).read_all()

    assert head == "data:application/x-msgpack-duckdb-function-call;base64"
    assert call["function_name"] == "read_parquet"
    assert arguments.to_pylist() == [
        {"arg_0": ["/a b/1.parquet", "s3://b/2.parquet"], "hive_partitioning": False}
    ]
