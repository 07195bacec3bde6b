"""How scans are cut."""

from __future__ import annotations

import itertools

import pytest

from sparkport.catalog import ScanSlice
from sparkport.errors import NotFoundError
from sparkport.spark.delta.log.actions import DataFile
from sparkport.spark.read.splits import SplitSizes, endpoint_count, files_of, scan_tasks

SIZES = SplitSizes(in_server=0, endpoint=1000, first_task=50, task=200, max_endpoints=8)


def files(*sizes: int) -> list[DataFile]:
    """Return files of these sizes."""
    return [DataFile(f"/t/{number}", {}, size, 0) for number, size in enumerate(sizes)]


@pytest.mark.parametrize(
    ("sizes", "count"),
    [([], 1), ([10], 1), ([5000], 1), ([600] * 10, 6), ([100] * 5, 1), ([1000] * 100, 8), ([0, 0], 1)],
)
def test_endpoints_have_about_the_size_asked_for(sizes: list[int], count: int) -> None:
    """There are never more endpoints than files or than allowed, and at least one."""
    assert endpoint_count(files(*sizes), sum(sizes), SIZES) == count


def test_scans_in_the_server_are_cut_by_what_they_read() -> None:
    """They have smaller endpoints; with one byte more they are left to tasks, and cut by whole files."""
    sizes = SplitSizes(in_server=900, endpoint_in_server=100, endpoint=5000)

    assert endpoint_count(files(*[5000] * 8), 600, sizes) == 6
    assert endpoint_count(files(*[5000] * 8), 900, sizes) == 8
    assert endpoint_count(files(*[5000] * 4), 901, sizes) == 4
    assert endpoint_count(files(*[500] * 8), 901, sizes) == 1


@pytest.mark.parametrize("count", [1, 2, 3, 7, 20])
def test_endpoints_are_together_exactly_the_files(count: int) -> None:
    """Each file is in one endpoint, and the endpoints one after the other have the order of the files."""
    known = files(5, 0, 700, 3, 3, 3, 90, 1, 0, 12)
    parts = [files_of(known, ScanSlice(index, count)) for index in range(count)]

    assert list(itertools.chain.from_iterable(parts)) == known
    assert files_of(known, None) == known


def test_endpoint_that_does_not_exist_is_an_error() -> None:
    """A ticket for the fourth of three parts means nothing."""
    with pytest.raises(NotFoundError, match=r"^slice .3. not found$"):
        files_of(files(1), ScanSlice(3, 3))


def test_first_tasks_are_small() -> None:
    """The first rows come soon; later units are worth a task."""
    cut = list(scan_tasks(files(*[25] * 40), SIZES, share=1.0, small=2))

    assert [len(unit.ranges) for unit in cut] == [2, 2, 8, 8, 8, 8, 4]


def test_units_grow_as_fewer_columns_are_read() -> None:
    """What counts is how much of the files has to be decoded."""
    cut = list(scan_tasks(files(*[25] * 40), SIZES, share=0.25, small=2))

    assert [len(unit.ranges) for unit in cut] == [8, 8, 24]


def test_large_files_are_cut_without_gaps() -> None:
    """The ranges of a file follow each other from its first byte to its last."""
    parts = [part for unit in scan_tasks(files(3000, 10), SIZES, share=1.0, small=1) for part in unit.ranges]

    assert [(part.start, part.stop) for part in parts] == [
        (0, 375),
        (375, 750),
        (750, 1125),
        (1125, 1500),
        (1500, 1875),
        (1875, 2250),
        (2250, 2625),
        (2625, 3000),
        (0, 10),
    ]
