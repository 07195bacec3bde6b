from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from sparkport.errors import InvalidRequestError
from sparkport.spark.types import Pushdown, encode_scalar, pushable
from tests.behaviour.samples import GEOMETRY, SAMPLES

HUGEINT = pa.opaque(pa.binary(16), "hugeint", "DuckDB")
UHUGEINT = pa.opaque(pa.binary(16), "uhugeint", "DuckDB")
WIDE = pa.decimal256(39, 0)
ONE = uuid.UUID(int=1)

NOTHING = Pushdown()
EQUALITY = Pushdown(equality=True)
ORDER = Pushdown(equality=True, order=True)
FLOATS = Pushdown(equality=True, order=True, has_nan=True)


@pytest.mark.parametrize(
    ("value", "kind", "stored"),
    [
        (pa.scalar(7, pa.uint8()), pa.uint8(), pa.scalar(7, pa.int16())),
        (pa.scalar(7, pa.int32()), pa.uint64(), pa.scalar(Decimal(7), pa.decimal128(20, 0))),
        (pa.scalar(Decimal(-1), WIDE), HUGEINT, pa.scalar(b"\x7f" + b"\xff" * 15)),
        (pa.scalar(1, pa.int64()), HUGEINT, pa.scalar(b"\x80" + b"\0" * 14 + b"\x01")),
        (pa.scalar(Decimal(2**128 - 1), WIDE), UHUGEINT, pa.scalar(b"\xff" * 16)),
        (pa.scalar(ONE, pa.uuid()), pa.uuid(), pa.scalar("00000000-0000-0000-0000-000000000001")),
        (pa.scalar(ONE.bytes, pa.binary(16)), pa.uuid(), pa.scalar("00000000-0000-0000-0000-000000000001")),
        (pa.scalar("red"), pa.dictionary(pa.uint8(), pa.string()), pa.scalar("red")),
        (pa.array(["red"]).dictionary_encode()[0], pa.dictionary(pa.int8(), pa.string()), pa.scalar("red")),
        (pa.scalar("x"), pa.run_end_encoded(pa.int32(), pa.large_string()), pa.scalar("x")),
        (pa.scalar("x"), pa.string_view(), pa.scalar("x")),
        (pa.scalar("{}", pa.json_()), pa.json_(pa.large_string()), pa.scalar("{}")),
        (pa.scalar(1, pa.int8()), pa.bool8(), pa.scalar(True)),
        (pa.scalar(True), pa.bool8(), pa.scalar(True)),
        (pa.scalar(dt.date(1970, 1, 2)), pa.date64(), pa.scalar(dt.date(1970, 1, 2))),
        (pa.scalar(5_000_000, pa.timestamp("us")), pa.timestamp("s"), pa.scalar(5, pa.int64())),
        (pa.scalar(5, pa.timestamp("ns")), pa.timestamp("ns"), pa.scalar(5, pa.int64())),
        (
            pa.scalar(5, pa.timestamp("us", "UTC")),
            pa.timestamp("us", "Asia/Tokyo"),
            pa.scalar(5, pa.timestamp("us", "UTC")),
        ),
        (pa.scalar(b"abc"), pa.binary(3), pa.scalar(b"abc")),
        (pa.scalar(None, pa.int32()), pa.uuid(), pa.scalar(None, pa.string())),
        (pa.scalar(None, WIDE), HUGEINT, pa.scalar(None, pa.binary())),
    ],
)
def test_constants_are_stored_as_the_column_stores_them(value: Any, kind: pa.DataType, stored: Any) -> None:
    """A constant of the column's type or of the type that DuckDB compares with becomes a stored value."""
    found = encode_scalar(value, pa.field("c", kind))

    assert found.type == stored.type
    assert found.equals(stored)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (pa.scalar(-1), pa.uint8()),
        (pa.scalar(256), pa.uint8()),
        (pa.scalar(1.5), pa.int32()),
        (pa.scalar(Decimal(2**127), WIDE), HUGEINT),
        (pa.scalar(Decimal(-1), WIDE), UHUGEINT),
        (pa.scalar("1"), HUGEINT),
        (pa.scalar("1.5").cast(pa.decimal128(3, 1)), HUGEINT),
        (pa.scalar("no uuid"), pa.uuid()),
        (pa.scalar(1, pa.timestamp("us")), pa.timestamp("s")),
        (pa.scalar(1, pa.timestamp("us")), pa.timestamp("ns")),
        (pa.scalar(1, pa.time64("us")), pa.time64("ns")),
        (pa.scalar(b"ab"), pa.binary(3)),
    ],
)
def test_constants_that_a_column_cannot_hold_are_refused(value: Any, kind: pa.DataType) -> None:
    """No constant is rounded, cut or wrapped: the comparison is left to the client."""
    with pytest.raises(InvalidRequestError):
        encode_scalar(value, pa.field("c", kind))


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (pa.bool_(), ORDER),
        (pa.uint64(), ORDER),
        (HUGEINT, ORDER),
        (UHUGEINT, ORDER),
        (pa.decimal128(38, 10), ORDER),
        (pa.decimal256(76, 0), EQUALITY),
        (pa.float16(), FLOATS),
        (pa.float64(), FLOATS),
        (pa.string_view(), ORDER),
        (pa.json_(), ORDER),
        (pa.uuid(), ORDER),
        (pa.binary(3), ORDER),
        (pa.date64(), ORDER),
        (pa.timestamp("s"), ORDER),
        (pa.timestamp("us", "Europe/Paris"), ORDER),
        (pa.timestamp("ns"), ORDER),
        (pa.timestamp("ns", "UTC"), NOTHING),
        (pa.duration("us"), NOTHING),
        (pa.month_day_nano_interval(), NOTHING),
        (pa.dictionary(pa.uint8(), pa.string()), EQUALITY),
        (pa.dictionary(pa.uint8(), pa.duration("s")), NOTHING),
        (pa.run_end_encoded(pa.int32(), pa.float32()), FLOATS),
        (pa.list_(pa.int32()), NOTHING),
        (SAMPLES["sparse union"].type, NOTHING),
        (pa.opaque(pa.binary(8), "time_tz", "DuckDB"), NOTHING),
        (pa.opaque(pa.binary(), "bit", "DuckDB"), EQUALITY),
        (pa.opaque(pa.int64(), "shoe size", "Nobody"), NOTHING),
        (pa.null(), NOTHING),
    ],
)
def test_filters_are_pushed_where_stored_values_compare_alike(kind: pa.DataType, expected: Pushdown) -> None:
    """Equality and order of stored values are used only where they are those of DuckDB."""
    assert pushable(pa.field("c", kind)) == expected


def test_nothing_is_pushed_for_unknown_extensions() -> None:
    """A geometry looks like bytes here, but not to DuckDB."""
    assert pushable(GEOMETRY) == NOTHING
