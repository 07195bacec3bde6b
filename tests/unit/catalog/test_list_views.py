from __future__ import annotations

import pyarrow as pa
import pytest

from sparkport.arrow.conform import conform_column

LISTS = [["x"], ["a", None], None, ["b"], []]


@pytest.mark.parametrize("source", [pa.list_view(pa.string()), pa.large_list_view(pa.string())])
@pytest.mark.parametrize(
    "target", [pa.list_(pa.string()), pa.large_list(pa.large_string()), pa.list_view(pa.large_string())]
)
def test_views_of_lists_become_lists(source: pa.DataType, target: pa.DataType) -> None:
    """DuckDB can be set to send lists as views; sliced or not, they keep their elements."""
    whole = pa.array(LISTS, source)
    for start, stop in ((0, 5), (1, 5), (2, 3), (4, 5), (0, 0)):
        made = conform_column(whole.slice(start, stop - start), pa.field("v", target))
        made.validate(full=True)

        assert made.type == target
        assert made.to_pylist() == LISTS[start:stop]
