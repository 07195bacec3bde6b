"""How rows lie in the data files of a table: the columns with their names and numbers, and partitions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from sparkport.spark.delta.log.actions import Metadata
from sparkport.spark.delta.log.spark_fields import SparkField, SparkType, struct_fields
from sparkport.spark.delta.mapping import column_id, mapping_mode, physical_name

_NUMBER = "PARQUET:field_id"


@dataclass(frozen=True, slots=True)
class ColumnLayout:
    """A column, or what is nested in one: how rows name it, and the name and number it has in files.

    `inner` are the fields of a struct, or without names the element of an array, the key and value of a map.
    Without it, what is nested stays as it is.
    """

    name: str
    name_in_files: str
    number: int | None = None
    inner: tuple[ColumnLayout, ...] = ()

    def in_files(self, kind: pa.DataType) -> pa.Field:
        """Return the field that a file has for values of this type."""
        notes = None if self.number is None else {_NUMBER: str(self.number)}
        return pa.field(self.name_in_files, self.type_in_files(kind), metadata=notes)

    def type_in_files(self, kind: pa.DataType) -> pa.DataType:
        """Return the type that a file has for values of this type."""
        if not self.inner:
            return kind
        match kind:
            case pa.StructType():
                pairs = zip(self.inner, kind, strict=True)
                return pa.struct([inner.in_files(field.type) for inner, field in pairs])
            case pa.ListType():
                return pa.list_(self.inner[0].type_in_files(kind.value_type))
            case pa.MapType():
                key, value = self.inner
                return pa.map_(key.type_in_files(kind.key_type), value.type_in_files(kind.item_type))
            case _:
                return kind


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of files in their order, and those by which rows are parted and that are in no file."""

    columns: tuple[ColumnLayout, ...]
    partitions: tuple[ColumnLayout, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """How rows name the columns of the files."""
        return tuple(column.name for column in self.columns)

    @property
    def names_in_files(self) -> tuple[str, ...]:
        """How the files name them."""
        return tuple(column.name_in_files for column in self.columns)

    @property
    def is_flat(self) -> bool:
        """Whether rows are not parted, and nothing is nested."""
        return not self.partitions and not any(column.inner for column in self.columns)

    def arrange(self, rows: pa.Table) -> pa.Table:
        """Return rows as they lie in a file."""
        found = [rows.column(column.name) for column in self.columns]
        fields = [column.in_files(values.type) for column, values in zip(self.columns, found, strict=True)]
        pairs = zip(found, fields, strict=True)
        return pa.Table.from_arrays(
            [_renamed(values, field.type) for values, field in pairs], schema=pa.schema(fields)
        )


def layout_of(metadata: Metadata) -> Layout:
    """Return how rows lie in the data files of a table."""
    mode = mapping_mode(metadata)
    columns = {field.name: _column(field, mode) for field in metadata.fields}
    partitions = tuple(columns.pop(name) for name in metadata.partition_columns)
    return Layout(tuple(columns.values()), partitions)


def _column(field: SparkField, mode: str) -> ColumnLayout:
    number = None if mode == "none" else column_id(field)
    return ColumnLayout(field.name, physical_name(field, mode), number, tuple(_inner(field.type, mode)))


def _inner(spark_type: SparkType, mode: str) -> Iterator[ColumnLayout]:
    match spark_type:
        case {"type": "array", "elementType": element}:
            yield ColumnLayout("", "", None, tuple(_inner(element, mode)))
        case {"type": "map", "keyType": key, "valueType": value}:
            yield ColumnLayout("", "", None, tuple(_inner(key, mode)))
            yield ColumnLayout("", "", None, tuple(_inner(value, mode)))
        case _:
            yield from (_column(field, mode) for field in struct_fields(spark_type))


def _renamed(values: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Return nested values with the names of another type of the same shape."""
    if not kind.num_fields:
        return values
    return pa.chunked_array([chunk.view(kind) for chunk in values.chunks], kind)
