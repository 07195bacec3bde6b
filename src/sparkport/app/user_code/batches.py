"""What a user's function returns or yields, as batches of the columns it announced."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from sparkport.arrow.conform import conform_column
from sparkport.errors import SchemaMismatchError

_MAX_ROWS = 1024


def batches_of(
    result: Any,  # noqa: ANN401
    arrow_schema: pa.Schema,
    needed: Collection[str] | None,
) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a result: Arrow data, or an iterable of the parts below.

    A part is Arrow data, a mapping of names to whole columns, or a tuple, which is one
    row. Columns that are not in `needed` may be missing. Raises TypeError for others.
    """
    if isinstance(result, pa.RecordBatch | pa.Table | Mapping):
        result = [result]
    rows: list[tuple[Any, ...]] = []
    for part in result:
        if isinstance(part, tuple):
            rows.append(part)
            if len(rows) == _MAX_ROWS:
                yield _of_rows(rows, arrow_schema)
                rows = []
            continue
        if rows:
            yield _of_rows(rows, arrow_schema)
            rows = []
        for batch in _of_part(part):
            yield shaped(batch, arrow_schema, needed)
    if rows:
        yield _of_rows(rows, arrow_schema)


def shaped(batch: pa.RecordBatch, arrow_schema: pa.Schema, needed: Collection[str] | None) -> pa.RecordBatch:
    """Return the batch with exactly the announced columns. Raises TypeError."""
    if batch.schema.equals(arrow_schema):
        return batch
    extra = next((name for name in batch.schema.names if arrow_schema.get_field_index(name) < 0), None)
    if extra is not None:
        raise TypeError(f"the column '{extra}' was not declared")
    columns = [_column(batch, field, needed) for field in arrow_schema]
    nullable = [field.with_nullable(nullable=True) for field in arrow_schema]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(nullable))


def _column(batch: pa.RecordBatch, field: pa.Field, needed: Collection[str] | None) -> pa.Array:
    index = batch.schema.get_field_index(field.name)
    if index >= 0:
        try:
            return conform_column(batch.column(index), field)
        except SchemaMismatchError as error:
            raise TypeError(
                f"the column '{field.name}' is of type {batch.column(index).type} instead of {field.type}"
            ) from error
    if needed is None or field.name in needed:
        raise TypeError(f"the column '{field.name}' is missing")
    return pa.nulls(batch.num_rows, field.type)


def _of_part(part: object) -> Iterable[pa.RecordBatch]:
    if isinstance(part, pa.RecordBatch):
        return [part]
    if isinstance(part, pa.Table):
        return list(part.to_batches())
    if isinstance(part, Mapping):
        return [pa.record_batch(dict(part))]
    raise TypeError(f"a {type(part).__name__} is neither Arrow data nor a mapping of columns nor a tuple")


def _of_rows(rows: list[tuple[Any, ...]], arrow_schema: pa.Schema) -> pa.RecordBatch:
    wrong = next((row for row in rows if len(row) != len(arrow_schema)), None)
    if wrong is not None:
        raise TypeError(f"a row has {len(wrong)} values for {len(arrow_schema)} columns")
    columns = [
        pa.array(values, field.type)
        for values, field in zip(zip(*rows, strict=True), arrow_schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=arrow_schema)
