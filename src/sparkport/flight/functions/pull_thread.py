"""A thread on which a function pulls batches while the client pushes them."""

from __future__ import annotations

import contextlib
import enum
import queue
import threading
from collections.abc import Callable, Generator, Iterator

import pyarrow as pa

from sparkport.catalog.call import Call
from sparkport.errors import CancelledError, LimitExceededError

_Process = Callable[[Iterator[pa.RecordBatch]], Generator[pa.RecordBatch, None, None]]


class _Sign(enum.Enum):
    WANTED = "the function asks for the next batch"
    ENDED = "the function has returned, or the input has ended"
    GO_ON = "the last result was taken"
    ABANDONED = "nobody reads any more"


class Stage:
    """Runs a function over batches, one step at a time.

    DuckDB sends a batch only after the answer to the one before, and a handler cannot
    answer from within a function that asks for more; so the function has its own thread.
    It runs only while `feed` or `finish` wait for it, and is left alone when the call is
    cancelled: it learns of that when it asks or yields the next time.
    """

    def __init__(self, call: Call, process: _Process) -> None:
        self._call = call
        self._process = process
        self._inbox: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._outbox: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._ended = self._asked = False
        call.on_cancel(lambda: self._outbox.put(_Sign.ABANDONED))
        try:
            threading.Thread(target=self._run, name="table-in-out", daemon=True).start()
        except RuntimeError as error:
            raise LimitExceededError("the server cannot start another thread") from error

    def feed(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Give the function a batch and yield its results until it asks for the next one."""
        yield from self._results()  # up to the first time that it asks
        if not self._ended:
            self._asked = False
            self._inbox.put(batch)
            yield from self._results()

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Tell the function that the input has ended and yield the rest of its results."""
        yield from self._results()
        if not self._ended:
            self._asked = False
            self._inbox.put(_Sign.ENDED)
            yield from self._results()

    def close(self) -> None:
        """Let the function go; a generator of it is closed."""
        self._inbox.put(_Sign.ABANDONED)

    def _results(self) -> Iterator[pa.RecordBatch]:
        while not self._ended and not self._asked:
            match self._outbox.get():
                case _Sign.WANTED:
                    self._asked = True
                case _Sign.ENDED:
                    self._ended = True
                case Exception() as error:
                    self._ended = True
                    raise error
                case _Sign.ABANDONED | _Sign.GO_ON:
                    self._call.check()
                case batch:
                    yield batch
                    self._inbox.put(_Sign.GO_ON)

    def _run(self) -> None:
        try:
            results = self._process(self._batches())
            with contextlib.closing(results):
                for result in results:
                    self._outbox.put(result)
                    if self._inbox.get() is _Sign.ABANDONED:
                        return
            self._outbox.put(_Sign.ENDED)
        except Exception as error:  # noqa: BLE001 - raised again on the thread that waits for results
            self._outbox.put(error)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        while True:
            self._outbox.put(_Sign.WANTED)
            match self._inbox.get():
                case _Sign.ENDED:
                    return
                case _Sign():
                    raise CancelledError
                case batch:
                    yield batch
