"""What the tables of a warehouse share, and for how long."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from sparkport.spark.engine import Engine
from sparkport.spark.session.host import SparkHost
from sparkport.spark.session.settings import SparkSettings


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    """Return an engine whose Spark is never started."""
    made = Engine(SparkHost(SparkSettings(warehouse=str(tmp_path))))
    yield made
    made.stop_work()


def test_writes_to_a_table_that_was_brought_back_are_ordered_together(engine: Engine) -> None:
    """A statement from before a DROP, or a RENAME and another one back, is still in the same queue."""
    before = engine.commits("/w/t", "id", "s.t")
    engine.forget("/w/t")
    after = engine.commits("/w/t", "id", "s.t")

    assert after is before


def test_writes_are_not_split_by_who_still_means_the_table_of_before(engine: Engine) -> None:
    """A statement that has read the old table's id just before it was replaced does not swap the queue."""
    new = engine.commits("/w/t", "new", "s.t")
    old = engine.commits("/w/t", "old", "s.t")

    assert engine.commits("/w/t", "new", "s.t") is new
    assert old is not new


def test_queue_is_kept_while_the_table_is_there(engine: Engine) -> None:
    """What it has learned of the last commit serves the next statement; of a dropped table nothing stays."""
    engine.commits("/w/t", "id", "s.t")._last_size = 7
    gc.collect()
    kept = engine.commits("/w/t", "id", "s.t")._last_size
    engine.forget("/w/t")
    gc.collect()

    assert kept == 7
    assert engine.commits("/w/t", "id", "s.t")._last_size == 1
