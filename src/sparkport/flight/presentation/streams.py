"""Batches on their way to the client: in the shape it expects, and of a good size."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import nullcontext

import pyarrow as pa

from sparkport.arrow.conform import batch_of, conform_column
from sparkport.arrow.sizes import byte_size
from sparkport.catalog.user_code import UserCodeBoundary
from sparkport.errors import SchemaMismatchError
from sparkport.protocol.ipc.flight_data import Encoder
from sparkport.protocol.ipc.shared_buffers import values_of, zeros

_SMALL_BYTES = 1 << 18
_LARGE_BYTES = 4 << 20
_LARGE_ROWS = 1 << 17
_PATIENCE_SECONDS = 0.5
_WIDEST = 16  # bytes of a value of fixed width


class Shaper:
    """Brings batches to one schema: by name, missing columns as nulls unless they are `required`.

    The Airport client reads by position and never looks at the stream's schema,
    so every advertised column has to be there with exactly its type. A batch that cannot
    be brought there is a failure of the code behind the `boundary`.
    """

    def __init__(
        self,
        arrow_schema: pa.Schema,
        *,
        required: Collection[str] = (),
        boundary: UserCodeBoundary | None = None,
    ) -> None:
        self.arrow_schema = arrow_schema
        self._required = required
        self._boundary = boundary or nullcontext()
        self._nulls: dict[pa.DataType, pa.Array] = {}
        self._zeros = pa.py_buffer(b"")

    def shape(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch with exactly the columns of the schema."""
        if batch.schema.equals(self.arrow_schema):
            return batch
        names = batch.schema.names
        # By position where that is the same: a query may have several columns of one name.
        is_in_order = names == self.arrow_schema.names
        with self._boundary:
            found = [
                self._column(batch, field, index if is_in_order else batch.schema.get_field_index(field.name))
                for index, field in enumerate(self.arrow_schema)
            ]
        columns = self._with_nulls(found, batch.num_rows)
        return batch_of(columns, self.arrow_schema, batch.num_rows)

    def _column(self, batch: pa.RecordBatch, field: pa.Field, index: int) -> pa.Array | None:
        if index >= 0:
            try:
                return conform_column(batch.column(index), field)
            except SchemaMismatchError as error:
                kind = batch.column(index).type
                raise TypeError(
                    f"the column '{field.name}' is of type {kind} instead of {field.type}"
                ) from error
        if field.name in self._required:
            raise TypeError(f"the column '{field.name}' is missing")
        return None

    def _with_nulls(self, columns: list[pa.Array | None], count: int) -> list[pa.Array]:
        """Fill the gaps, with memory that travels anyway where that can be."""
        known = [values_of(column) for column in columns if column is not None]
        values = max((buffer for buffer in known if buffer is not None), key=len, default=None)
        return [
            self._all_null(field.type, count, values) if column is None else column
            for column, field in zip(columns, self.arrow_schema, strict=True)
        ]

    def _all_null(self, kind: pa.DataType, count: int, values: pa.Buffer | None) -> pa.Array:
        """Return nulls, of most types as views of the same zeros: such columns travel as one."""
        if len(self._zeros) < _WIDEST * (count + 1):
            self._zeros = pa.py_buffer(bytes(_WIDEST * (count + 1)))
        shared = zeros(kind, count, self._zeros, values)
        if shared is not None:
            return shared
        nulls = self._nulls.get(kind)
        if nulls is None or len(nulls) < count:
            nulls = self._nulls[kind] = pa.nulls(count, kind)
        return nulls.slice(0, count)


def resized(
    batches: Iterable[pa.RecordBatch], *, clock: Callable[[], float] = time.monotonic
) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in batches of a good size: small ones are joined, large ones cut.

    Rows that come slowly are not held back until there are many.
    """
    waiting: list[pa.RecordBatch] = []
    waiting_bytes = waiting_rows = 0
    since = 0.0
    for batch in batches:
        if not batch.num_rows:
            continue
        if not batch.num_columns:
            yield batch  # rows without columns are lost when they are joined
            continue
        size = byte_size(batch)
        if waiting and (waiting_bytes + size > _LARGE_BYTES or waiting_rows + batch.num_rows > _LARGE_ROWS):
            yield _joined(waiting)
            waiting, waiting_bytes, waiting_rows = [], 0, 0
        if size >= _SMALL_BYTES and not waiting:
            yield from _cut(batch, size)
            continue
        since = since if waiting else clock()
        waiting.append(batch)
        waiting_bytes += size
        waiting_rows += batch.num_rows
        if waiting_bytes >= _SMALL_BYTES or clock() - since > _PATIENCE_SECONDS:
            yield from _cut(_joined(waiting), waiting_bytes)
            waiting, waiting_bytes, waiting_rows = [], 0, 0
    if waiting:
        yield _joined(waiting)


def encoded(shaper: Shaper, batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    """Yield a DoGet stream: the schema first, then the batches."""
    encoder = Encoder(shaper.arrow_schema)
    yield encoder.schema()
    for batch in resized(batches):
        yield from encoder.batch(shaper.shape(batch))


def scan_shaper(
    arrow_schema: pa.Schema, columns: tuple[str, ...] | None, boundary: UserCodeBoundary
) -> Shaper:
    """Return the shaper of a scan: columns that were not asked for are nulls, the others have to be there."""
    if columns is None:
        return Shaper(arrow_schema, required=arrow_schema.names, boundary=boundary)
    for index, field in enumerate(arrow_schema):
        if field.name not in columns and not field.nullable:
            arrow_schema = arrow_schema.set(index, field.with_nullable(nullable=True))
    return Shaper(arrow_schema, required=columns, boundary=boundary)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _cut(batch: pa.RecordBatch, size: int) -> Iterator[pa.RecordBatch]:
    pieces = min(max(-(-size // _LARGE_BYTES), -(-batch.num_rows // _LARGE_ROWS)), batch.num_rows)
    rows = -(-batch.num_rows // pieces)
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)
