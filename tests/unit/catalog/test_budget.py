from __future__ import annotations

import gc

import pytest

from sparkport.catalog.budget import ByteBudget, CallerBudgets, Reservation
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


def test_each_caller_has_a_part_of_his_own() -> None:
    """What one caller has staged is not another's, and outlives the calls that staged it."""
    budgets = CallerBudgets(50)
    staged = Reservation(budgets.of("alice"))
    staged.add(50)
    gc.collect()

    with pytest.raises(LimitExceededError, match="for what the transactions of this caller stage"):
        Reservation(budgets.of("alice")).add(1)
    other = Reservation(budgets.of("bob"))
    other.add(50)
    assert other.size == 50


def test_callers_without_anything_staged_are_forgotten() -> None:
    """Callers come and go without a trace."""
    budgets = CallerBudgets(50)
    for number in range(100):
        Reservation(budgets.of(f"caller {number}")).add(1)
    gc.collect()

    assert not budgets._budgets
