"""Staged files as Spark reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from sparkport.spark.names import staged_name


def staged_rows(fields: Sequence[dict[str, Any]], folders: Sequence[str], session: SparkSession) -> DataFrame:
    """Return the rows of stages, with the columns that these fields of a Spark schema describe."""
    staged = [field | {"name": staged_name(field["name"])} for field in fields]
    schema = StructType.fromJson({"type": "struct", "fields": staged})
    rows = session.read.schema(schema).parquet(*folders)
    return rows.toDF(*(field["name"] for field in fields))
