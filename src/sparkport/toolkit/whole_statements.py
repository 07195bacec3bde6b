"""INSERT, UPDATE and DELETE in one call, for tables that take statements batch by batch."""

from __future__ import annotations

from abc import abstractmethod

import pyarrow as pa

from sparkport.catalog.call import Call
from sparkport.catalog.dml import DMLResult, Statement, run, with_ids
from sparkport.catalog.rowid import ROWID


class WholeStatements:
    """Mix into a `StatementTable` to make it insertable, updatable and deletable."""

    @property
    @abstractmethod
    def arrow_schema(self) -> pa.Schema:
        """The table's columns."""
        raise NotImplementedError

    @abstractmethod
    def begin_insert(self, call: Call, *, returning: bool) -> Statement:
        """Start an INSERT."""
        raise NotImplementedError

    @abstractmethod
    def begin_update(self, call: Call, columns: tuple[str, ...], *, returning: bool) -> Statement:
        """Start an UPDATE."""
        raise NotImplementedError

    @abstractmethod
    def begin_delete(self, call: Call, *, returning: bool) -> Statement:
        """Start a DELETE."""
        raise NotImplementedError

    def insert(self, call: Call, rows: pa.RecordBatchReader, *, returning: bool = False) -> DMLResult:
        """Add rows, all or none."""
        statement = self.begin_insert(call, returning=returning)
        return run(call, statement, rows, self.arrow_schema, returning=returning)

    def update(
        self, call: Call, row_ids: pa.Int64Array, rows: pa.RecordBatchReader, *, returning: bool = False
    ) -> DMLResult:
        """Set the columns of `rows` in the rows named by position."""
        statement = self.begin_update(call, tuple(rows.schema.names), returning=returning)
        return run(call, statement, with_ids(rows, row_ids), self.arrow_schema, returning=returning)

    def delete(self, call: Call, row_ids: pa.Int64Array, *, returning: bool = False) -> DMLResult:
        """Remove rows, all or none."""
        ids = pa.table({ROWID: row_ids}).to_reader()
        return run(
            call, self.begin_delete(call, returning=returning), ids, self.arrow_schema, returning=returning
        )
