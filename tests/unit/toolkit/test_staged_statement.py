"""Statements that stage batches until they are committed or aborted."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from sparkport.catalog import Call
from sparkport.errors import CancelledError, InvalidRequestError
from sparkport.toolkit.repeats import StatementKey
from sparkport.toolkit.staged_statement import StagedStatement

BATCH = pa.record_batch({"n": [1, 2]})


class CountedStatement(StagedStatement):
    """Counts rows, and returns them if they are asked for."""

    operation = "INSERT"

    def __init__(self, call: Call, *, returning: bool = False) -> None:
        super().__init__(call, returning=returning)
        self.rows = 0

    def _stage_batch(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        self.rows += batch.num_rows
        return batch if self._returning else None

    def commit(self) -> int:
        """Return the number of rows."""
        self._check_open()
        self._is_finished = True
        return self.rows

    def abort(self) -> None:
        """Forget the rows."""
        self._is_finished = True

    def key(self) -> StatementKey | None:
        """Return the idempotency key."""
        return self._keys.key()


def test_batches_are_staged_until_the_commit() -> None:
    """A batch is answered only if its rows are to be returned."""
    plain, returning = CountedStatement(Call()), CountedStatement(Call(), returning=True)

    assert [plain.write(BATCH), plain.write(BATCH)] == [None, None]
    assert returning.write(BATCH) is BATCH
    assert (plain.commit(), returning.commit()) == (4, 2)


@pytest.mark.parametrize("end", [CountedStatement.commit, CountedStatement.abort])
def test_finished_statement_takes_nothing_more(end: Callable[[CountedStatement], object]) -> None:
    """After a commit or an abort, batches and another commit are refused."""
    statement = CountedStatement(Call())
    end(statement)

    with pytest.raises(InvalidRequestError, match="statement already finished"):
        statement.write(BATCH)
    with pytest.raises(InvalidRequestError, match="statement already finished"):
        statement.commit()
    assert statement.rows == 0


def test_cancelled_call_stages_nothing() -> None:
    """A statement lives as long as its call."""
    call = Call()
    statement = CountedStatement(call)
    call.cancel()

    with pytest.raises(CancelledError):
        statement.write(BATCH)
    assert statement.rows == 0


def test_key_depends_on_the_batches() -> None:
    """Only a call with an idempotency key has one, and other rows make another."""
    first, second, same = (CountedStatement(Call(idempotency_key="k")) for _ in range(3))
    for statement in (first, same):
        statement.write(BATCH)
    second.write(BATCH.slice(1))

    assert first.key() == same.key() != second.key()
    assert CountedStatement(Call()).key() is None
