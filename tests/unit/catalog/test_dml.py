"""Committing and aborting statements."""

from __future__ import annotations

from collections.abc import Generator

import pyarrow as pa
import pytest

from sparkport.catalog import Call
from sparkport.catalog.dml import Statement, committed
from sparkport.errors import CancelledError


class Recorder(Statement):
    """A statement that records what is done with it."""

    def __init__(self, *, fails: bool = False) -> None:
        self.events: list[str] = []
        self._fails = fails

    def write(self, batch: pa.RecordBatch) -> None:
        """Record a batch."""
        self.events.append(f"write {batch.num_rows}")

    def commit(self) -> int:
        """Record the commit, or fail."""
        self.events.append("commit")
        if self._fails:
            raise ValueError("the commit failed")
        return 7

    def abort(self) -> None:
        """Record the end."""
        self.events.append("abort")


ROWS = pa.record_batch({"n": [1, 2]})


def test_statement_is_committed_after_its_block() -> None:
    """The caller is checked and the statement committed when all is written."""
    statement = Recorder()
    with committed(Call(), statement, lambda: statement.events.append("check")) as outcome:
        statement.write(ROWS)

    assert statement.events == ["write 2", "check", "commit"]
    assert outcome.affected_rows == 7


def test_statement_whose_caller_has_left_is_aborted() -> None:
    """A failed check prevents the commit."""
    statement = Recorder()

    def check() -> None:
        raise CancelledError

    with pytest.raises(CancelledError), committed(Call(), statement, check):
        statement.write(ROWS)
    assert statement.events == ["write 2", "abort"]


def test_statement_whose_commit_fails_is_aborted() -> None:
    """A statement that cannot be committed leaves nothing behind."""
    statement = Recorder(fails=True)

    with pytest.raises(ValueError, match=r"^the commit failed$"), committed(Call(), statement):
        pass
    assert statement.events == ["commit", "abort"]


def test_statement_of_a_closed_stream_is_aborted() -> None:
    """A stream that is closed half-way, as when its client leaves, aborts its statement."""
    statement = Recorder()

    def stream() -> Generator[None, None, None]:
        with committed(Call(), statement):
            yield

    running = stream()
    next(running)
    running.close()

    assert statement.events == ["abort"]
