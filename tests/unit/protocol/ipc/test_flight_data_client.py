"""The codec against a real Flight client: pyarrow.flight, over a gRPC server that only passes bytes."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pyarrow as pa
import pytest
from pyarrow import flight

from sparkport.protocol.ipc.flight_data import Decoder, Encoder, decode, encode_metadata

from .arrow_samples import batches

SAMPLES = batches()


class Echo:
    """Record the frames of a put; answer an exchange with the batches that came."""

    def __init__(self) -> None:
        self.put: list[bytes] = []

    def do_put(self, frames: Iterator[bytes], _: grpc.ServicerContext) -> Iterator[bytes]:
        """Record the frames."""
        self.put = list(frames)
        yield from ()

    def do_exchange(self, frames: Iterator[bytes], _: grpc.ServicerContext) -> Iterator[bytes]:
        """Decode and encode again, with a word of metadata at the end."""
        decoder = Decoder(map(decode, frames))
        encoder = Encoder(decoder.arrow_schema)
        yield encoder.schema()
        for batch, metadata in decoder:
            yield from encoder.batch(batch, metadata)
        yield encode_metadata(b"bye")


@pytest.fixture(scope="module")
def echo() -> Iterator[tuple[Echo, flight.FlightClient]]:
    """Serve an Echo on loopback."""
    service = Echo()
    handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        "DoPut": grpc.stream_stream_rpc_method_handler(service.do_put),
        "DoExchange": grpc.stream_stream_rpc_method_handler(service.do_exchange),
    }
    server = grpc.server(ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers(
        [grpc.method_handlers_generic_handler("arrow.flight.protocol.FlightService", handlers)]
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with flight.connect(f"grpc://127.0.0.1:{port}") as client:
        yield service, client
    server.stop(None).wait()


@pytest.mark.parametrize("compression", [None, "zstd"])
def test_put_of_a_real_client_is_decoded(
    echo: tuple[Echo, flight.FlightClient], compression: str | None
) -> None:
    """What pyarrow's client puts is read equal, with its descriptor and the metadata of each batch."""
    service, client = echo
    sample = SAMPLES["every type"]
    options = flight.FlightCallOptions(write_options=pa.ipc.IpcWriteOptions(compression=compression))
    writer, reader = client.do_put(flight.FlightDescriptor.for_path("t"), sample.schema, options)
    writer.write_with_metadata(sample, b"first")
    writer.write_metadata(b"between")
    writer.write_batch(sample.slice(2))
    writer.done_writing()
    assert reader.read() is None
    writer.close()
    frames = [decode(message) for message in service.put]
    received = list(Decoder(iter(frames)))

    assert frames[0].descriptor == b"\x08\x01\x1a\x01t"
    assert [metadata for _, metadata in received] == [b"first", b""]
    assert received[0][0].equals(sample)
    assert received[1][0].equals(sample.slice(2))


@pytest.mark.parametrize("name", ["every type", "no columns", "no rows", "metadata"])
def test_exchange_with_a_real_client_comes_back_equal(
    echo: tuple[Echo, flight.FlightClient], name: str
) -> None:
    """What pyarrow's client sends to an exchange, it reads back equal."""
    _, client = echo
    sample = SAMPLES[name]
    writer, reader = client.do_exchange(flight.FlightDescriptor.for_command(b"echo"))
    with writer:
        writer.begin(sample.schema)
        writer.write_with_metadata(sample, b"one")
        writer.write_batch(sample)
        writer.done_writing()
        chunks = list(reader)

    assert reader.schema.equals(sample.schema, check_metadata=True)
    assert [chunk.app_metadata and chunk.app_metadata.to_pybytes() for chunk in chunks] == [
        b"one",
        None,
        b"bye",
    ]
    assert [chunk.data is not None and chunk.data.equals(sample) for chunk in chunks] == [True, True, False]
