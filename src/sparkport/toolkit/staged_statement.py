"""The base of statements that stage their batches, and apply all of them in `commit`."""

from __future__ import annotations

from abc import abstractmethod

import pyarrow as pa

from sparkport.catalog.call import Call
from sparkport.catalog.dml import Statement
from sparkport.errors import InvalidRequestError
from sparkport.toolkit.repeats import KeyMaker


class StagedStatement(Statement):
    """Takes batches until `commit` or `abort`, and makes the idempotency key of the statement from them."""

    operation = ""

    def __init__(self, call: Call, *, returning: bool, columns: tuple[str, ...] = ()) -> None:
        self._call = call
        self._returning = returning
        self._keys = KeyMaker(call, self.operation, columns)
        self._version = call.if_version
        self._is_finished = False

    @property
    def version(self) -> str | None:
        """The snapshot that the rows of a client with `if_version` may count as read from."""
        return self._version

    def write(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """Stage a batch and return its rows if the statement is RETURNING."""
        self._check_open()
        self._keys.add(batch)
        return self._stage_batch(batch)

    @abstractmethod
    def _stage_batch(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        raise NotImplementedError

    def _check_open(self) -> None:
        if self._is_finished:
            raise InvalidRequestError("statement already finished")
        self._call.check()
