"""INSERT: rows are staged as they come and appended by one Spark write, which is one Delta commit."""

from __future__ import annotations

import functools
import shutil
import uuid
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from sparkport.catalog.call import Call
from sparkport.catalog.conform import batch_of, conform_batch
from sparkport.catalog.dml import Statement
from sparkport.catalog.rowid import without_rowid
from sparkport.errors import ConstraintViolationError, InvalidRequestError
from sparkport.spark.columns import table_columns
from sparkport.spark.delta.actions import Metadata
from sparkport.spark.engine import Engine
from sparkport.spark.types import encode


class InsertStatement(Statement):
    """Appends rows under fresh ids.

    Memory is bounded by a batch: what comes is written to a file in the warehouse's staging
    folder. Nothing is visible before `commit`, and a staged file never is.
    """

    def __init__(
        self, call: Call, engine: Engine, table: str, root: str, metadata: Metadata, *, returning: bool
    ) -> None:
        self._call = call
        self._jobs = engine.jobs
        self._table = table
        self._root = root
        self._columns = table_columns(metadata)
        self._shown = pa.schema([column.exact for column in self._columns])
        self._given = without_rowid(self._shown)
        fields = {field["name"]: field for field in metadata.schema["fields"]}
        self._spark_fields = [_bare(fields[column.logical]) for column in self._columns]
        self._row_ids = engine.row_ids(root)
        self._folder = engine.staging / uuid.uuid4().hex
        self._returning = returning
        self._writer: pq.ParquetWriter | None = None
        self._count = 0
        self._over = False

    def write(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """Stage a batch and answer with its rows if that was asked for."""
        self._check_open()
        rows = conform_batch(batch, self._given)
        for column, field in zip(rows.columns, self._given, strict=True):
            if not field.nullable and column.null_count:
                raise ConstraintViolationError("NOT NULL", self._table, column=field.name)
        arrays = list(rows.columns)
        if len(self._shown) > len(self._given):
            arrays.append(pa.array(self._row_ids.take(rows.num_rows)))
        shown = batch_of(arrays, self._shown, rows.num_rows)
        self._stage(shown)
        self._count += rows.num_rows
        return shown if self._returning else None

    def commit(self) -> int:
        """Append everything staged in one commit."""
        self._check_open()
        self._over = True
        try:
            if self._writer is not None:
                self._writer.close()
                append = functools.partial(_append, self._root, str(self._folder), self._spark_fields)
                self._jobs.run(self._call, self._table, append)
        finally:
            self._forget()
        return self._count

    def abort(self) -> None:
        """Forget the staged rows."""
        self._over = True
        if self._writer is not None:
            self._writer.close()
        self._forget()

    def _stage(self, shown: pa.RecordBatch) -> None:
        stored = [
            encode(array, column.exact) for array, column in zip(shown.columns, self._columns, strict=True)
        ]
        batch = pa.RecordBatch.from_arrays(stored, [column.logical for column in self._columns])
        if self._writer is None:
            self._folder.mkdir(parents=True)
            self._writer = pq.ParquetWriter(
                self._folder / "rows.parquet", batch.schema, compression="none", store_schema=False
            )
        self._writer.write_batch(batch)

    def _forget(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def _check_open(self) -> None:
        if self._over:
            raise InvalidRequestError("the statement is over")
        self._call.check()


def _append(root: str, folder: str, fields: list[dict[str, Any]], session: SparkSession) -> None:
    schema = StructType.fromJson({"type": "struct", "fields": fields})
    session.read.schema(schema).parquet(folder).write.format("delta").mode("append").save(root)


def _bare(field: dict[str, Any]) -> dict[str, Any]:
    """Return a field without metadata, by which Spark would look for physical names in the staged file."""
    return {"name": field["name"], "type": field["type"], "nullable": True, "metadata": {}}
