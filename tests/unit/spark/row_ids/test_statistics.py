"""Which columns Delta keeps statistics of."""

from __future__ import annotations

from sparkport.spark.delta.log.spark_fields import SparkField, struct_json
from sparkport.spark.model.columns import ROWID_KEY
from sparkport.spark.row_ids.statistics import with_indexed_ids


def schema(count: int, *, ids: bool = True) -> list[SparkField]:
    """Return so many columns before the ids, two of them in a struct."""
    fields = [SparkField(f"c{n}", "long") for n in range(count - 2)]
    fields.append(SparkField("s", struct_json([SparkField("a", "long"), SparkField("b", "long")])))
    if ids:
        fields.append(SparkField("id", "long", metadata={ROWID_KEY: True}))
    return fields


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
