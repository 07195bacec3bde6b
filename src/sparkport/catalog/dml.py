"""Changing rows: INSERT, UPDATE, DELETE.

There are two ways to be writable. A simple table takes a whole statement in one
call (`InsertableTable` and its siblings). A table that implements
`StatementTable` gets the batches one by one, can answer RETURNING for each as it
comes, and makes everything visible at once in `commit`. The server uses the
second way where it is offered.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import pyarrow as pa

from sparkport.catalog.call import Call
from sparkport.catalog.measures import MEASURES
from sparkport.catalog.rowid import ROWID
from sparkport.catalog.tables import Table
from sparkport.errors import ConflictError, InvalidRequestError


@dataclass(frozen=True, slots=True)
class DMLResult:
    """The outcome of a statement; `returning_data` only if it was asked for."""

    affected_rows: int
    returning_data: pa.RecordBatchReader | None = None


@runtime_checkable
class InsertableTable(Table, Protocol):
    """A table that takes new rows."""

    @abstractmethod
    def insert(self, call: Call, rows: pa.RecordBatchReader, *, returning: bool = False) -> DMLResult:
        """Add rows, all or none.

        `rows` has the table's columns (without the row id). Raises
        SchemaMismatchError, ConstraintViolationError.
        """
        raise NotImplementedError


@runtime_checkable
class UpdatableTable(Table, Protocol):
    """A table whose rows can be replaced by row id."""

    @abstractmethod
    def update(
        self, call: Call, row_ids: pa.Int64Array, rows: pa.RecordBatchReader, *, returning: bool = False
    ) -> DMLResult:
        """Set the columns of `rows` in the rows named by position, all or none.

        Raises RowNotFoundError, SchemaMismatchError, ConstraintViolationError.
        """
        raise NotImplementedError


@runtime_checkable
class DeletableTable(Table, Protocol):
    """A table whose rows can be removed by row id."""

    @abstractmethod
    def delete(self, call: Call, row_ids: pa.Int64Array, *, returning: bool = False) -> DMLResult:
        """Remove rows, all or none; ids that do not exist are ignored."""
        raise NotImplementedError


class Statement(Protocol):
    """One running INSERT, UPDATE or DELETE. Nothing is visible before `commit`.

    Used by one thread. After `commit` or `abort` it is over; `abort` may be called
    at any time, also twice. An UPDATE or DELETE whose call has `if_version` is a ConflictError if another has
    changed one of its rows since that snapshot of the table.
    """

    @property
    def version(self) -> str | None:
        """After `commit`, the snapshot that a client with `if_version` may take its rows to be of.

        That is the new one if nobody else has changed rows since `if_version`, and that itself otherwise.
        """
        return None

    @abstractmethod
    def write(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """Take one batch and return, if asked to, its rows as they will be stored.

        INSERT batches have the table's columns; UPDATE batches the columns to set
        and last the row id; DELETE batches only the row id. The answer has all
        columns of the table with the row id last, one row for each row changed.
        """
        raise NotImplementedError

    @abstractmethod
    def commit(self) -> int:
        """Make the statement visible and return how many rows it changed."""
        raise NotImplementedError

    @abstractmethod
    def abort(self) -> None:
        """Forget everything."""
        raise NotImplementedError


@runtime_checkable
class StatementTable(Table, Protocol):
    """A table that takes statements batch by batch.

    `columns` are the names that the batches of an UPDATE will set. A statement
    sees the table as it was when it began; others keep reading and writing.
    """

    @abstractmethod
    def begin_insert(self, call: Call, *, returning: bool) -> Statement:
        """Start an INSERT."""
        raise NotImplementedError

    @abstractmethod
    def begin_update(self, call: Call, columns: tuple[str, ...], *, returning: bool) -> Statement:
        """Start an UPDATE. Raises NotFoundError for an unknown column."""
        raise NotImplementedError

    @abstractmethod
    def begin_delete(self, call: Call, *, returning: bool) -> Statement:
        """Start a DELETE."""
        raise NotImplementedError


@dataclass(slots=True)
class Outcome:
    """The result of a statement, once it is committed."""

    affected_rows: int = 0


@contextmanager
def committed(
    call: Call, statement: Statement, check_alive: Callable[[], None] | None = None
) -> Iterator[Outcome]:
    """Commit a statement at the end of the block that writes its batches; abort it if anything fails.

    `check_alive` runs before the commit and raises if the caller has left: nothing is committed then. Without
    it the call is asked.
    """
    outcome = Outcome()
    try:
        yield outcome
        (check_alive or call.check)()
        with call.meter.committing():
            outcome.affected_rows = statement.commit()
        MEASURES.count("commits")
    except BaseException as error:
        if isinstance(error, ConflictError):
            MEASURES.count("conflicts")
        statement.abort()
        raise


def run(
    call: Call, statement: Statement, rows: pa.RecordBatchReader, arrow_schema: pa.Schema, *, returning: bool
) -> DMLResult:
    """Run a statement over all rows and commit it; `arrow_schema` is that of RETURNING without any rows."""
    answers: list[pa.RecordBatch] = []
    with committed(call, statement) as outcome:
        for batch in rows:
            answer = statement.write(batch)
            if answer is not None:
                answers.append(answer)
    if not returning:
        return DMLResult(outcome.affected_rows)
    arrow_schema = answers[0].schema if answers else arrow_schema
    return DMLResult(outcome.affected_rows, pa.RecordBatchReader.from_batches(arrow_schema, answers))


def with_ids(rows: pa.RecordBatchReader, row_ids: pa.Int64Array) -> pa.RecordBatchReader:
    """Return the rows of an UPDATE with their ids as the last column. Raises InvalidRequestError."""
    table = rows.read_all()
    if len(table) != len(row_ids):
        raise InvalidRequestError(f"an UPDATE has {len(row_ids)} row ids, but {len(table)} rows")
    return table.append_column(ROWID, row_ids).to_reader()
