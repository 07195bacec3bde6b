"""How large rows are said to be."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sparkport.arrow.sizes import byte_size
from tests.behaviour.samples import SAMPLES, empty_lists


def test_flat_rows() -> None:
    """A part of a batch is as large as its own rows."""
    batch = pa.record_batch({"n": pa.array(range(1000), pa.int64())})

    assert byte_size(batch) == 8000
    assert byte_size(batch.slice(10, 10)) == 80


def test_nested_rows() -> None:
    """So it is with lists, but for some bytes around them."""
    batch = pa.record_batch({"l": pa.array([[1, 2, 3]] * 1000, pa.list_(pa.int64()))})
    part = byte_size(batch.slice(100, 100))

    assert 28_000 < byte_size(batch) < 29_000
    assert 2_800 < part < 3_500


def test_lists_without_offsets() -> None:
    """Empty lists in empty lists need not have any."""
    batch = pa.record_batch({"l": empty_lists()})

    assert 20 < byte_size(batch) < 1_000
    assert byte_size(batch.slice(0, 0)) < byte_size(batch)


@pytest.mark.parametrize("values", SAMPLES.values(), ids=SAMPLES)
def test_every_type(values: pa.Array) -> None:
    """All types have a size."""
    assert byte_size(pa.record_batch({"c": values, "n": pa.array(range(4))})) >= 32
