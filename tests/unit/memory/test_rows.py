from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from sparkport.arrow.taking import take
from sparkport.memory.rows import RowIds, Rows

SCHEMA = pa.schema([("n", pa.int64()), ("s", pa.string())])


def ids(*numbers: int) -> RowIds:
    """Return row ids."""
    return np.array(numbers, np.int64)


def rows_of(*pairs: tuple[int, int]) -> Rows:
    """Return rows of (id, number), each appended by itself."""
    rows = Rows()
    for row_id, number in pairs:
        rows = rows.append(pa.record_batch({"n": [number], "s": [str(number)]}, SCHEMA), ids(row_id))
    return rows


def numbers(rows: Rows) -> list[int]:
    """Return column `n`."""
    found: list[int] = rows.table(SCHEMA)["n"].to_pylist()
    return found


def test_many_small_appends_leave_few_segments() -> None:
    """Segments are merged as they come, so that their number grows with the logarithm."""
    rows = Rows()
    worst = 0
    for number in range(3000):
        rows = rows.append(pa.record_batch({"n": [number], "s": ["x"]}, SCHEMA), ids(number))
        worst = max(worst, len(rows.segments))

    assert numbers(rows) == list(range(3000))
    assert rows.row_ids.tolist() == list(range(3000))
    assert worst <= 2 * math.log2(3000)


def test_append_leaves_the_old_rows_alone() -> None:
    """States share rows and never change them."""
    old = rows_of((0, 1))
    new = old.append(pa.record_batch({"n": [2], "s": ["x"]}, SCHEMA), ids(1))

    assert (old.count, new.count) == (1, 2)
    assert old.append(pa.record_batch({"n": [], "s": []}, SCHEMA), ids()) is old


def test_rows_are_found_whatever_the_order_of_their_ids() -> None:
    """Ids are handed out before the commit, so that they may come out of order."""
    rows = rows_of((5, 50), (1, 10), (3, 30))
    found, known = rows.lookup(ids(3, 4, 5, 1, 99), SCHEMA)

    assert found.column("n").to_pylist() == [30, 50, 10]
    assert known.tolist() == [3, 5, 1]
    assert rows.missing(ids(1, 2, 5, 6)).tolist() == [2, 6]


def test_nothing_is_found_in_no_rows() -> None:
    """An empty table has no ids."""
    found, known = Rows().lookup(ids(1, 2), SCHEMA)

    assert (found.num_rows, len(known)) == (0, 0)
    assert Rows().missing(ids(1)).tolist() == [1]


def test_deleting_counts_what_was_there() -> None:
    """Missing ids do not count, and segments without hits are shared."""
    rows = rows_of((0, 1), (1, 2), (2, 3))
    left, removed = rows.delete(ids(1, 7))

    assert (numbers(left), removed) == ([1, 3], 1)
    same, nothing = rows.delete(ids(7))
    assert nothing == 0
    assert same.segments == rows.segments


def test_replacing_sets_only_the_named_columns() -> None:
    """Ids may come in any order; missing ones change nothing."""
    rows = rows_of((5, 50), (1, 10), (3, 30))
    changed = rows.replace(ids(3, 5, 9), pa.record_batch({"n": [31, 51, 0]}))

    assert numbers(changed) == [51, 10, 31]
    assert changed.table(SCHEMA)["s"].to_pylist() == ["50", "10", "30"]
    assert numbers(rows) == [50, 10, 30]


def test_slices_cut_across_segments() -> None:
    """Positions count over all segments."""
    rows = Rows()
    for start in (0, 100, 150):
        size = {0: 100, 100: 50, 150: 1}[start]
        data = pa.record_batch({"n": range(start, start + size), "s": ["x"] * size}, SCHEMA)
        rows = rows.append(data, np.arange(start, start + size, dtype=np.int64))
    parts = [part.batch.column("n").to_pylist() for part in rows.slice(90, 151)]

    assert [n for part in parts for n in part] == list(range(90, 151))
    assert list(rows.slice(5, 5)) == []


@pytest.mark.parametrize(
    "array",
    [
        pa.array(["a", "b", None, "d"], pa.string_view()),
        pa.array([b"a", b"b", None, b"d"], pa.binary_view()),
        pa.array([[1], [], None, [2, 3]], pa.list_view(pa.int8())),
        pc.run_end_encode(pa.array(["a", "a", None, "d"])),
        pa.array([1, 2, None, 4]),
        pa.array(["a", "b", None, "d"]).dictionary_encode(),
    ],
    ids=lambda array: str(array.type),
)
@pytest.mark.parametrize("positions", [[0], [3, 1, 1, 0], [0, 1, 2, 3], [2, 2], []])
def test_values_are_taken_from_every_type(array: pa.Array, positions: list[int]) -> None:
    """Types without a take kernel are taken apart and joined, also over chunks."""
    expected = [array[position].as_py() for position in positions]
    wanted = np.array(positions, np.int64)

    assert take(array, wanted).to_pylist() == expected
    assert take(pa.chunked_array([array.slice(0, 2), array.slice(2)]), wanted).to_pylist() == expected
    assert take(array, wanted).type == array.type
