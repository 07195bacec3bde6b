"""The page of the JSON dialect is complete; its examples run in test_blocks."""

from __future__ import annotations

import re
from pathlib import Path

from sparkport.flight.routes import DESCRIPTIONS
from sparkport.flight.sql_actions import SQL_ACTIONS

DOCUMENT = (Path(__file__).parents[2] / "docs" / "json-dialect.md").read_text(encoding="utf-8")


def test_every_action_has_its_place() -> None:
    """Each action of the dialect has a heading of its own or shares one."""
    headings = " ".join(re.findall(r"^### (.*)$", DOCUMENT, re.MULTILINE))
    actions = [
        name
        for name in DESCRIPTIONS
        if (name[0].isupper() or "transaction" in name or name == "delete") and name not in SQL_ACTIONS
    ]

    assert len(actions) == 15
    for name in [*actions, "endpoints", "table_function_flight_info"]:
        assert name.lower() in headings.lower(), name
