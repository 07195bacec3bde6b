"""Make Delta keep statistics of the row ids: without them every UPDATE would read every file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sparkport.spark.model.columns import ROWID_KEY
from sparkport.spark.sql_names import quoted

_COUNT = "delta.dataSkippingNumIndexedCols"
_NAMES = "delta.dataSkippingStatsColumns"
_DEFAULT_COUNT = 32
_ALL = -1


def with_indexed_ids(configuration: Mapping[str, str], spark_schema: Mapping[str, Any]) -> dict[str, str]:
    """Return the properties of a table, changed such that Delta keeps statistics of its row ids.

    By default Delta keeps statistics of the first columns only, and the row id is the last one.
    """
    properties = dict(configuration)
    fields = spark_schema["fields"]
    hidden = next((field["name"] for field in fields if ROWID_KEY in (field.get("metadata") or {})), None)
    if hidden is None:
        return properties
    if (listed := properties.get(_NAMES)) is not None:
        names = [name.strip().strip("`") for name in listed.split(",")]
        if hidden not in names:
            properties[_NAMES] = f"{listed},{quoted(hidden)}" if listed.strip() else quoted(hidden)
        return properties
    needed = sum(1 for _ in _leaves(spark_schema))
    count = int(properties.get(_COUNT, _DEFAULT_COUNT))
    if count != _ALL and count < needed:
        properties[_COUNT] = str(needed)
    return properties


def _leaves(spark_type: Any) -> Iterator[object]:  # noqa: ANN401  (JSON is untyped)
    match spark_type:
        case {"type": "struct", "fields": list() as fields}:
            for field in fields:
                yield from _leaves(field["type"])
        case other:
            yield other
