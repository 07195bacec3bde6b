"""Create tables and schemas, and move their folders."""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from sparkport.catalog.lookup import find_column
from sparkport.catalog.tables import TableConstraints
from sparkport.errors import InvalidRequestError, UnsupportedOperationError
from sparkport.spark.delta.commit.durability import write_through
from sparkport.spark.delta.log.spark_fields import SparkField, struct_json
from sparkport.spark.delta_jvm import log_cache, table_commit
from sparkport.spark.delta_jvm.bridge import has_transactions
from sparkport.spark.model.arrow_metadata import metadata_properties
from sparkport.spark.model.columns import rowid_spark_field
from sparkport.spark.model.constraints import constraint_properties
from sparkport.spark.row_ids.statistics import with_indexed_ids
from sparkport.spark.sql_names import literal, quoted
from sparkport.spark.storage.filesystem import is_local, storage_of
from sparkport.spark.storage.temp_folders import hold
from sparkport.spark.types import spark_field
from sparkport.spark.warehouse.trash import remove_empty_name_folders

SCHEMA_DETAILS = "_sparkport.json"

_PROPERTIES = {
    "delta.columnMapping.mode": "name",
    "delta.enableDeletionVectors": "true",
    # Without it a column of this type could not be added later.
    "delta.feature.timestampNtz": "supported",
    # By default the log would keep the idempotency keys of statements forever.
    "delta.setTransactionRetentionDuration": "interval 30 days",
}


_PARTITION_TYPES = frozenset(
    {"boolean", "byte", "short", "integer", "long", "string", "date", "timestamp", "timestamp_ntz", "decimal"}
)


@dataclass(frozen=True, slots=True)
class NewTable:
    """An empty table to create; `own_properties` are those that other new tables do not have."""

    root: str
    fields: Sequence[SparkField]
    comment: str
    own_properties: Mapping[str, str]
    partition_columns: tuple[str, ...] = ()
    cluster_columns: tuple[str, ...] = ()

    @property
    def properties(self) -> dict[str, str]:
        """All properties of the table."""
        return with_indexed_ids({**_PROPERTIES, **self.own_properties}, self.fields)


def new_table(
    root: str,
    arrow_schema: pa.Schema,
    constraints: TableConstraints,
    comment: str,
    partition_columns: Sequence[str] = (),
    cluster_columns: Sequence[str] = (),
) -> NewTable:
    """Return a table with these columns and one for the row ids.

    Raises what `spark_field` does, and InvalidRequestError for columns that rows cannot be partitioned by.
    """
    fields = [*map(spark_field, arrow_schema), rowid_spark_field(arrow_schema)]
    properties = constraint_properties(constraints) | metadata_properties(arrow_schema.metadata, comment)
    partitions = [fields[find_column(arrow_schema, name)] for name in partition_columns]
    for field in partitions:
        if not isinstance(field.type, str) or field.type.partition("(")[0] not in _PARTITION_TYPES:
            raise InvalidRequestError(f"a table cannot be partitioned by column '{field.name}' of its type")
    names = tuple(field.name for field in partitions)
    if len(set(names)) < len(names) or len(names) == len(arrow_schema):
        raise InvalidRequestError("a table is partitioned by some of its columns, each once")
    clusters = tuple(fields[find_column(arrow_schema, name)].name for name in cluster_columns)
    if len(set(clusters)) < len(clusters):
        raise InvalidRequestError("a table is clustered by columns, each once")
    if clusters and names:
        raise InvalidRequestError("a table has partitions or clustering, not both")
    return NewTable(root, fields, comment, properties, names, clusters)


def create_delta(table: NewTable, session: SparkSession) -> None:
    """Create a Delta table in one commit."""
    if not has_transactions(session):
        _save(table, session, replaces=False)
        return
    if is_local(table.root):
        # If Spark failed to make it, its error would not say why.
        Path(table.root).mkdir(parents=True, exist_ok=True)
    log_cache.forget(table.root, session)
    java = session._jsparkSession  # noqa: SLF001
    builder = session._jvm.io.delta.tables.DeltaTable.create(java)  # type: ignore[union-attr]  # noqa: SLF001
    columns = java.parseDataType(json.dumps(struct_json(table.fields)))
    builder = builder.location(table.root).addColumns(columns)
    if table.comment:
        builder = builder.comment(table.comment)
    for key, value in table.properties.items():
        builder = builder.property(key, value)
    if table.partition_columns:
        builder = builder.partitionedBy(_java_strings(table.partition_columns, session))
    if table.cluster_columns:
        # Delta parses them, for they may be paths of fields.
        builder = builder.clusterBy(_java_strings([quoted(name) for name in table.cluster_columns], session))
    builder.execute()


def _java_strings(texts: Sequence[str], session: SparkSession) -> Any:  # noqa: ANN401  (a Java array)
    gateway = session.sparkContext._gateway  # noqa: SLF001
    assert gateway is not None
    array = gateway.new_array(gateway.jvm.java.lang.String, len(texts))
    for index, text in enumerate(texts):
        array[index] = text
    return array


def replace_delta(table: NewTable, session: SparkSession) -> None:
    """Replace a table by another in one commit; older versions stay."""
    if has_transactions(session):
        table_commit.replace(table.root, table.fields, table.comment, table.properties, session)
    else:
        _save(table, session, replaces=True)


def _save(table: NewTable, session: SparkSession, *, replaces: bool) -> None:
    """Create or replace a table over Spark Connect, with a second commit for its comment and properties."""
    if table.cluster_columns:
        raise UnsupportedOperationError("session", "Spark Connect", "CREATE TABLE with CLUSTER BY")
    schema = StructType.fromJson(struct_json(table.fields))
    writer = session.createDataFrame([], schema).write.format("delta").partitionBy(*table.partition_columns)
    mode = "overwrite" if replaces else "error"
    writer.mode(mode).option("overwriteSchema", replaces).options(
        **with_indexed_ids(_PROPERTIES, table.fields)
    ).save(table.root)
    properties = {**table.own_properties, **({"comment": table.comment} if table.comment else {})}
    if properties:
        settings = ", ".join(f"{literal(key)} = {literal(value)}" for key, value in properties.items())
        session.sql(f"ALTER TABLE delta.{quoted(table.root)} SET TBLPROPERTIES ({settings})").collect()


def make_schema(folder: str, details: Mapping[str, Any], hidden: str) -> None:
    """Create a schema's folder with its details, atomically. Raises FileExistsError if the folder exists."""
    if is_local(folder):
        _make_schema_folder(Path(folder), details, Path(hidden))
        return
    # An object store has no empty folders.
    location = f"{folder}/{SCHEMA_DETAILS}"
    with storage_of(location).create(location) as file:
        file.write(json.dumps(details).encode())


def _make_schema_folder(folder: Path, details: Mapping[str, Any], hidden: Path) -> None:
    hold(str(hidden.parent))
    hidden.mkdir()
    try:
        (hidden / SCHEMA_DETAILS).write_text(json.dumps(details), encoding="utf-8")
        write_through(hidden / SCHEMA_DETAILS, hidden)
        move_folder(hidden, folder)
    except OSError:
        shutil.rmtree(hidden, ignore_errors=True)
        remove_empty_name_folders(folder.parent)
        raise


def schema_details(folder: str) -> dict[str, Any]:
    """Return the details of a schema; nothing if others have created or changed the folder."""
    location = f"{folder}/{SCHEMA_DETAILS}"
    try:
        details = json.loads(storage_of(location).read(location))
    except (OSError, ValueError):
        return {}
    return details if isinstance(details, dict) else {}


def move_folder(folder: Path, target: Path) -> None:
    """Rename a folder atomically. Raises FileExistsError if the target exists."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists() and not target.samefile(folder):
        raise FileExistsError(target)
    try:
        folder.rename(target)
    except OSError as error:
        # Another server has created the target meanwhile.
        if error.errno in {errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR}:
            raise FileExistsError(target) from error
        raise
    write_through(target.parent, folder.parent)
    remove_empty_name_folders(folder.parent)
