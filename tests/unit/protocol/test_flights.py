"""Endpoints."""

from __future__ import annotations

import base64

import msgspec
import pyarrow as pa

from sparkport.protocol import flights


def test_parquet_location_is_a_call_of_duckdbs_reader() -> None:
    """The client is told a function and its arguments, one row of them as an Arrow stream."""
    location = flights.parquet_location(["/a b/1.parquet", "s3://b/2.parquet"])
    head, _, data = location.partition(",")
    call = msgspec.msgpack.decode(base64.b64decode(data))
    arguments = pa.ipc.open_stream(call["data"]).read_all()

    assert head == "data:application/x-msgpack-duckdb-function-call;base64"
    assert call["function_name"] == "read_parquet"
    assert arguments.to_pylist() == [
        {"arg_0": ["/a b/1.parquet", "s3://b/2.parquet"], "hive_partitioning": False}
    ]
