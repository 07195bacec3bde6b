"""`--shuffle SEED` runs the tests of each file in a random order, the same for the same seed.

Files keep their order, as the workers share them file by file. Tests with the same parameter of a shared
fixture stay together, or it would be made anew for each.
"""

from __future__ import annotations

import random
from collections.abc import Hashable, Iterator
from itertools import groupby

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption(
        "--shuffle", type=int, metavar="SEED", help="run the tests of each file in a random order"
    )


def pytest_report_header(config: pytest.Config) -> str | None:
    """Say how to get the same order again."""
    seed = config.getoption("shuffle")
    return None if seed is None else f"order: --shuffle {seed}"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Shuffle the tests of each file."""
    seed = config.getoption("shuffle")
    if seed is not None:
        items[:] = [
            item for path, group in groupby(items, _path) for item in _shuffled(f"{seed} {path}", group)
        ]


def _path(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


def _shuffled(seed: str, items: Iterator[pytest.Item]) -> list[pytest.Item]:
    chance = random.Random(seed)
    groups: dict[Hashable, list[pytest.Item]] = {}
    for item in items:
        groups.setdefault(_shared_parameters(item), []).append(item)
    shuffled = list(groups.values())
    chance.shuffle(shuffled)
    for group in shuffled:
        chance.shuffle(group)
    return [item for group in shuffled for item in group]


def _shared_parameters(item: pytest.Item) -> Hashable:
    call = getattr(item, "callspec", None)
    if call is None:
        return ()
    scopes = {name: scope.value for name, scope in call._arg2scope.items()}
    return tuple((name, index) for name, index in call.indices.items() if scopes.get(name) != "function")
