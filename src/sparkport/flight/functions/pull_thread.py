"""Run a function that pulls batches while the client pushes them."""

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


class _Signal(enum.Enum):
    NEXT = "the function asks for the next batch"
    ENDED = "the function has returned, or the input has ended"
    GO_ON = "the last result was taken"
    ABANDONED = "the results are no longer read"


class PullThread:
    """A thread that runs a function over batches, one step at a time.

    DuckDB sends a batch only after the reply to the one before, and a handler cannot reply from
    within a function that asks for more input; so the function has its own thread. It runs only
    while `feed` or `finish` wait for it. After a cancelled call it ends when it next asks for input
    or yields.
    """

    def __init__(self, call: Call, process: _Process) -> None:
        self._call = call
        self._process = process
        self._inbox: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._outbox: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._ended = self._asked = False
        call.on_cancel(lambda: self._outbox.put(_Signal.ABANDONED))
        try:
            threading.Thread(target=self._run, name="table-in-out", daemon=True).start()
        except RuntimeError as error:
            raise LimitExceededError("the server cannot start another thread; try again later") from error

    def feed(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Pass a batch to the function and yield its results until it asks for the next one."""
        yield from self._results()  # until it first asks for input
        if not self._ended:
            self._asked = False
            self._inbox.put(batch)
            yield from self._results()

    def finish(self) -> Iterator[pa.RecordBatch]:
        """End the input of the function and yield the rest of its results."""
        yield from self._results()
        if not self._ended:
            self._asked = False
            self._inbox.put(_Signal.ENDED)
            yield from self._results()

    def close(self) -> None:
        """Stop the function and close its generator."""
        self._inbox.put(_Signal.ABANDONED)

    def _results(self) -> Iterator[pa.RecordBatch]:
        while not self._ended and not self._asked:
            match self._outbox.get():
                case _Signal.NEXT:
                    self._asked = True
                case _Signal.ENDED:
                    self._ended = True
                case Exception() as error:
                    self._ended = True
                    raise error
                case _Signal.ABANDONED | _Signal.GO_ON:
                    self._call.check()
                case batch:
                    yield batch
                    self._inbox.put(_Signal.GO_ON)

    def _run(self) -> None:
        try:
            results = self._process(self._batches())
            with contextlib.closing(results):
                for result in results:
                    self._outbox.put(result)
                    if self._inbox.get() is _Signal.ABANDONED:
                        return
            self._outbox.put(_Signal.ENDED)
        except Exception as error:  # noqa: BLE001 - raised again on the thread that waits for results
            self._outbox.put(error)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        while True:
            self._outbox.put(_Signal.NEXT)
            match self._inbox.get():
                case _Signal.ENDED:
                    return
                case _Signal():
                    raise CancelledError
                case batch:
                    yield batch
