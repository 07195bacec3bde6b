"""The columns of a Delta table: as clients see them, as they are stored, and as they are in files."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from sparkport.catalog.rowid import with_rowid
from sparkport.errors import InvalidRequestError
from sparkport.spark.delta.log.actions import Metadata
from sparkport.spark.delta.log.spark_fields import SparkField, SparkType, struct_fields
from sparkport.spark.delta.mapping import field_id, mapping_mode, physical_name
from sparkport.spark.delta.readable import has_padding
from sparkport.spark.delta.statistics import StoredColumn
from sparkport.spark.predicates import ColumnTarget
from sparkport.spark.types import arrow_field, encode_scalar, pushable, storage_type
from sparkport.spark.types.errors import UnsupportedTypeError
from sparkport.spark.types.storage import is_year_month
from sparkport.spark.worker.parquet import ColumnRead

ROWID_KEY = "sparkport.rowid"
"""The key in a Spark column's metadata that marks the column of the row ids."""
_ROWID_COLUMN = "_sparkport_rowid"
_FIELD_ID = b"PARQUET:field_id"


@dataclass(frozen=True, slots=True)
class TableColumn:
    """One column: `exact` as clients see it, `stored` with the same name, `physical` as in files.

    `logical` is its name in Spark, which differs for the row id only. Values of a type that Arrow does
    not have are sent to clients as text; those of a padded column are not in files as clients see them.
    The row id of a table that has no column for it is absent.
    """

    exact: pa.Field
    stored: pa.Field
    physical: pa.Field
    logical: str
    is_partition: bool = False
    is_text_of_another: bool = False
    is_padded: bool = False
    is_year_month: bool = False
    is_absent: bool = False

    @property
    def is_as_stored(self) -> bool:
        """Whether the values that clients get are those of the log's statistics and of Spark."""
        return not (self.is_text_of_another or self.is_padded)

    @property
    def read(self) -> ColumnRead:
        """How a task reads the column from files."""
        return ColumnRead(self.physical, self.stored)

    @property
    def logged(self) -> StoredColumn:
        """The column as the log's statistics name it."""
        return StoredColumn((self.physical.name,), self.stored.type)

    @property
    def logged_fields(self) -> dict[tuple[str, ...], StoredColumn]:
        """The column and its nested fields as the log's statistics name them, by the path of the target."""
        name = self.physical.name
        return dict(_iter_logged((name,), (name,), self.stored.type, self.physical.type))

    def target(self, *, by_logical_name: bool = False) -> ColumnTarget:
        """Return the target of predicates on the column, in files or by its name in Spark."""
        name = self.logical if by_logical_name else self.physical.name
        return _target((name,), self.exact, self.stored.type, has_fields=self.is_as_stored)


def _target(
    path: tuple[str, ...], exact: pa.Field, stored: pa.DataType, *, has_fields: bool = True
) -> ColumnTarget:
    allowed = pushable(exact)
    fields: tuple[ColumnTarget, ...] = ()
    # Other types may be stored as structs too, but without corresponding fields.
    if has_fields and pa.types.is_struct(exact.type) and pa.types.is_struct(stored):
        fields = tuple(
            _target((*path, inner.name), field, inner.type)
            for field, inner in zip(exact.type, stored, strict=True)
        )
    return ColumnTarget(
        physical=path,
        storage=stored,
        exact=exact,
        equality=allowed.equality,
        order=allowed.order,
        encode=functools.partial(_encode_or_none, exact),
        fields=fields,
    )


def _encode_or_none(exact: pa.Field, value: pa.Scalar) -> pa.Scalar | None:
    try:
        return encode_scalar(value, exact)
    except InvalidRequestError:
        return None  # no stored value equals this one


def _iter_logged(
    path: tuple[str, ...], names: tuple[str, ...], stored: pa.DataType, physical: pa.DataType
) -> Iterator[tuple[tuple[str, ...], StoredColumn]]:
    yield path, StoredColumn(names, stored)
    if pa.types.is_struct(stored) and pa.types.is_struct(physical):
        for field, inner in zip(stored, physical, strict=True):
            yield from _iter_logged((*path, field.name), (*names, inner.name), field.type, inner.type)


def table_columns(metadata: Metadata, *, shows_ids: bool = False) -> tuple[TableColumn, ...]:
    """Return the columns of a version of a table, with the row id last if it has one or `shows_ids`."""
    mode = mapping_mode(metadata)
    columns = [
        column_of(field, mode, is_partition=field.name in metadata.partition_columns)
        for field in metadata.fields
        if ROWID_KEY not in field.metadata
    ]
    for field in metadata.fields:
        if ROWID_KEY in field.metadata:
            shown = with_rowid(pa.schema([column.exact for column in columns]))
            exact = shown.field(len(columns))
            columns.append(
                TableColumn(exact, pa.field(exact.name, exact.type), _physical_field(field, mode), field.name)
            )
            return tuple(columns)
    if shows_ids:
        columns.append(_absent_id(pa.schema([column.exact for column in columns])))
    return tuple(columns)


def _absent_id(plain: pa.Schema) -> TableColumn:
    exact = with_rowid(plain).field(len(plain))
    stored = pa.field(exact.name, exact.type)
    name = rowid_spark_field(plain).name
    return TableColumn(exact, stored, pa.field(name, exact.type), name, is_absent=True)


def has_ids(metadata: Metadata) -> bool:
    """Return whether a table has a column for the row ids."""
    return any(ROWID_KEY in field.metadata for field in metadata.fields)


def rowid_spark_field(arrow_schema: pa.Schema) -> SparkField:
    """Return the Spark field for the row ids, with a name that no column has."""
    name = _ROWID_COLUMN
    while name in (existing.lower() for existing in arrow_schema.names):
        name = f"_{name}"
    metadata = {ROWID_KEY: True, "comment": "identifies the row; kept by sparkport"}
    return SparkField(name, "long", metadata=metadata)


def column_of(field: SparkField, mode: str = "none", *, is_partition: bool = False) -> TableColumn:
    """Return the column for a field of a Spark schema."""
    if mode == "none" and isinstance(field.type, str) and not field.metadata:
        return _plain_column(field.name, field.type, field.nullable, is_partition)
    return _column_of(field, mode, is_partition)


@functools.lru_cache(maxsize=16_384)  # many columns of a warehouse are equal
def _plain_column(name: str, spark_type: str, nullable: bool, is_partition: bool) -> TableColumn:
    return _column_of(SparkField(name, spark_type, nullable), "none", is_partition)


def _column_of(field: SparkField, mode: str, is_partition: bool) -> TableColumn:
    try:
        stored = pa.field(field.name, storage_type(field.type))
        is_plain = mode == "none" and isinstance(field.type, str)
        return TableColumn(
            exact=arrow_field(field),
            stored=stored,
            physical=stored if is_plain else _physical_field(field, mode),
            logical=field.name,
            is_partition=is_partition,
            is_padded=has_padding(field),
            is_year_month=is_year_month(field.type),
        )
    except UnsupportedTypeError:
        return text_column(field)


def text_column(field: SparkField) -> TableColumn:
    """Return the column for a field whose values are sent to clients as text."""
    text = pa.field(field.name, pa.string(), field.nullable)
    return TableColumn(text, pa.field(field.name, pa.string()), text, field.name, is_text_of_another=True)


def _physical_field(field: SparkField, mode: str) -> pa.Field:
    number = field_id(field, mode)
    details = None if number is None else {_FIELD_ID: str(number).encode()}
    return pa.field(physical_name(field, mode), _physical_type(field.type, mode), metadata=details)


def _physical_type(spark_type: SparkType, mode: str) -> pa.DataType:
    match spark_type:
        case {"type": "struct"}:
            return pa.struct([_physical_field(field, mode) for field in struct_fields(spark_type)])
        case {"type": "array", "elementType": element}:
            return pa.list_(_physical_type(element, mode))
        case {"type": "map", "keyType": key, "valueType": value}:
            return pa.map_(_physical_type(key, mode), _physical_type(value, mode))
        case leaf:
            return storage_type(leaf)
