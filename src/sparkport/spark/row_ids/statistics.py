"""Make Delta keep statistics of the row ids: without them every UPDATE would read every file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sparkport.spark.delta.log.spark_fields import SparkField, SparkType
from sparkport.spark.model.columns import ROWID_KEY
from sparkport.spark.sql_names import quoted

_COUNT = "delta.dataSkippingNumIndexedCols"
_NAMES = "delta.dataSkippingStatsColumns"
_DEFAULT_COUNT = 32
_ALL = -1


def with_indexed_ids(configuration: Mapping[str, str], fields: Sequence[SparkField]) -> dict[str, str]:
    """Return the properties of a table, changed such that Delta keeps statistics of its row ids.

    By default Delta keeps statistics of the first columns only, and the row id is the last one.
    """
    properties = dict(configuration)
    hidden = next((field.name for field in fields if ROWID_KEY in field.metadata), None)
    if hidden is None:
        return properties
    if (listed := properties.get(_NAMES)) is not None:
        names = [name.strip().strip("`") for name in listed.split(",")]
        if hidden not in names:
            properties[_NAMES] = f"{listed},{quoted(hidden)}" if listed.strip() else quoted(hidden)
        return properties
    needed = sum(_leaf_count(field.type) for field in fields)
    count = int(properties.get(_COUNT, _DEFAULT_COUNT))
    if count != _ALL and count < needed:
        properties[_COUNT] = str(needed)
    return properties


def _leaf_count(spark_type: SparkType) -> int:
    """Return how many columns Delta counts in one: each field of a struct, at every depth."""
    match spark_type:
        case {"type": "struct", "fields": list() as fields}:
            return sum(_leaf_count(field["type"]) for field in fields)
        case _:
            return 1
