"""How tests run other processes that use the same folders."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.unit.spark.processes import OWN_NUMBERS, need_own_numbers


@pytest.fixture(params=["same numbers", "own numbers"])
def wrapper(request: pytest.FixtureRequest) -> Sequence[str]:
    """Return how another process is run: beside this one, or with process numbers of its own."""
    if request.param == "same numbers":
        return ()
    need_own_numbers()
    return OWN_NUMBERS
