"""The checker of histories finds anomalies that were planted, and nothing where there are none."""

from __future__ import annotations

import pytest

from .checker import Transaction, anomalies

T = Transaction

PLANTED: dict[str, tuple[list[Transaction], dict[str, tuple[int, ...]]]] = {
    "G1a": ([T(1, appends=(("x", 1),), outcome="aborted"), T(2, reads=(("x", (1,)),))], {"x": ()}),
    "G1b": ([T(1, appends=(("x", 1), ("x", 2))), T(2, reads=(("x", (1,)),))], {"x": (1, 2)}),
    "lost update": ([T(1, appends=(("x", 1),)), T(2, appends=(("x", 2),))], {"x": (2,)}),
    "G0": (
        [T(1, appends=(("x", 1), ("y", 3))), T(2, appends=(("x", 2), ("y", 4)))],
        {"x": (1, 2), "y": (4, 3)},
    ),
    "G1c": (
        [
            T(1, reads=(("y", (2,)),), appends=(("x", 1),)),
            T(2, reads=(("x", (1,)),), appends=(("y", 2),)),
        ],
        {"x": (1,), "y": (2,)},
    ),
    "G-single": (
        [T(1, appends=(("x", 1), ("y", 2))), T(2, reads=(("x", ()), ("y", (2,))))],
        {"x": (1,), "y": (2,)},
    ),
    "half": ([T(1, appends=(("x", 1), ("y", 2)), outcome="unknown")], {"x": (1,), "y": ()}),
}


@pytest.mark.parametrize("name", PLANTED)
def test_planted_anomaly_is_found(name: str) -> None:
    """Each kind of anomaly is found, and by its name."""
    history, final = PLANTED[name]

    assert [text.split(":")[0] for text in anomalies(history, final)][:1] == [name]


def test_serial_history_has_none() -> None:
    """Transactions one after the other are as they should be, with one that was aborted."""
    history = [
        T(1, appends=(("x", 1),)),
        T(2, reads=(("x", (1,)),), appends=(("x", 2), ("y", 3))),
        T(3, reads=(("x", (1, 2)), ("y", (3,)))),
        T(4, appends=(("x", 4),), outcome="aborted"),
    ]

    assert anomalies(history, {"x": (1, 2), "y": (3,)}) == []


def test_write_skew_is_allowed() -> None:
    """Snapshot isolation lets two transactions read what the other one changes."""
    history = [
        T(1, reads=(("x", ()), ("y", ())), appends=(("x", 1),)),
        T(2, reads=(("x", ()), ("y", ())), appends=(("y", 2),)),
    ]

    assert anomalies(history, {"x": (1,), "y": (2,)}) == []
