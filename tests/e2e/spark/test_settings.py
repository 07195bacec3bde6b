"""What the command line refuses before anything is started."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from sparkport import cli


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Run in an empty folder, with the settings of no environment, and leave the log of the tests alone."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPARKPORT_ENGINE", "spark")
    monkeypatch.setattr(cli, "configure_logs", lambda *_: None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--master", "here"), "'here' is no master: give local[N], spark://..., k8s://... or yarn"),
        (("--remote", "http://h:1"), "a Spark Connect address begins with sc://, not 'http://h:1'"),
        (("--conf", "spark.executor.memory"), "--conf is written key=value, not 'spark.executor.memory'"),
        (("--conf", "=8g"), "--conf is written key=value, not '=8g'"),
        (("--lane", "fast"), "'fast' is not one of 'auto', 'sql'"),
        (("--config", "missing.toml"), "missing.toml: [Errno 2] No such file or directory"),
        (("--config", "broken.toml"), "broken.toml: "),
        (("--config", "flat.toml"), "flat.toml: conf is a table of Spark's settings"),
        (("taken",), "File exists: 'taken'"),
    ],
)
def test_a_wrong_setting_is_explained(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    """The exit code is 2, the text says what was given and what would be right, and nothing is made."""
    (tmp_path / "broken.toml").write_text("port = = 1")
    (tmp_path / "flat.toml").write_text("conf = 'spark.a=b'")
    (tmp_path / "taken").write_text("a file, and no folder")
    result = CliRunner().invoke(cli.app, ["serve", "--port", "0", *arguments], env={"COLUMNS": "200"})

    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["broken.toml", "flat.toml", "taken"]
