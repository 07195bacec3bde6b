"""Settings in files and in entries."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkport.config import ConfigError, parse_conf, read_config_file


def test_settings_go_by_the_names_of_the_flags(tmp_path: Path) -> None:
    """A dash and an underscore mean the same; entries for Spark may be nested or quoted."""
    path = tmp_path / "sparkport.toml"
    path.write_text(
        'port = 9000\nlog-level = "debug"\n[conf]\nspark.executor.memory = "2g"\n'
        '"spark.sql.ansi.enabled" = true\n'
    )

    assert read_config_file(path) == {
        "port": 9000,
        "log_level": "debug",
        "conf": ["spark.executor.memory=2g", "spark.sql.ansi.enabled=true"],
    }


@pytest.mark.parametrize("text", ["port = ", "conf = 3", "\udcff"])
def test_damaged_file_is_told(tmp_path: Path, text: str) -> None:
    """The error names the file."""
    path = tmp_path / "sparkport.toml"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))

    with pytest.raises(ConfigError, match=r"sparkport\.toml: "):
        read_config_file(path)


def test_missing_file_is_told(tmp_path: Path) -> None:
    """A file that is asked for must be there."""
    with pytest.raises(ConfigError, match=r"No such file"):
        read_config_file(tmp_path / "none.toml")


def test_entries_are_key_and_value() -> None:
    """A value may contain the sign again."""
    assert parse_conf(["a.b=c", " d = e=f "]) == {"a.b": "c", "d": "e=f"}


@pytest.mark.parametrize("entry", ["nothing", "=value", ""])
def test_entry_without_a_key_is_told(entry: str) -> None:
    """What cannot be a setting is no setting."""
    with pytest.raises(ConfigError, match=r"^--conf is written key=value"):
        parse_conf([entry])
