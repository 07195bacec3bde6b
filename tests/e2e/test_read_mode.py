"""The setting `read-mode`, and its old name `lane`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sparkport import cli
from sparkport.spark.read.mode import ReadMode

WARNING = (
    "warning: the setting 'lane' is now 'read-mode' (--read-mode, SPARKPORT_READ_MODE);"
    " 'lane' will be removed\n"
)

Ask = Callable[..., tuple[ReadMode, str]]


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Ask:
    """Return how to learn which read mode a command line comes to, and what it prints besides."""
    modes: list[ReadMode] = []

    def lakehouse(*_: object, read_mode: ReadMode, **__: object) -> None:
        modes.append(read_mode)
        raise OSError("not started")

    def invoke(*arguments: str, file: str = "", **variables: str) -> tuple[ReadMode, str]:
        (tmp_path / "sparkport.toml").write_text(file)
        options = ["serve", "--engine", "spark", "--config", "sparkport.toml", *arguments]
        result = CliRunner().invoke(cli.app, options, env={"COLUMNS": "200", **variables})
        return modes.pop(), result.stderr.removesuffix("sparkport: not started\n")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sparkport.app.lakehouse.Lakehouse", lakehouse)
    monkeypatch.setattr("sparkport.cli.serve.configure_logs", lambda *_: None)
    return invoke


def test_read_mode_is_a_flag_a_variable_and_a_key(ask: Ask) -> None:
    """Each of the three sets it, and none of them says anything."""
    assert ask() == (ReadMode.AUTO, "")
    assert ask("--read-mode", "sql") == (ReadMode.SQL, "")
    assert ask(SPARKPORT_READ_MODE="sql") == (ReadMode.SQL, "")
    assert ask(file='read-mode = "sql"') == (ReadMode.SQL, "")
    assert ask(file='read_mode = "sql"') == (ReadMode.SQL, "")


def test_old_name_works_with_a_warning(ask: Ask) -> None:
    """The flag, the variable and the key of the old name mean the same, and say what to use."""
    assert ask("--lane", "sql") == (ReadMode.SQL, WARNING)
    assert ask(SPARKPORT_LANE="sql") == (ReadMode.SQL, WARNING)
    assert ask(file='lane = "sql"') == (ReadMode.SQL, WARNING)


def test_new_name_wins_over_the_old_one(ask: Ask) -> None:
    """Wherever both are given, the new name counts."""
    assert ask("--lane", "sql", "--read-mode", "auto") == (ReadMode.AUTO, WARNING)
    assert ask("--lane", "sql", SPARKPORT_READ_MODE="auto") == (ReadMode.AUTO, WARNING)
    assert ask("--lane", "sql", file='read-mode = "auto"') == (ReadMode.AUTO, WARNING)


def test_old_name_is_not_in_the_help() -> None:
    """The help shows one name."""
    result = CliRunner().invoke(cli.app, ["serve", "--help"], env={"COLUMNS": "200"})

    assert "--read-mode" in result.stdout
    assert "lane" not in result.stdout
