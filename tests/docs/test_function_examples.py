"""The README shows what the example really says."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_readme_quotes_the_example() -> None:
    """Every function in the README's excerpt is in examples/functions.py, word for word."""
    readme = (ROOT / "README.md").read_text("utf-8")
    example = (ROOT / "examples" / "functions.py").read_text("utf-8")
    section = readme.partition("## Your own functions and tables")[2]
    excerpt = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert excerpt is not None

    parts = excerpt.group(1).strip().split("\n\n\n")
    assert len(parts) == 2
    assert all(part in example for part in parts)
