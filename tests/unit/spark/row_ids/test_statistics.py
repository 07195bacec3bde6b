"""Which columns Delta keeps statistics of."""

from __future__ import annotations

from typing import Any

from sparkport.spark.model.columns import ROWID_KEY
from sparkport.spark.row_ids.statistics import with_indexed_ids


def schema(count: int, *, ids: bool = True) -> dict[str, Any]:
    """Return a Spark schema with so many columns before the ids, two of them in a struct."""
    inner = [{"name": name, "type": "long", "nullable": True, "metadata": {}} for name in "ab"]
    fields: list[dict[str, Any]] = [
        {"name": f"c{n}", "type": "long", "nullable": True, "metadata": {}} for n in range(count - 2)
    ]
    fields.append({"name": "s", "type": {"type": "struct", "fields": inner}, "nullable": True})
    if ids:
        fields.append({"name": "id", "type": "long", "nullable": True, "metadata": {ROWID_KEY: True}})
    return {"type": "struct", "fields": fields}


def test_row_ids_are_always_among_the_columns_with_statistics() -> None:
    """Where Delta would stop before the last column, its limit is raised; other settings stay."""
    names = {"delta.dataSkippingStatsColumns": "c1, `s`.`a`"}

    assert with_indexed_ids({"x": "y"}, schema(31)) == {"x": "y"}
    assert with_indexed_ids({}, schema(32)) == {"delta.dataSkippingNumIndexedCols": "33"}
    assert with_indexed_ids({}, schema(50, ids=False)) == {}
    assert with_indexed_ids({"delta.dataSkippingNumIndexedCols": "-1"}, schema(50)) == {
        "delta.dataSkippingNumIndexedCols": "-1"
    }
    assert with_indexed_ids({"delta.dataSkippingNumIndexedCols": "0"}, schema(3)) == {
        "delta.dataSkippingNumIndexedCols": "4"
    }
    assert with_indexed_ids(names, schema(3)) == {"delta.dataSkippingStatsColumns": "c1, `s`.`a`,`id`"}
    assert with_indexed_ids(with_indexed_ids(names, schema(3)), schema(3)) == {
        "delta.dataSkippingStatsColumns": "c1, `s`.`a`,`id`"
    }
