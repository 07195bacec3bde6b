"""Scans in the server's own process: for what is read before Spark would have begun."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa

from sparkport.catalog.budget import ByteBudget, Reservation
from sparkport.catalog.call import Call
from sparkport.errors import LimitExceededError
from sparkport.spark.errors import file_error
from sparkport.spark.read.file_scan import FileScan
from sparkport.spark.worker import parquet

_MAX_HELD_BYTES = 256 << 20
_MIN_SCAN_BYTES = 64 << 10
# Bytes in memory for a byte of Parquet, roughly: as values, and once more as a message.
_DECODED_PER_STORED = 2 * 4
_MIN_BYTES_FOR_THREADS = 1 << 20
_POLL_SECONDS = 0.05


class LocalScan:
    """Decodes files on the threads of the calls that read them, batch by batch.

    A scan holds no thread and no turn while its client takes a batch, only the memory of that batch, for
    which it has a reservation. At most as many batches are decoded at once as there are `turns`, in the
    order in which they were asked for: a long scan gets its turns among many short ones.
    """

    def __init__(self, turns: int, max_held_bytes: int = _MAX_HELD_BYTES) -> None:
        self._turns = _Turns(turns)
        self._memory = ByteBudget(max_held_bytes, "for scans in the server")

    @property
    def held(self) -> int:
        """The bytes that scans hold now, as far as they are estimated."""
        return self._memory.held

    @contextmanager
    def turn(self, call: Call) -> Iterator[None]:
        """Hold one of the turns while the block runs."""
        with self._turns.take(call):
            yield

    def begin(self, call: Call, scan: FileScan) -> Iterator[pa.RecordBatch] | None:
        """Return the stored values of the columns in the order of the files, None if there is no memory."""
        held = Reservation(self._memory)
        try:
            held.resize(_memory_size(scan))
        except LimitExceededError:
            return None
        has_threads = scan.size > _MIN_BYTES_FOR_THREADS
        return self._read(call, replace(scan, plan=replace(scan.plan, threads=has_threads)), held)

    def _read(self, call: Call, scan: FileScan, held: Reservation) -> Iterator[pa.RecordBatch]:
        batches = _decoded(scan)
        try:
            while (batch := self._next(call, batches)) is not None:
                call.check()
                if batch.num_rows:
                    yield batch
        finally:
            batches.close()
            held.release()

    def _next(self, call: Call, batches: Iterator[pa.RecordBatch]) -> pa.RecordBatch | None:
        with self.turn(call):
            return next(batches, None)


def _decoded(scan: FileScan) -> Generator[pa.RecordBatch]:
    try:
        for piece in scan.whole_files():
            yield from parquet.read(scan.plan, piece, mapped=False)
    except Exception as error:
        ours = file_error(error, scan.table)
        if ours is None:
            raise
        raise ours from error


def _memory_size(scan: FileScan) -> int:
    """Estimate what a scan holds at a time: the stored values of a row group, and a batch of them."""
    largest = 0.0
    for file in scan.files:
        batch = min(1.0, scan.plan.batch_rows / (file.physical_rows or 1))
        largest = max(largest, file.size * (1 + _DECODED_PER_STORED * batch))
    return max(_MIN_SCAN_BYTES, int(largest * scan.column_share))


class _Turns:
    """Lets a few threads work at once; the others wait in a queue."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._queue: deque[threading.Event] = deque()
        self._lock = threading.Lock()

    @contextmanager
    def take(self, call: Call) -> Iterator[None]:
        """Hold a turn while the block runs. Raises what `Call.check` does while it waits."""
        self._enter(call)
        try:
            yield
        finally:
            self._leave()

    def _enter(self, call: Call) -> None:
        with self._lock:
            if self._free:
                self._free -= 1
                return
            turn = threading.Event()
            self._queue.append(turn)
        try:
            while not turn.wait(_POLL_SECONDS):
                call.check()
        except BaseException:
            with self._lock:
                if not turn.is_set():
                    self._queue.remove(turn)
                    raise
            self._leave()  # it came in the last moment
            raise

    def _leave(self) -> None:
        with self._lock:
            if self._queue:
                self._queue.popleft().set()
            else:
                self._free += 1
