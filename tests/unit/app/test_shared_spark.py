"""Lakehouses of one process share its Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkport import Lakehouse
from sparkport.errors import ConfigError


def test_lakehouses_share_one_spark(tmp_path: Path) -> None:
    """A second warehouse takes over the settings of the first; no Spark is started to find that out."""
    first = Lakehouse(tmp_path / "a", master="local[2]", conf={"spark.executor.memory": "1g"})
    second = Lakehouse(tmp_path / "b")
    third = Lakehouse(tmp_path / "c", master="local[2]", conf={"spark.executor.memory": "1g"})
    for lakehouse in (first, second, third):
        lakehouse.stop()
    fresh = Lakehouse(tmp_path / "d", master="local[1]")
    fresh.stop()

    assert (tmp_path / "b").is_dir()


def test_other_settings_need_another_process(tmp_path: Path) -> None:
    """What cannot be shared is named."""
    first = Lakehouse(tmp_path / "a", master="local[2]")
    try:
        with pytest.raises(ConfigError, match=r"other settings \(master, spark.executor.memory\)"):
            Lakehouse(tmp_path / "b", master="local[1]", conf={"spark.executor.memory": "1g"})
    finally:
        first.stop()


def test_settings_that_mean_nothing_are_named_as_python_names_them(tmp_path: Path) -> None:
    """An error of the API does not speak of flags."""
    with pytest.raises(ConfigError, match=r"^trash_hours is between 0 and 878400, not -1"):
        Lakehouse(tmp_path, trash_hours=-1)
    with pytest.raises(ConfigError, match=r"^read_mode is 'auto' or 'sql', not 'fast'$"):
        Lakehouse(tmp_path, read_mode="fast")
    with pytest.raises(ConfigError, match=r"^'here' is not a Spark master"):
        Lakehouse(tmp_path, master="here")
