from __future__ import annotations

import json

import pyarrow as pa
import pytest

from sparkport.spark.delta.errors import CorruptLogError, report_damage


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (FileNotFoundError("x"), "x.json is missing"),
        (
            ValueError("size is not a whole number"),
            "x.json cannot be decoded (ValueError: size is not a whole",
        ),
        (
            json.JSONDecodeError("Expecting value", "", 0),
            "x.json cannot be decoded (JSONDecodeError: Expecting",
        ),
        (pa.ArrowInvalid("no Parquet"), "x.json cannot be decoded (ArrowInvalid: no Parquet)"),
    ],
)
def test_what_does_not_decode_is_damage(error: Exception, message: str) -> None:
    """The table, the version and the file are named."""
    with pytest.raises(CorruptLogError) as raised, report_damage("/lake/sales.db/orders", 3, "x.json"):
        raise error

    assert str(raised.value).startswith("the log of table 'sales.orders' is damaged at version 3: " + message)


@pytest.mark.parametrize("error", [TypeError("x"), AttributeError("x"), KeyError("x"), AssertionError("x")])
def test_a_fault_of_the_program_is_no_damage(error: Exception) -> None:
    """A bug must not read as if somebody had to repair the table."""
    with pytest.raises(type(error)) as raised, report_damage("/lake/sales.db/orders", 3, "x.json"):
        raise error

    assert raised.value is error
