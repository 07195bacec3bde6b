from __future__ import annotations

import re
from pathlib import Path

import pytest

from sparkport.errors import UnavailableError
from sparkport.spark.session.java_home import JavaHome, find_java


def _installed(folder: Path, version: str) -> Path:
    launcher = folder / "bin" / "java"
    launcher.parent.mkdir(parents=True)
    launcher.write_text("#!/bin/sh\nexit 1\n")
    launcher.chmod(0o755)
    (folder / "release").write_text(f'IMPLEMENTOR="Someone"\nJAVA_VERSION="{version}"\n')
    return folder


@pytest.fixture(autouse=True)
def _no_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)


@pytest.mark.parametrize(("version", "major"), [("17.0.15", 17), ("21", 21), ("1.8.0_402", 8), ("22-ea", 22)])
def test_the_major_version_is_read_from_any_spelling(version: str, major: int) -> None:
    """Java 8 called itself 1.8, and previews carry a suffix."""
    assert JavaHome(Path("/java"), version).major == major


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    """A supported Java in JAVA_HOME is taken, whatever the PATH has."""
    home = _installed(tmp_path / "home", "21.0.4")
    other = _installed(tmp_path / "other", "17.0.15")

    found = find_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")})

    assert found == JavaHome(home, "21.0.4")


def test_an_unsupported_java_home_is_skipped(tmp_path: Path) -> None:
    """Spark would fail on another version: the next candidate is taken."""
    home = _installed(tmp_path / "home", "11.0.2")
    other = _installed(tmp_path / "other", "17.0.15")

    found = find_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")})

    assert found == JavaHome(other, "17.0.15")


def test_the_error_lists_what_was_found_and_what_to_do(tmp_path: Path) -> None:
    """Without a fitting Java the error says why each candidate does not serve."""
    home = tmp_path / "gone"
    other = _installed(tmp_path / "other", "25.0.1")

    with pytest.raises(UnavailableError) as raised:
        find_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")})

    assert str(raised.value) == (
        "Spark needs Java 17 or 21: JAVA_HOME has no working Java; the PATH has Java 25.0.1."
        " Install one and set JAVA_HOME, or run: pip install 'sparkport[jdk]'"
    )


def test_no_java_at_all_is_said(tmp_path: Path) -> None:
    """With nothing to look at the error says so."""
    with pytest.raises(UnavailableError, match=re.escape("Spark needs Java 17 or 21: none was found.")):
        find_java({"PATH": str(tmp_path)})


def test_a_launcher_without_a_release_file_is_asked(tmp_path: Path) -> None:
    """Some systems put a stub on the PATH that knows the true home."""
    stub = tmp_path / "usr" / "bin" / "java"
    stub.parent.mkdir(parents=True)
    stub.write_text("#!/bin/sh\necho '    java.home = /opt/java' >&2\necho '    java.version = 17.0.9' >&2\n")
    stub.chmod(0o755)

    found = find_java({"PATH": str(stub.parent)})

    assert found == JavaHome(Path("/opt/java"), "17.0.9")


def test_a_small_runtime_is_known_by_its_modules(tmp_path: Path) -> None:
    """Spark asks for a module that small runtimes lack: the launcher must leave it out."""
    home = _installed(tmp_path, "21.0.8")
    (home / "release").write_text('JAVA_VERSION="21.0.8"\nMODULES="java.base java.sql"\n')

    assert find_java({"JAVA_HOME": str(home), "PATH": ""}) == JavaHome(home, "21.0.8", has_vectors=False)
