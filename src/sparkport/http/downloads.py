"""The rows of a query as a file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import IO

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from sparkport.arrow.conform import batch_of
from sparkport.catalog.call import Call
from sparkport.catalog.sql import SqlStatement
from sparkport.errors import InvalidRequestError
from sparkport.flight.context import ServerContext
from sparkport.flight.statements import execution
from sparkport.http.json_rows import text_column

__all__ = ["FORMATS", "file_of", "parts_of"]

_CHUNK_BYTES = 1 << 20
FORMATS = {
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
    "arrow": "application/vnd.apache.arrow.stream",
}


def file_of(context: ServerContext, call: Call, statement: SqlStatement, form: str) -> IO[bytes]:
    """Return an unnamed file with all rows of a query, from its beginning. Raises InvalidRequestError."""
    if execution.describe(context, call, statement).arrow_schema is None:
        raise InvalidRequestError("only the rows of a query can be downloaded")
    file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  (whoever sends it closes it)
    try:
        with execution.query(context, call, statement) as reader:
            _write(file, reader.schema, call.counted(reader), form)
    except BaseException:
        file.close()
        raise
    file.seek(0)
    return file


def parts_of(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the contents of a file, and close it."""
    with file:
        while part := file.read(_CHUNK_BYTES):
            yield part


def _write(file: IO[bytes], arrow_schema: pa.Schema, batches: Iterator[pa.RecordBatch], form: str) -> None:
    match form:
        case "csv":
            texts = pa.schema([(field.name, pa.string()) for field in arrow_schema])
            with pa.csv.CSVWriter(file, texts) as writer:
                for batch in batches:
                    columns = [text_column(column) for column in batch.columns]
                    writer.write_batch(batch_of(columns, texts, batch.num_rows))
        case "parquet":
            with pa.parquet.ParquetWriter(file, arrow_schema) as parquet:
                for batch in batches:
                    parquet.write_batch(batch)
        case _:
            with pa.ipc.new_stream(file, arrow_schema) as stream:
                for batch in batches:
                    stream.write_batch(batch)
