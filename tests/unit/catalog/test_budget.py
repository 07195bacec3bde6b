from __future__ import annotations

import pytest

from sparkport.catalog.budget import ByteBudget, Reservation
from sparkport.errors import LimitExceededError


def test_budget_is_shared_up_to_its_limit() -> None:
    """What one holds is missing to the others, and is theirs when it is released."""
    budget = ByteBudget(100)
    one, other = Reservation(budget), Reservation(budget)
    one.add(60)
    one.resize(70)
    other.add(30)

    with pytest.raises(LimitExceededError) as caught:
        other.add(1)
    assert str(caught.value) == (
        "no memory is left for the rows of all calls: 100 of 100 bytes are in use and 1 more are needed;"
        " try again when others have finished"
    )
    assert (one.size, other.size, budget.held) == (70, 30, 100)
    one.release()
    one.release()
    other.add(70)
    assert budget.held == 100


def test_forgotten_reservation_is_released() -> None:
    """Whoever fails to release what he holds does not keep it for ever."""
    budget = ByteBudget(100)
    Reservation(budget).add(60)

    assert budget.held == 0


def test_budget_without_a_limit_counts_only() -> None:
    """A catalog that nobody serves has no limit."""
    budget = ByteBudget(None)
    held = Reservation(budget)
    held.add(1 << 60)

    assert budget.held == 1 << 60
