"""Handing out row ids."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from sparkport.errors import NotFoundError
from sparkport.spark.row_ids import allocator
from sparkport.spark.row_ids.allocator import RowIdAllocator


def test_ids_of_one_server_follow_each_other(tmp_path: Path) -> None:
    """A range of ids that has no gaps lets files be skipped by it."""
    ids = RowIdAllocator(str(tmp_path), "t")

    assert ids.take(3).tolist() == [0, 1, 2]
    assert ids.take(0).tolist() == []
    assert ids.take(2).tolist() == [3, 4]


def test_no_two_servers_hand_out_the_same_id(tmp_path: Path) -> None:
    """Each claims blocks of its own, also one after the other: after a restart nothing is given again."""
    first, second = RowIdAllocator(str(tmp_path), "t"), RowIdAllocator(str(tmp_path), "t")
    taken = [first.take(5), second.take(5), first.take(5), RowIdAllocator(str(tmp_path), "t").take(5)]

    assert len(set(np.concatenate(taken).tolist())) == 20


def test_threads_share_without_clashes(tmp_path: Path) -> None:
    """Any number of statements may ask at once, of several servers."""
    servers = [RowIdAllocator(str(tmp_path), "t") for _ in range(4)]
    with ThreadPoolExecutor(8) as threads:
        taken = list(threads.map(lambda number: servers[number % 4].take(7), range(400)))

    assert len(np.unique(np.concatenate(taken))) == 2800


def test_full_block_is_followed_by_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One statement may take more ids than a block has."""
    monkeypatch.setattr(allocator, "_BLOCK_BITS", 3)
    ids = RowIdAllocator(str(tmp_path), "t")
    taken = ids.take(20)

    assert len(set(taken.tolist())) == 20
    claims = tmp_path / "_sparkport" / "rowids" / "t"
    assert sorted(path.name for path in claims.iterdir()) == ["0", "1", "2"]


def test_claims_lost_with_the_folder_are_claimed_again(tmp_path: Path) -> None:
    """A table that was dropped and made anew starts from the beginning; its ids are its own."""
    RowIdAllocator(str(tmp_path), "t").take(1)
    shutil.rmtree(tmp_path / "_sparkport")

    assert RowIdAllocator(str(tmp_path), "t").take(1).tolist() == [0]


def test_replaced_table_goes_on_after_the_ids_of_the_old_one(tmp_path: Path) -> None:
    """Older versions stay readable: an id that was read there must not name another row."""
    RowIdAllocator(str(tmp_path), "old").take(1)

    assert RowIdAllocator(str(tmp_path), "new").take(1).tolist() == [1 << 32]


def test_claims_without_a_table_id_count_too(tmp_path: Path) -> None:
    """Earlier releases claimed blocks in the folder itself."""
    claims = tmp_path / "_sparkport" / "rowids"
    claims.mkdir(parents=True)
    (claims / "4").touch()

    assert RowIdAllocator(str(tmp_path), "t").take(1).tolist() == [5 << 32]


def test_table_that_is_gone_does_not_come_back(tmp_path: Path) -> None:
    """A claim makes no folder for a table that was dropped meanwhile."""
    ids = RowIdAllocator(str(tmp_path / "s.db" / "t"), "t")

    with pytest.raises(NotFoundError):
        ids.take(1)
    assert list(tmp_path.iterdir()) == []


def test_stores_without_claims_take_blocks_by_chance() -> None:
    """Two servers in an object store meet with a chance of one in two thousand million."""
    one, other = RowIdAllocator("s3://bucket/t", "t").take(2), RowIdAllocator("s3://bucket/t", "t").take(2)

    assert one[1] == one[0] + 1
    assert one[0] >= 0
    assert one[0] >> 32 != other[0] >> 32


def test_ranges_are_apart_from_each_other_and_from_all_other_ids(tmp_path: Path) -> None:
    """Every range has as many ids as were asked for, at most a block, and shares none."""
    ids = RowIdAllocator(str(tmp_path), "t")
    taken = set(ids.take(3).tolist())
    small, large = ids.ranges(3, 10), ids.ranges(2, 1 << 40)
    later = ids.take(1)[0]

    assert small == [3, 13, 23]
    assert large == [1 << 32, 2 << 32]
    assert later not in taken
    assert later == 3 << 32


def test_copy_of_a_table_does_not_give_its_ids_again(tmp_path: Path) -> None:
    """The first block is one beyond the greatest id that the table has, whoever gave it."""
    ids = RowIdAllocator(str(tmp_path), "t", lambda: (5 << 32) + 7)

    assert ids.take(1)[0] == 6 << 32
