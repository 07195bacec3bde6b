"""Plans as texts for people: without what they tell of the server's files."""

from __future__ import annotations

import re
from collections.abc import Iterable

# A line of a plan such as `Location: PreparedDeltaFileIndex [file:/lake/sales/orders]`.
_LOCATION = re.compile(r"^.*\bLocation: .*\n?", re.MULTILINE)
_ADDRESS = re.compile(r"\b[a-z][a-z0-9+.-]*:/+[^\s'\"`,;)\]]*")
_HIDDEN = "(path)"


def without_places(plan: str, roots: Iterable[str]) -> str:
    """Return a plan without the places of tables and files."""
    plan = _LOCATION.sub("", plan)
    for root in sorted(roots, key=len, reverse=True):
        plan = plan.replace(root, _HIDDEN)
    return _ADDRESS.sub(_HIDDEN, plan).strip()
