from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from sparkport.catalog.tables import ColumnStatistics
from sparkport.protocol.airport import statistics

DAYS_OF_INFINITY = 2147483647


def _encoded(low: pa.Scalar, high: pa.Scalar, field: pa.Field, **known: Any) -> pa.Table:
    told = ColumnStatistics(low, high, has_null=True, has_not_null=True, distinct_count=2, **known)
    return pa.ipc.open_stream(statistics.encode(told, field)).read_all()


def test_bounds_have_the_type_of_the_column() -> None:
    """The client refuses bounds whose type differs from the column's."""
    field = pa.field("v", pa.timestamp("ns"), nullable=False)
    low, high = (pa.scalar(value, field.type) for value in (1, 1696163696789123456))
    row = _encoded(low, high, field)

    assert row.schema.names == ["min", "max", "has_not_null", "has_null", "distinct_count"]
    assert row.schema.field("min").type == row.schema.field("max").type == pa.timestamp("ns")
    assert row["max"].cast(pa.int64()).to_pylist() == [1696163696789123456]


def test_infinite_dates_are_bounds_like_any_other() -> None:
    """DuckDB's infinities are dates that Python does not have."""
    low, high = (
        pa.scalar(days, pa.int32()).cast(pa.date32()) for days in (-DAYS_OF_INFINITY, DAYS_OF_INFINITY)
    )
    row = _encoded(low, high, pa.field("v", pa.date32()))

    assert row["min"].cast(pa.int32()).to_pylist() == [-DAYS_OF_INFINITY]
    assert row["max"].cast(pa.int32()).to_pylist() == [DAYS_OF_INFINITY]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.json_(pa.string())])
def test_unknown_bounds_of_texts_shut_nothing_out(kind: pa.DataType) -> None:
    """The client takes a null bound of texts for a text, so the widest bounds are sent."""
    row = _encoded(pa.scalar(None), pa.scalar(None), pa.field("v", kind))

    assert [str(value) for value in (row["min"][0], row["max"][0])] == ["", "\U0010ffff\U0010ffff"]


def test_long_texts_are_cut_and_stay_bounds() -> None:
    """Megabytes of text are not sent to say where a column begins and ends."""
    low, high = pa.scalar("a" * 1_000_000), pa.scalar("b" * 1_000_000)
    row = _encoded(low, high, pa.field("v", pa.string())).to_pylist()[0]

    assert row["min"] == "a" * 64
    assert row["max"] == "b" * 64 + "\U0010ffff\U0010ffff"


def test_unknown_bounds_of_numbers_are_null() -> None:
    """A null bound of any other type means that nothing is known."""
    row = _encoded(pa.scalar(None), pa.scalar(None), pa.field("v", pa.int32()))

    assert row.to_pylist()[0] == {
        "min": None,
        "max": None,
        "has_not_null": True,
        "has_null": True,
        "distinct_count": 2,
    }


def test_uuids_keep_their_extension_type() -> None:
    """The bounds of a UUID column are UUIDs, or the client fails."""
    low = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"\0" * 16], pa.binary(16)))[0]
    row = _encoded(low, low, pa.field("v", pa.uuid()))

    assert row.schema.field("min").type == pa.uuid()
    assert row["max"].to_pylist()[0].int == 0
