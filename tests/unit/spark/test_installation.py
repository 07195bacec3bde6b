from __future__ import annotations

import tomllib
from pathlib import Path

REPOSITORY = Path(__file__).parents[3]


def test_a_plain_installation_has_what_spark_asks_for() -> None:
    """PySpark takes no Arrow tables without pandas, and does not depend on it by itself."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    assert [name for name in project["dependencies"] if name.startswith("pandas")] == ["pandas>=2.2,<3"]
