"""Statistics of the row ids: without them every UPDATE would read every file."""

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
    """Return the properties of a table, such that Delta keeps statistics of its row ids.

    Delta does so for the first columns only, and the ids come last.
    """
    found = dict(configuration)
    fields = spark_schema["fields"]
    hidden = next((field["name"] for field in fields if ROWID_KEY in (field.get("metadata") or {})), None)
    if hidden is None:
        return found
    if _NAMES in found:
        names = [name.strip().strip("`") for name in found[_NAMES].split(",")]
        if hidden not in names:
            found[_NAMES] = f"{found[_NAMES]},{quoted(hidden)}" if found[_NAMES].strip() else quoted(hidden)
        return found
    needed = sum(1 for _ in _leaves(spark_schema))
    present = int(found.get(_COUNT, _DEFAULT_COUNT))
    if present != _ALL and present < needed:
        found[_COUNT] = str(needed)
    return found


def _leaves(kind: Any) -> Iterator[object]:  # noqa: ANN401  (JSON is untyped)
    match kind:
        case {"type": "struct", "fields": list() as fields}:
            for field in fields:
                yield from _leaves(field["type"])
        case other:
            yield other
