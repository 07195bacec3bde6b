"""What the command line understands, and what it refuses before anything is started."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from typer.testing import CliRunner

from sparkport import cli


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Run in an empty folder, with the settings of no environment, and leave the log of the tests alone."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPARKPORT_ENGINE", "spark")
    monkeypatch.setattr("sparkport.cli.serve.configure_logs", lambda *_: None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--master", "here"), "'here' is not a Spark master: use local[N], spark://..., k8s://... or yarn"),
        (("--remote", "http://h:1"), "a Spark Connect address begins with sc://, not 'http://h:1'"),
        (("--conf", "spark.executor.memory"), "--conf must be key=value, not 'spark.executor.memory'"),
        (("--conf", "=8g"), "--conf must be key=value, not '=8g'"),
        (("--read-mode", "fast"), "'fast' is not one of 'auto', 'sql'"),
        (("--config", "missing.toml"), "missing.toml: [Errno 2] No such file or directory"),
        (("--config", "broken.toml"), "broken.toml: "),
        (("--config", "flat.toml"), "flat.toml: conf must be a table of Spark settings"),
        (
            ("--config", "typo.toml"),
            "sparkport: typo.toml: unknown setting 'no-adpot'. Did you mean 'no-adopt'?\n",
        ),
        (("--config", "itself.toml"), "sparkport: itself.toml: unknown setting 'config'"),
        (("--config", "list.toml"), "sparkport: list.toml: port must be a whole number, not a list\n"),
        (("--config", "range.toml"), "'--port'"),
        (("taken",), "sparkport: the warehouse 'taken' is a file, not a folder\n"),
    ],
)
def test_a_wrong_setting_is_explained(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    """The exit code is 2, the text says what was given and what would be right, and nothing is made."""
    (tmp_path / "broken.toml").write_text("port = = 1")
    (tmp_path / "flat.toml").write_text("conf = 'spark.a=b'")
    (tmp_path / "typo.toml").write_text("no-adpot = true")
    (tmp_path / "itself.toml").write_text("config = 'other.toml'")
    (tmp_path / "list.toml").write_text("port = [1]")
    (tmp_path / "range.toml").write_text("port = 70000")
    (tmp_path / "taken").write_text("a file, and no folder")
    there = sorted(tmp_path.iterdir())
    result = CliRunner().invoke(cli.app, ["serve", *arguments], env={"COLUMNS": "200"})

    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.output
    assert sorted(tmp_path.iterdir()) == there


class Asked(NamedTuple):
    """What the command line would have started."""

    adopts: bool
    sample: bool
    functions: bool
    conf: dict[str, str]


Ask = Callable[..., Asked]


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Ask:
    """Return how to learn what arguments, variables and the text of a file come to."""
    asked: list[Asked] = []

    def fail(
        _: str, *, adopt: bool, sample: bool, functions: bool, conf: Mapping[str, str], **_others: object
    ) -> None:
        asked.append(Asked(adopt, sample, functions, dict(conf)))
        raise OSError("asked")

    def invoke(*arguments: str, file: str = "", **variables: str) -> Asked:
        (tmp_path / "sparkport.toml").write_text(file)
        result = CliRunner().invoke(
            cli.app, ["serve", "--config", "sparkport.toml", *arguments], env=variables
        )
        assert (result.exit_code, result.stderr) == (2, "sparkport: asked\n")
        return asked.pop()

    monkeypatch.setattr("sparkport.app.lakehouse.Lakehouse", fail)
    return invoke


def test_every_switch_is_on_or_off_by_itself(ask: Ask) -> None:
    """Without settings tables of others are adopted, functions are there, and the sample is not."""
    assert ask() == Asked(adopts=True, sample=False, functions=True, conf={})


def test_switches_are_turned_by_flags_variables_and_the_file(ask: Ask) -> None:
    """Both flags of a pair have a variable and a key, and each means what the flag does."""
    off = Asked(adopts=False, sample=False, functions=False, conf={})

    assert ask("--no-adopt", "--no-functions") == off
    assert ask(SPARKPORT_NO_ADOPT="1", SPARKPORT_NO_FUNCTIONS="1") == off
    assert ask(SPARKPORT_ADOPT="0", SPARKPORT_FUNCTIONS="0") == off
    assert ask(file="no-adopt = true\nno-functions = true") == off
    assert ask(file="adopt = false\nfunctions = false") == off
    assert ask(SPARKPORT_SAMPLE="1").sample
    assert ask(file="sample = true").sample


def test_flags_win_over_variables_and_those_over_the_file(ask: Ask) -> None:
    """The nearest setting of a switch counts, by whichever of its names it is given."""
    assert ask("--adopt", SPARKPORT_NO_ADOPT="1").adopts
    assert ask("--adopt", file="no-adopt = true").adopts
    assert ask(SPARKPORT_NO_ADOPT="0", file="adopt = false").adopts
    assert not ask(SPARKPORT_NO_ADOPT="1", file="adopt = true").adopts
    assert not ask(SPARKPORT_ADOPT="0", file="no-adopt = false").adopts


def test_settings_of_spark_are_gathered_from_everywhere(ask: Ask) -> None:
    """Each key counts by itself: a flag for one leaves the others of the variable and the file in place."""
    file = "[conf]\na = 1\nb = 1\nc = 1\n"

    assert ask(SPARKPORT_CONF="a=2 b=2").conf == {"a": "2", "b": "2"}
    assert ask("--conf", "a=3", SPARKPORT_CONF=" a=2\tb=2\n", file=file).conf == {
        "a": "3",
        "b": "2",
        "c": "1",
    }


@pytest.mark.parametrize(
    ("file", "variables", "message"),
    [
        ("adopt = true\nno-adopt = true", {}, "sparkport.toml: adopt and no-adopt contradict each other"),
        (
            "",
            {"SPARKPORT_ADOPT": "1", "SPARKPORT_NO_ADOPT": "1"},
            "SPARKPORT_ADOPT and SPARKPORT_NO_ADOPT contradict each other",
        ),
        ("", {"SPARKPORT_NO_FUNCTIONS": "2"}, "SPARKPORT_NO_FUNCTIONS must be true or false, not '2'"),
        ("", {"SPARKPORT_CONF": "a=1 b"}, "--conf must be key=value, not 'b'"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(
    tmp_path: Path, file: str, variables: dict[str, str], message: str
) -> None:
    """One line says which, and the exit code is 2."""
    (tmp_path / "sparkport.toml").write_text(file)
    result = CliRunner().invoke(cli.app, ["serve", "--config", "sparkport.toml"], env=variables)

    assert (result.exit_code, result.stderr) == (2, f"sparkport: {message}\n")
