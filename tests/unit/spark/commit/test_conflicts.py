"""Commits that others were faster than."""

from __future__ import annotations

import pytest

from sparkport.catalog import Call
from sparkport.catalog.measures import MEASURES
from sparkport.errors import ConflictError
from sparkport.spark.commit.conflicts import FinalConflictError, retry_on_conflict


def test_a_conflict_is_tried_again_and_counted() -> None:
    """The attempt after the last conflict counts, and the number of repetitions is measured."""
    attempts: list[int] = []

    def attempt(number: int) -> str:
        attempts.append(number)
        if number < 2:
            raise ConflictError("s.t", "another writer was faster")
        return "done"

    before = MEASURES.value("commit_retries")

    assert retry_on_conflict(Call(), attempt, max_tries=5) == "done"
    assert attempts == [0, 1, 2]
    assert MEASURES.value("commit_retries") == before + 2


@pytest.mark.parametrize(("error", "tries"), [(ConflictError, 2), (FinalConflictError, 1)])
def test_the_last_conflict_is_raised(error: type[ConflictError], tries: int) -> None:
    """After the last attempt, or a conflict that another attempt cannot resolve, the caller is told."""
    attempts: list[int] = []

    def attempt(number: int) -> None:
        attempts.append(number)
        raise error("s.t", "another writer was faster")

    with pytest.raises(error):
        retry_on_conflict(Call(), attempt, max_tries=2)
    assert len(attempts) == tries
