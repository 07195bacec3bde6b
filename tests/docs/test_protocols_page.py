"""The page of the protocols is complete and true."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import sparkport.catalog

PAGE = (Path(__file__).parents[2] / "docs" / "protocols.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `(\w+)` \| (.*?) \|", re.MULTILINE)
PROTOCOLS: dict[str, Any] = {
    name: value
    for name, value in inspect.getmembers(sparkport.catalog, inspect.isclass)
    if getattr(value, "_is_protocol", False)
}
_SHARED = {"name", "comment", "signature"}
_SCREEN = 40


def test_every_protocol_is_in_one_group_with_its_methods() -> None:
    """Each protocol stands in one table, with all methods that it adds."""
    rows = ROW.findall(PAGE)

    assert sorted(name for name, _ in rows) == sorted(PROTOCOLS)
    for name, cell in rows:
        protocol = PROTOCOLS[name]
        own = {method for method in vars(protocol) if method in protocol.__abstractmethods__}
        methods = set(re.findall(r"`(\w+)`", cell))
        assert methods == own or methods == own - _SHARED, name


def test_every_group_fits_on_one_screen() -> None:
    """Five groups, each to be seen at once."""
    groups = re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]

    assert [group.split("\n")[0] for group in groups] == [
        "Reading",
        "Writing",
        "DDL",
        "Functions",
        "SQL",
        "Transactions",
    ]
    assert all(group.count("\n") < _SCREEN for group in groups)
