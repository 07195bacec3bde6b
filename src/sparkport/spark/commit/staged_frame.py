"""Read staged files as a DataFrame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from sparkport.spark.commit.staging import Stage


def staged_rows(
    fields: Sequence[dict[str, Any]], stages: Sequence[Stage], session: SparkSession
) -> DataFrame:
    """Return the rows of stages with equal columns, as described by these fields of a Spark schema."""
    folders = [stage.on_disk() for stage in stages]
    staged = [field | {"name": stages[0].name_on_disk(field["name"])} for field in fields]
    schema = StructType.fromJson({"type": "struct", "fields": staged})
    rows = session.read.schema(schema).parquet(*folders)
    return rows.toDF(*(field["name"] for field in fields))
