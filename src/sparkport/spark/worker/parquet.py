"""Decode Parquet with Arrow, inside Spark's tasks or in the server.

Executors need pyarrow but not sparkport: away from the server's own machine this module,
`footers` and `julian_dates` are shipped by value, so they import nothing else of the package.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from sparkport.spark.worker.footers import Footer, read_footer
from sparkport.spark.worker.julian_dates import legacy_columns, rebase

_FIELD_ID = b"PARQUET:field_id"
_NOT_STORED = "\0"  # begins the names of columns that are in no file
POSITION = f"{_NOT_STORED}position"
"""The name of the column, if it is wanted, that has the position of each row in its file."""
_INDEX = f"{_NOT_STORED}index"


@dataclass(frozen=True, slots=True)
class ColumnRead:
    """A column to read: what it is called in the file, and as what it is wanted.

    Both fields have the same shape; `physical` has the names of the file, nested ones
    too, and the ids of the file where columns are found by id.
    """

    physical: pa.Field
    wanted: pa.Field


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """What all units of one scan have in common.

    The filter speaks of the columns by their physical names; rows for which it is not true are left out.
    `id_name` is the physical name of the row id, for which rows that have none get their number. With
    `threads` a task decodes columns side by side: it is alone.
    """

    columns: tuple[ColumnRead, ...]
    by_id: bool = False
    filter: Any = None
    filter_columns: tuple[ColumnRead, ...] = ()
    batch_rows: int = 65_536
    id_name: str = ""
    threads: bool = False


@dataclass(frozen=True, slots=True)
class FileSlice:
    """A part of a file: the row groups whose middle lies between two offsets.

    `location` is one of Arrow's: a local path, or a store's scheme, authority and key as they are.

    `constants` has the columns that are not in the file, by physical name; `kept` has a bit per row
    of the file that is set unless the row was deleted. The rows of the file are numbered downwards
    from `first_number`; without it every row has an id.
    """

    location: str
    start: int
    stop: int
    constants: tuple[tuple[str, pa.Scalar], ...] = ()
    kept: bytes | None = None
    first_number: int | None = None


_INDEX_READ = ColumnRead(pa.field(_INDEX, pa.int64()), pa.field(_INDEX, pa.int64()))


def read(plan: ReadPlan, piece: FileSlice, *, mapped: bool = True) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a piece under the names and types wanted, in the order of the file.

    A batch may have no rows: where nothing passes the filter, the caller still gets to act now and then.
    A local file is mapped into memory if `mapped`. The server does not do that: a mapped file that somebody
    truncates kills the process that reads it.
    """
    filesystem, path = _open_filesystem(piece.location, mapped=mapped)
    with filesystem.open_input_file(path) as source:
        footer = read_footer(source)
        metadata = footer.metadata
        legacy = legacy_columns(metadata)
        groups = _row_groups(metadata, piece)
        if plan.filter is not None and not legacy:  # the statistics are in the other calendar too
            groups &= _possible(footer, plan, piece)
        if not groups:
            yield _no_rows(plan)
            return
        parquet = pq.ParquetFile(
            source,
            metadata=metadata,
            pre_buffer=True,  # not a buffer for each column: where a file ends early, that sees fewer rows
            coerce_int96_timestamp_unit="us",
            read_dictionary=_repetitive(footer, groups),
        )
        read_group = _group_by_filter if _has_more_than_filter(plan) else _group
        for group in sorted(groups):
            yield from read_group(parquet, footer.arrow_schema, group, plan, piece, legacy)


def matching_share(plan: ReadPlan, location: str) -> float:
    """Return the share of the rows of a file that are in row groups where the filter may be true."""
    filesystem, path = _open_filesystem(location, mapped=False)
    with filesystem.open_input_file(path) as source:
        footer = read_footer(source)
    metadata = footer.metadata
    if not metadata.num_rows or legacy_columns(metadata):
        return 1.0
    possible = _possible(footer, plan, FileSlice(location, 0, metadata.serialized_size))
    return float(sum(metadata.row_group(group).num_rows for group in possible) / metadata.num_rows)


def write_spool(plan: ReadPlan, pieces: list[FileSlice], path: str, rows: Iterator[int]) -> Iterator[int]:
    """Write the rows of all pieces to a new file as an Arrow stream; return how many there are.

    Stops early when the file's folder is gone: nobody waits for the rows any more.
    """
    list(rows)  # a worker is used again only if it has read all its input
    arrow_schema = pa.schema([column.wanted for column in plan.columns])
    folder = os.path.dirname(path)  # noqa: PTH120  (a worker that needs no pathlib starts sooner)
    count = 0
    with pa.OSFile(path, "wb") as sink, pa.ipc.new_stream(sink, arrow_schema) as writer:
        for piece in pieces:
            for batch in _with_rows(read(plan, piece)):
                if not os.path.exists(folder):  # noqa: PTH110  (as above)
                    return
                writer.write_batch(batch)
                count += batch.num_rows
    yield count


def blobs(
    plan: ReadPlan, pieces: list[FileSlice], rows: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Return the rows of all pieces, each batch as one binary value: an Arrow message without schema."""
    for _ in rows:
        for piece in pieces:
            for batch in _with_rows(read(plan, piece)):
                yield pa.record_batch([pa.array([batch.serialize().to_pybytes()], pa.binary())], ["blob"])


def _no_rows(plan: ReadPlan) -> pa.RecordBatch:
    fields = [column.wanted for column in plan.columns]
    return pa.record_batch([pa.nulls(0, field.type) for field in fields], schema=pa.schema(fields))


def _with_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return (batch for batch in batches if batch.num_rows)


def _open_filesystem(location: str, *, mapped: bool) -> tuple[pafs.FileSystem, str]:
    scheme, is_remote, rest = location.partition("://")
    if not is_remote:
        return pafs.LocalFileSystem(use_mmap=mapped), location
    authority, _, key = rest.partition("/")
    # The key is no part of the URI: it is not percent-encoded.
    filesystem, base = pafs.FileSystem.from_uri(f"{scheme}://{authority}/")
    return filesystem, f"{base.rstrip('/')}/{key}"


def _has_more_than_filter(plan: ReadPlan) -> bool:
    """Return whether columns are read that the filter does not test."""
    tested = {column.physical.name for column in plan.filter_columns}
    read = {column.physical.name for column in plan.columns}
    return bool(tested) and not tested.issuperset(name for name in read if not name.startswith(_NOT_STORED))


def _group(
    parquet: pq.ParquetFile,
    in_file: pa.Schema,
    group: int,
    plan: ReadPlan,
    piece: FileSlice,
    legacy: frozenset[str],
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a row group in batches."""
    present = _present(in_file, plan)
    names = sorted(set(present.values()))
    offset = _first_row(parquet.metadata, group)
    for batch in _raw_batches(parquet, group, names, plan):
        raw = _written_out(batch, in_file)
        rows = rebase(raw, legacy, parquet.metadata) if legacy else raw
        rows = _keep_rows(_with_positions(rows, offset), piece.kept, offset)
        offset += raw.num_rows
        yield _shape(plan, rows, present, piece)


def _group_by_filter(
    parquet: pq.ParquetFile,
    in_file: pa.Schema,
    group: int,
    plan: ReadPlan,
    piece: FileSlice,
    legacy: frozenset[str],
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a row group that pass the filter, in batches.

    The columns that it tests are decoded first, the others only as far as there is a row that passes.
    """
    metadata = parquet.metadata
    testing = replace(plan, columns=(_INDEX_READ,))
    present = _present(in_file, plan)
    tested = sorted(set(_present(in_file, testing).values()))
    others = _Rows(_raw_batches(parquet, group, sorted(set(present.values()) - set(tested)), plan))
    first = offset = _first_row(metadata, group)
    for raw in _raw_batches(parquet, group, tested, plan):
        rows = _written_out(raw, in_file)
        rows = _with_positions(rebase(rows, legacy, metadata) if legacy else rows, offset)
        numbered = rows.append_column(_INDEX, pa.arange(0, rows.num_rows))
        passing = _shape(testing, _keep_rows(numbered, piece.kept, offset), present, piece).column(0)
        if len(passing):
            rest = others.part(offset - first, rows.num_rows)
            if len(passing) < rows.num_rows:
                rows, rest = rows.take(passing), rest.take(passing)
            rest = _written_out(rest, in_file)
            rest = rebase(rest, legacy, metadata) if legacy else rest
            joined = pa.record_batch([*rows.columns, *rest.columns], [*rows.schema.names, *rest.schema.names])
            yield _shape(replace(plan, filter=None, filter_columns=()), joined, present, piece)
        else:
            yield _no_rows(plan)
        offset += raw.num_rows


class _Rows:
    """The rows of some batches, taken from the first to the last. Batches that nobody needs are not read."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._batch: pa.RecordBatch | None = None
        self._start = 0

    def part(self, start: int, count: int) -> pa.RecordBatch:
        """Return so many rows from a position on, which must not lie before that of an earlier call."""
        parts = []
        while count:
            end = self._start + (self._batch.num_rows if self._batch else 0)
            if self._batch is None or start >= end:
                self._start, self._batch = end, next(self._batches, None)
                if self._batch is None:
                    raise pa.ArrowInvalid("a row group has fewer rows in some columns than in others")
                continue
            parts.append(self._batch.slice(start - self._start, count))
            start, count = start + parts[-1].num_rows, count - parts[-1].num_rows
        return parts[0] if len(parts) == 1 else pa.concat_batches(parts)


def _first_row(metadata: pq.FileMetaData, group: int) -> int:
    """Return the position in the file of the first row of a row group."""
    return sum(metadata.row_group(index).num_rows for index in range(group))


def _with_positions(rows: pa.RecordBatch, offset: int) -> pa.RecordBatch:
    return rows.append_column(POSITION, pa.arange(offset, offset + rows.num_rows))


def _row_groups(metadata: pq.FileMetaData, piece: FileSlice) -> set[int]:
    found = set()
    for index in range(metadata.num_row_groups):
        group = metadata.row_group(index)
        first = group.column(0) if group.num_columns else None
        begin = 0
        if first is not None:
            begin = first.dictionary_page_offset or first.data_page_offset
        size = sum(group.column(i).total_compressed_size for i in range(group.num_columns))
        if piece.start <= begin + size // 2 < piece.stop:
            found.add(index)
    return found


def _possible(footer: Footer, plan: ReadPlan, piece: FileSlice) -> set[int]:
    """Return the row groups whose statistics let the filter be true.

    Without an opinion where the file's columns are not those that the filter was made for.
    """
    everything = set(range(footer.metadata.num_row_groups))
    file_schema = footer.arrow_schema
    constants = {name for name, _ in piece.constants}
    for column in plan.filter_columns:
        index = file_schema.get_field_index(column.physical.name)
        if plan.by_id or column.physical.name in constants or index < 0:
            return everything
        if column.physical.name == plan.id_name and piece.first_number is not None:
            return everything  # the file knows nothing of the numbers
        # Fields of structs may have other names in the file than those that the filter knows.
        if not file_schema.field(index).type == column.physical.type == column.wanted.type:
            return everything
    return {group.id for group in footer.fragment().subset(plan.filter, schema=file_schema).row_groups}


def _present(file_schema: pa.Schema, plan: ReadPlan) -> dict[str, str]:
    """Return the file's name of each wanted column that it has, by physical name."""
    found = {}
    for column in (*plan.columns, *plan.filter_columns):
        index = _child_index(list(file_schema), column.physical, by_id=plan.by_id)
        if index is not None:
            found[column.physical.name] = file_schema.field(index).name
    return found


def _child_index(fields: list[pa.Field], wanted: pa.Field, *, by_id: bool) -> int | None:
    for index, field in enumerate(fields):
        if by_id:
            number = (wanted.metadata or {}).get(_FIELD_ID)
            if number is not None and (field.metadata or {}).get(_FIELD_ID) == number:
                return index
        elif field.name == wanted.name:
            return index
    return None


def _raw_batches(
    parquet: pq.ParquetFile, group: int, names: list[str], plan: ReadPlan
) -> Iterator[pa.RecordBatch]:
    if names:
        yield from parquet.iter_batches(
            plan.batch_rows, row_groups=[group], columns=names, use_threads=plan.threads
        )
        return
    left = parquet.metadata.row_group(group).num_rows
    while left > 0:
        rows = min(left, plan.batch_rows)
        yield pa.record_batch([pa.nulls(rows)], ["none"])
        left -= rows


def _repetitive(footer: Footer, groups: Iterable[int]) -> list[str]:
    """Return the columns of texts that are nearly all repeated: their dictionaries are decoded but once."""
    metadata, in_file = footer.metadata, footer.arrow_schema
    names = []
    for index in range(metadata.num_columns):
        leaf = metadata.schema.column(index)
        is_text = leaf.path == leaf.name and in_file.field(leaf.name).type == pa.string()
        chunks = (metadata.row_group(group).column(index) for group in groups)
        if is_text and all(
            chunk.has_dictionary_page and chunk.total_uncompressed_size < chunk.num_values for chunk in chunks
        ):
            names.append(leaf.name)
    return names


def _written_out(batch: pa.RecordBatch, in_file: pa.Schema) -> pa.RecordBatch:
    """Return a batch in which no column is a dictionary that is none in the file."""
    for index, field in enumerate(batch.schema):
        if pa.types.is_dictionary(field.type) and not pa.types.is_dictionary(in_file.field(field.name).type):
            batch = batch.set_column(index, field.name, batch.column(index).dictionary_decode())
    return batch


def _keep_rows(batch: pa.RecordBatch, kept: bytes | None, offset: int) -> pa.RecordBatch:
    if kept is None:
        return batch
    mask = pa.BooleanArray.from_buffers(
        pa.bool_(), batch.num_rows, [None, pa.py_buffer(kept)], null_count=0, offset=offset
    )
    return batch.filter(mask)


def _shape(
    plan: ReadPlan,
    rows: pa.RecordBatch,
    present: dict[str, str],
    piece: FileSlice,
) -> pa.RecordBatch:
    """Give the columns their names and types, and apply the filter."""
    constants = dict(piece.constants)
    present = {**present, POSITION: POSITION, _INDEX: _INDEX}

    def column(read: ColumnRead) -> pa.Array:
        found = stored(read)
        if read.physical.name == plan.id_name and piece.first_number is not None:
            first = pa.scalar(piece.first_number, pa.int64())
            numbers = pa.compute.subtract(first, rows.column(POSITION))
            return pa.compute.coalesce(found, numbers)
        return found

    def stored(read: ColumnRead) -> pa.Array:
        name = read.physical.name
        if name in constants:
            return pa.repeat(constants[name], rows.num_rows)
        if name not in present:
            return pa.nulls(rows.num_rows, read.wanted.type)
        return _conform(rows.column(present[name]), read.physical, read.wanted, by_id=plan.by_id)

    reads = {read.physical.name: read for read in (*plan.columns, *plan.filter_columns)}
    if not reads:
        found = pa.record_batch([pa.nulls(rows.num_rows)], [""])
    else:
        found = pa.record_batch([column(read) for read in reads.values()], list(reads))
        if plan.filter is not None:
            found = found.filter(plan.filter)
    found = found.select([read.physical.name for read in plan.columns])
    if plan.columns:  # a batch made of no columns would have no rows
        found = pa.record_batch(found.columns, schema=pa.schema([read.wanted for read in plan.columns]))
    return found


def _conform(array: pa.Array, physical: pa.Field, wanted: pa.Field, *, by_id: bool) -> pa.Array:
    """Return the values under the names and types wanted; what the file does not have is null."""
    # Names alone prove nothing: a field that was dropped or renamed may have left its name to another.
    if array.type == wanted.type and (physical.type == wanted.type or not wanted.type.num_fields):
        return array
    if pa.types.is_struct(wanted.type) and pa.types.is_struct(array.type):
        fields = [array.type.field(i) for i in range(array.type.num_fields)]
        parts = []
        for inner, target in zip(physical.type, wanted.type, strict=True):
            index = _child_index(fields, inner, by_id=by_id)
            if index is None:
                parts.append(pa.nulls(len(array), target.type))
            else:
                parts.append(_conform(array.field(index), inner, target, by_id=by_id))
        return pa.StructArray.from_arrays(parts, fields=list(wanted.type), mask=_nulls(array))
    if pa.types.is_list(wanted.type) and (pa.types.is_list(array.type) or pa.types.is_large_list(array.type)):
        if pa.types.is_large_list(array.type):
            array = array.cast(pa.list_(array.type.value_field))
        offsets, values = _items(array, array.values)
        items = _conform(values, physical.type.value_field, wanted.type.value_field, by_id=by_id)
        return pa.ListArray.from_arrays(offsets, items, type=wanted.type, mask=_nulls(array))
    if pa.types.is_map(wanted.type) and pa.types.is_map(array.type):
        keys = _conform(array.keys, physical.type.key_field, wanted.type.key_field, by_id=by_id)
        items = _conform(array.items, physical.type.item_field, wanted.type.item_field, by_id=by_id)
        offsets, _ = _items(array, array.keys)
        base = array.offsets[0].as_py() if len(array) else 0
        size = (array.offsets[len(array)].as_py() if len(array) else 0) - base
        return pa.MapArray.from_arrays(
            offsets, keys.slice(base, size), items.slice(base, size), type=wanted.type, mask=_nulls(array)
        )
    # Nanoseconds of other writers are cut, as Spark does.
    return array.cast(wanted.type, safe=not pa.types.is_timestamp(wanted.type))


def _nulls(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None


def _items(array: pa.Array, values: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return offsets that begin at zero and the values they count in: a mask allows no sliced parents."""
    if not len(array):
        return pa.array([0], pa.int32()), values.slice(0, 0)
    base = array.offsets[0].as_py()
    offsets = pa.compute.subtract(array.offsets, pa.scalar(base, pa.int32()))
    return offsets, values.slice(base, array.offsets[len(array)].as_py() - base)
