from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from sparkport.catalog import TimePoint, TimeUnit
from sparkport.errors import NotFoundError
from sparkport.memory.commits import Commits
from sparkport.memory.versions import History, TableState

STATE = TableState(pa.schema([("n", pa.int64())]))
OTHER = TableState(pa.schema([("m", pa.int64())]))


def test_versions_count_from_zero_and_commits_over_all_tables() -> None:
    """Numbers are a table's own; sequences order the whole catalog."""
    commits = Commits()
    one, other = History(commits, STATE), History(commits, STATE)
    one.add(STATE)

    assert [one.by_number(0).sequence, other.newest.sequence, one.newest.sequence] == [1, 2, 3]
    assert (one.newest.number, other.newest.number) == (1, 0)


def test_moment_of_the_catalog_finds_the_version_of_then() -> None:
    """Before its first version a table was not there."""
    commits = Commits()
    first = History(commits, STATE)
    late = History(commits, STATE)
    first.add(OTHER)

    found = first.as_of(2)
    assert found is not None
    assert found.number == 0
    assert late.as_of(1) is None


def test_times_rise_strictly() -> None:
    """Two versions of one moment could not be distinguished by time."""
    history = History(Commits(), STATE)
    for _ in range(50):
        history.add(STATE)
    times = [history.by_number(number).committed_at for number in range(51)]

    assert times == sorted(set(times))


def test_later_versions_are_returned() -> None:
    """What was committed since is what a conflict is looked for in."""
    history = History(Commits(), STATE)
    start = history.newest
    history.add(STATE, np.array([7], np.int64), writer="x")

    assert [(later.number, later.touched.tolist(), later.writer) for later in history.since(start)] == [
        (1, [7], "x")
    ]
    assert history.since(history.newest) == []


def test_private_state_has_a_pin_of_its_own() -> None:
    """The writer's view and the public version are both readable for good."""
    history = History(Commits(), STATE)
    public = history.add(STATE, writer="x", private=OTHER)
    seen = history.as_written(1)

    assert public.pin("id") == TimePoint(TimeUnit.SNAPSHOT, "id:1")
    assert seen.pin("id") == TimePoint(TimeUnit.SNAPSHOT, "id:1p")
    assert history.at(public.pin("id"), "id").state is STATE
    assert history.at(seen.pin("id"), "id").state is OTHER
    assert history.as_written(0) is history.by_number(0)


@pytest.mark.parametrize("value", ["", "id", "id:", "id:2", "id:2p", "id:-1", "other:0", "id:0q", "id:0\n"])
def test_unknown_pin_is_not_found(value: str) -> None:
    """Only what was given out leads back."""
    history = History(Commits(), STATE)

    with pytest.raises(NotFoundError):
        history.at(TimePoint(TimeUnit.SNAPSHOT, value), "id")
