from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from sparkport import expressions
from sparkport.catalog.call import Call
from sparkport.errors import InvalidRequestError


@pytest.mark.parametrize(
    ("expression", "kind", "value"),
    [
        ("'7'", pa.int32(), 7),
        ("1.5", pa.int32(), 2),
        ("TIMESTAMPTZ '2024-01-02 03:04:05+00'", pa.date32(), dt.date(2024, 1, 2)),
        ("[]", pa.list_(pa.int32()), []),
        ("{'a': 1}", pa.struct([("a", pa.int64())]), {"a": 1}),
        ("1 -- one", pa.string(), "1"),
    ],
)
def test_a_constant_is_cast_as_duckdb_casts(expression: str, kind: pa.DataType, value: object) -> None:
    """A default takes the type of its column as it would in a local table."""
    found = expressions.evaluate_constant(Call(), expression, pa.field("v", kind))

    assert (found.type, found.as_py()) == (kind, value)


def test_a_constant_that_does_not_fit_its_column_is_refused() -> None:
    """What DuckDB cannot cast is no default."""
    with pytest.raises(InvalidRequestError, match="Could not convert string 'abc' to INT32"):
        expressions.evaluate_constant(Call(), "'abc'", pa.field("v", pa.int32()))


@pytest.mark.parametrize("word", ["current_date", "CURRENT_TIMESTAMP", "localtime"])
def test_functions_that_are_written_like_columns_are_none(word: str) -> None:
    """SQL writes some functions without brackets, and they make good defaults."""
    assert expressions.evaluate_constant(Call(), word).is_valid


def test_words_that_tell_of_the_server_are_no_defaults() -> None:
    """Who runs the server is none of a client's business."""
    with pytest.raises(InvalidRequestError):
        expressions.evaluate_constant(Call(), "user")


def test_a_column_goes_before_a_function_written_like_it() -> None:
    """A table may have a column named user."""
    rows = pa.table({"user": [1, 2]})

    assert expressions.evaluate(Call(), "user + 1", rows).to_pylist() == [2, 3]
