"""Read staged files as a DataFrame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from sparkport.spark.commit.staging import Stage
from sparkport.spark.delta.log.spark_fields import SparkField, struct_json


def staged_rows(fields: Sequence[SparkField], stages: Sequence[Stage], session: SparkSession) -> DataFrame:
    """Return the rows of stages with equal columns, as described by these fields of a Spark schema."""
    folders = [stage.on_disk() for stage in stages]
    staged = [replace(field, name=stages[0].name_on_disk(field.name)) for field in fields]
    rows = session.read.schema(StructType.fromJson(struct_json(staged))).parquet(*folders)
    return rows.toDF(*(field.name for field in fields))
