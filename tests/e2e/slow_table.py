"""A table whose scans do not end by themselves."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator

import pyarrow as pa

from sparkport.catalog import Call


class Slow:
    """A table whose rows come until the call is over, slowly, and whose reader tells when it has ended."""

    name = "slow"
    comment = ""
    arrow_schema = pa.schema([("n", pa.int64())])

    def __init__(self) -> None:
        self.ended = threading.Event()
        self.size = 1

    def scan(self, call: Call, options: object) -> pa.RecordBatchReader:
        """Yield small batches for ever."""
        del options

        def batches() -> Iterator[pa.RecordBatch]:
            try:
                for number in itertools.count():
                    if call.wait_cancelled(0.02):
                        return
                    yield pa.record_batch({"n": pa.array([number] * self.size, pa.int64())})
            finally:
                self.ended.set()

        return pa.RecordBatchReader.from_batches(self.arrow_schema, batches())
