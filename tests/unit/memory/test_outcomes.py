from __future__ import annotations

import tracemalloc

import pytest

from sparkport.memory import outcomes
from sparkport.memory.outcomes import Outcomes
from sparkport.toolkit.repeats import Outcome

DONE = Outcome(1)


def of(count: int) -> list[Outcomes]:
    """Return all states on the way to so many outcomes."""
    states = [Outcomes()]
    for number in range(count):
        states.append(states[-1].with_outcome(f"key {number}", DONE))
    return states


def test_a_state_knows_what_was_done_until_then() -> None:
    """Later outcomes do not appear in earlier states."""
    states = of(5)

    assert [states[3].get(f"key {number}") for number in range(5)] == [DONE, DONE, DONE, None, None]


def test_a_state_can_be_continued_in_two_ways() -> None:
    """What a transaction does, others do not know of, and the other way round."""
    base = of(3)[-1]
    one = base.with_outcome("one", DONE)
    other = base.with_outcome("other", DONE).with_outcome("one", Outcome(2))

    assert (one.get("one"), one.get("other")) == (DONE, None)
    assert (other.get("other"), other.get("one")) == (DONE, Outcome(2))
    assert base.get("one") is None
    assert other.get("key 2") == DONE


def test_the_oldest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """At least the last ones up to the limit are known, and never more than twice as many."""
    monkeypatch.setattr(outcomes, "_MAX_OUTCOMES", 10)
    for count, state in enumerate(of(95)):
        known = [number for number in range(95) if state.get(f"key {number}")]
        assert known == list(range(count))[-len(known) :] if known else count == 0
        assert min(count, 10) <= len(known) <= 20


def test_many_states_share_their_memory() -> None:
    """A table of many versions does not hold all outcomes for each: 5,000 states take a few megabytes."""
    tracemalloc.start()
    states = of(5000)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert len(states) == 5001
    assert size < 5 << 20
