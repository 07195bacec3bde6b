"""How a run treats tests that the machine cannot run: one small run of pytest per rule."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests import requirements

Run = Callable[..., tuple[int, list[str]]]
_SKIPPED = ["airport: 2 skipped: not installed", "linux: 1 skipped: other kernel"]
_TESTS = """
import pytest
from tests.requirements import missing

@pytest.fixture
def extension():
    missing("airport", "not\\n installed")

def test_one(extension): pass
def test_two(extension): pass
@pytest.mark.needs("linux", False, "other kernel")
def test_three(): pass
@pytest.mark.needs("linux", True, "other kernel")
def test_four(): pass
@pytest.mark.skip("no use here: by design")
def test_five(): pass
"""


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs the small tests and returns the exit code and the lines."""
    pytester.makeini("[pytest]\naddopts = --strict-markers -p tests.requirements -p no:cacheprovider\n")
    pytester.makepyfile(_TESTS)

    def run(required: str, *flags: str) -> tuple[int, list[str]]:
        monkeypatch.setenv(requirements.VARIABLE, required)
        monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
        result = pytester.runpytest_inprocess(*flags)
        return result.ret, [*result.outlines, *result.errlines]

    return run


def test_skips_are_counted_and_explained_by_kind(run: Run) -> None:
    """At the end of a run there is a line for each thing that was missing."""
    code, lines = run("")

    assert code == 0
    assert lines[-4:-1] == [*_SKIPPED, "not a lack of the machine: 1 skipped: no use here: by design"]


@pytest.mark.slow
def test_skips_of_workers_are_counted_too(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lines are those of a run in one process."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent.parent))
    code, lines = run("", "-p", "xdist.plugin", "-n", "1")

    assert code == 0
    assert [line for line in lines if line in _SKIPPED] == _SKIPPED


def test_what_is_required_fails_instead_of_being_skipped(run: Run) -> None:
    """Kinds that the variable does not name are skipped as before."""
    code, lines = run("airport, iceberg")

    assert code == 1
    assert sum("no airport: not" in line for line in lines) >= 2
    assert "linux: 1 skipped: other kernel" in lines
    assert any("1 passed, 2 skipped, 2 errors" in line for line in lines)


def test_everything_can_be_required(run: Run) -> None:
    """The word `all` stands for every kind; a test that is skipped by design stays skipped."""
    code, lines = run("all")

    assert code == 1
    assert any("1 passed, 1 skipped, 3 errors" in line for line in lines)


def test_misspelled_kind_stops_the_run(run: Run) -> None:
    """Otherwise the tests that it was to protect would be skipped in silence."""
    code, lines = run("airprot")

    assert code == pytest.ExitCode.USAGE_ERROR
    said = "SPARKPORT_REQUIRE names airprot; it takes airport, browser, iceberg"
    assert any(said in line for line in lines)
