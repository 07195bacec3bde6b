"""The actions of a Delta log as values."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sparkport.spark.delta.log import members
from sparkport.spark.delta.log.spark_fields import SparkField, decode_struct
from sparkport.spark.storage.filesystem import resolve

# Writers put the count first; parsing all statistics of a file for one number is a hundred times slower.
_COUNT_FIRST = re.compile(r'\s*\{\s*"numRecords"\s*:\s*(\d+)\s*[,}]')


@dataclass(frozen=True, slots=True)
class Protocol:
    """What a reader and a writer must understand."""

    min_reader: int
    min_writer: int
    reader_features: frozenset[str] = frozenset()
    writer_features: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Metadata:
    """What the table is: columns, partitioning, properties."""

    table_id: str
    name: str | None
    description: str | None
    fields: tuple[SparkField, ...]
    partition_columns: tuple[str, ...] = ()
    configuration: Mapping[str, str] = field(default_factory=dict)
    created_ms: int | None = None


@dataclass(frozen=True, slots=True)
class DeletionVector:
    """Where to find the positions of the deleted rows of a file."""

    storage_type: str
    path_or_inline: str
    offset: int | None
    size: int
    cardinality: int

    @property
    def unique_id(self) -> str:
        """What tells the states of one data file apart."""
        at = "" if self.offset is None else f"@{self.offset}"
        return f"{self.storage_type}{self.path_or_inline}{at}"

    @property
    def logged(self) -> dict[str, Any]:
        """What an action of the log says of it."""
        fields = {
            "storageType": self.storage_type,
            "pathOrInlineDv": self.path_or_inline,
            "offset": self.offset,
            "sizeInBytes": self.size,
            "cardinality": self.cardinality,
        }
        return {key: value for key, value in fields.items() if value is not None}


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file of the table, less the rows of its deletion vector.

    `path` is absolute and decoded, `logged_path` as the log has it. Partition values and statistics go
    by physical names.
    `statistics` is JSON text; `physical_rows` counts the deleted rows too.
    """

    path: str
    partition_values: Mapping[str, str | None]
    size: int
    modification_ms: int
    statistics: str | None = None
    deletion_vector: DeletionVector | None = None
    physical_rows: int | None = None
    base_row_id: int | None = None
    logged_path: str = ""

    @property
    def deleted_rows(self) -> int:
        """How many rows the deletion vector takes away."""
        return self.deletion_vector.cardinality if self.deletion_vector else 0

    @property
    def row_count(self) -> int | None:
        """How many rows a reader gets, or None if the writer did not count."""
        return None if self.physical_rows is None else self.physical_rows - self.deleted_rows

    @property
    def vector_id(self) -> str | None:
        """The unique id of the deletion vector, or None without one."""
        return self.deletion_vector.unique_id if self.deletion_vector else None


def decode_protocol(raw: Mapping[str, Any]) -> Protocol:
    """Return the protocol that an action or a row of a checkpoint says."""
    return Protocol(
        min_reader=members.integer(raw, "minReaderVersion"),
        min_writer=members.integer(raw, "minWriterVersion"),
        reader_features=frozenset(members.texts(raw, "readerFeatures")),
        writer_features=frozenset(members.texts(raw, "writerFeatures")),
    )


def decode_metadata(raw: Mapping[str, Any]) -> Metadata:
    """Return the metadata that an action or a row of a checkpoint says."""
    return Metadata(
        table_id=members.text(raw, "id"),
        name=members.optional_text(raw, "name"),
        description=members.optional_text(raw, "description"),
        fields=decode_struct(json.loads(members.text(raw, "schemaString"))),
        partition_columns=tuple(members.texts(raw, "partitionColumns")),
        configuration=members.text_values(raw, "configuration"),
        created_ms=members.optional_integer(raw, "createdTime"),
    )


def decode_file(raw: Mapping[str, Any], root: str) -> DataFile:
    """Return the file that an `add` says."""
    logged_path = members.text(raw, "path")
    statistics = members.optional_text(raw, "stats") or None
    return DataFile(
        path=resolve(root, logged_path),
        partition_values=members.optional_text_values(raw, "partitionValues"),
        size=members.integer(raw, "size"),
        modification_ms=members.integer(raw, "modificationTime"),
        statistics=statistics,
        deletion_vector=decode_deletion_vector(raw),
        physical_rows=_physical_rows(statistics),
        base_row_id=members.optional_integer(raw, "baseRowId"),
        logged_path=logged_path,
    )


def decode_deletion_vector(file: Mapping[str, Any]) -> DeletionVector | None:
    """Return the deletion vector of an `add`, `remove` or `cdc`, which may have none."""
    raw = members.optional_object(file, "deletionVector")
    if raw is None or raw.get("storageType") is None:
        return None
    return DeletionVector(
        storage_type=members.text(raw, "storageType"),
        path_or_inline=members.text(raw, "pathOrInlineDv"),
        offset=members.optional_integer(raw, "offset"),
        size=members.integer(raw, "sizeInBytes"),
        cardinality=members.integer(raw, "cardinality"),
    )


def _physical_rows(statistics: str | None) -> int | None:
    if statistics is None:
        return None
    first = _COUNT_FIRST.match(statistics)
    if first:
        return int(first[1])
    parsed = json.loads(statistics)
    if not isinstance(parsed, dict):
        raise ValueError("stats is not a JSON object")  # noqa: TRY004  (what the log says, not our types)
    return members.optional_integer(parsed, "numRecords")
