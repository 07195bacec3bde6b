"""Make and remove the folders of tables and schemas."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from sparkport.catalog.ddl import CreateTableOptions, check_new_columns
from sparkport.errors import InvalidRequestError, UnsupportedOperationError
from sparkport.spark.columns import rowid_spark_field
from sparkport.spark.types import spark_field

_PROPERTIES = {
    "delta.columnMapping.mode": "name",
    "delta.enableDeletionVectors": "true",
    # A column of this type could not be added later otherwise.
    "delta.feature.timestampNtz": "supported",
}


def table_schema(table: str, arrow_schema: pa.Schema, options: CreateTableOptions) -> dict[str, Any]:
    """Return the Spark schema of a new table. Raises InvalidRequestError."""
    check_new_columns(arrow_schema)
    keys = (options.primary_key, options.unique_keys, options.unique_constraints)
    if any(keys) or options.check_constraints or options.table_constraints:
        raise UnsupportedOperationError("table", table, "constraints other than NOT NULL")
    fields = [spark_field(field) for field in arrow_schema]
    for index in options.not_null_constraints:
        if not 0 <= index < len(fields):
            raise InvalidRequestError(f"a NOT NULL constraint names column {index} of {len(fields)}")
        fields[index]["nullable"] = False
    return {"type": "struct", "fields": [*fields, rowid_spark_field(arrow_schema)]}


def create_delta(
    root: str, spark_schema: Mapping[str, Any], comment: str, replace: bool, session: SparkSession
) -> None:
    """Make an empty Delta table, in one commit."""
    if hasattr(session, "_jsparkSession"):
        java = session._jsparkSession  # noqa: SLF001
        tables = session._jvm.io.delta.tables.DeltaTable  # type: ignore[union-attr]  # noqa: SLF001
        builder = tables.createOrReplace(java) if replace else tables.create(java)
        builder = builder.location(root).addColumns(java.parseDataType(json.dumps(spark_schema)))
        if comment:
            builder = builder.comment(comment)
        for key, value in _PROPERTIES.items():
            builder = builder.property(key, value)
        builder.execute()
        return
    writer = session.createDataFrame([], StructType.fromJson(dict(spark_schema))).write.format("delta")
    mode = "overwrite" if replace else "errorifexists"
    writer.mode(mode).option("overwriteSchema", replace).options(**_PROPERTIES).save(root)


def remove_folder(folder: Path, trash: Path) -> None:
    """Make a folder vanish at once, and then its files."""
    trash.mkdir(parents=True, exist_ok=True)
    target = trash / uuid.uuid4().hex
    folder.rename(target)
    shutil.rmtree(target, ignore_errors=True)
