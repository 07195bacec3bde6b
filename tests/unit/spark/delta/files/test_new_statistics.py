"""Statistics that the server writes itself, read back as any reader would."""

from __future__ import annotations

import json
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkport.spark.delta.files.new_statistics import NewStatistics
from sparkport.spark.delta.log.actions import DataFile
from sparkport.spark.delta.statistics import StoredColumn, bounds

TYPES = {
    "byte": (pa.int8(), st.integers(-128, 127)),
    "long": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "double": (pa.float64(), st.floats()),
    "single": (pa.float32(), st.floats(width=32)),
    "decimal": (pa.decimal128(38, 3), st.integers(-(10**37), 10**37).map(lambda n: Decimal(n).scaleb(-3))),
    "day": (pa.date32(), st.integers(-(2**31), 2**31 - 1)),
    "moment": (pa.timestamp("us", "UTC"), st.integers(-(2**62), 2**62)),
    "local": (pa.timestamp("us"), st.integers(-(10**17), 10**17)),
    "text": (pa.string(), st.text(st.characters(exclude_categories=["Cs"]), max_size=40)),
}


def described(*parts: pa.Table) -> str:
    """Return the statistics of a file whose rows come in parts."""
    statistics = NewStatistics(parts[0].schema)
    for rows in parts:
        statistics.add(rows)
    return statistics.as_json()


@settings(max_examples=300, deadline=None)
@given(st.data(), st.sampled_from(sorted(TYPES)))
def test_bounds_hold_for_every_value(data: st.DataObject, name: str) -> None:
    """No value lies outside, whatever the type; nulls are counted."""
    kind, values = TYPES[name]
    column = pa.array(data.draw(st.lists(st.none() | values, min_size=1, max_size=8)), kind)
    cut = data.draw(st.integers(0, len(column)))
    text = described(pa.table({name: column[:cut]}), pa.table({name: column[cut:]}))
    said = json.loads(text)
    file = DataFile("f", {}, 1, 1, text, physical_rows=len(column))
    found = bounds(file, StoredColumn((name,), kind))

    assert said["numRecords"] == len(column)
    assert found.null_count == column.null_count
    present = column.drop_null()
    if found.minimum is not None:
        assert pc.all(pc.greater_equal(present, found.minimum)).as_py() is not False
    if found.maximum is not None:
        assert pc.all(pc.less_equal(present, found.maximum)).as_py() is not False


def test_texts_are_cut_and_nan_has_no_range() -> None:
    """A long text is shortened on the right side of its bound; NaN, true and bytes have no bounds."""
    rows = pa.table(
        {"s": ["b" * 40, "a" * 33], "d": [float("nan"), 1.0], "f": [True, None], "x": [b"", b"1"]}
    )

    assert json.loads(described(rows)) == {
        "numRecords": 2,
        "minValues": {"s": "a" * 32},
        "maxValues": {"s": "b" * 32 + "\U0010ffff"},
        "nullCount": {"s": 0, "d": 0, "f": 1, "x": 0},
        "tightBounds": True,
    }


def test_row_id_of_a_wide_table_has_a_range() -> None:
    """The last column is described however many there are: rows are found by it."""
    rows = pa.table({f"c{number}": [number] for number in range(40)})
    said = json.loads(described(rows))

    assert len(said["minValues"]) == 32
    assert said["minValues"]["c39"] == 39
    assert "c38" not in said["maxValues"]


def test_rows_in_parts_have_the_statistics_of_all_at_once() -> None:
    """Whether rows come together or one by one makes no difference; NaN in one part is NaN in the file."""
    rows = pa.table(
        {
            "n": [3, None, 1],
            "s": ["b", "\U0001f600", "a"],
            "x": [1.0, float("nan"), 2.0],
            "d": pa.array([Decimal("1.10"), None, Decimal("-2.00")], pa.decimal128(5, 2)),
            "t": pa.array([1_999, -1, None], pa.timestamp("us")),
            "e": pa.array([None, None, None], pa.date32()),
        }
    )

    assert described(*(rows.slice(at, 1) for at in range(3))) == described(rows)
    assert json.loads(described(rows)) == {
        "numRecords": 3,
        "minValues": {"n": 1, "s": "a", "d": -2.00, "t": "1969-12-31T23:59:59.999"},
        "maxValues": {"n": 3, "s": "\U0001f600", "d": 1.10, "t": "1970-01-01T00:00:00.001"},
        "nullCount": {"n": 1, "s": 0, "x": 0, "d": 1, "t": 1, "e": 3},
        "tightBounds": True,
    }
