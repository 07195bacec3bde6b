from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import pytest

from sparkport.errors import UnavailableError
from sparkport.spark.session.delta_jars import Jar, delta_jars
from sparkport.spark.session.java_home import JavaHome

JAR = Jar("org.example", "thing", "1.0", hashlib.sha256(b"content").hexdigest())


def _java(folder: Path, content: str | None) -> JavaHome:
    """Return a Java whose Ivy retrieves a file with the given content, or none."""
    launcher = folder / "bin" / "java"
    launcher.parent.mkdir(parents=True)
    launcher.write_text(
        f"#!{sys.executable}\n"
        "import pathlib, sys\n"
        f"pathlib.Path({str(folder / 'asked')!r}).write_text(' '.join(sys.argv[3:]))\n"
        f"content = {content!r}\n"
        "if content is None:\n"
        "    sys.exit('\\t\\tServer access error: java.net.UnknownHostException: repository')\n"
        "target = sys.argv[sys.argv.index('-retrieve') + 1]\n"
        "for word, value in (('[artifact]', 'thing'), ('[revision]', '1.0'), ('[ext]', 'jar')):\n"
        "    target = target.replace(word, value)\n"
        "pathlib.Path(target).write_text(content)\n"
    )
    launcher.chmod(0o755)
    return JavaHome(folder, "17.0.15")


def _no_java() -> JavaHome:
    raise AssertionError("Java is not needed")


def test_jars_that_are_there_need_neither_java_nor_network(tmp_path: Path) -> None:
    """A complete cache is used as it is."""
    (tmp_path / "thing-1.0.jar").write_bytes(b"content")

    assert delta_jars(tmp_path, java=_no_java, jars=(JAR,)) == (tmp_path / "thing-1.0.jar",)


def test_a_missing_jar_is_fetched_once(tmp_path: Path) -> None:
    """The fetched file lies in the cache alone: no half-written neighbours stay behind."""
    folder = tmp_path / "jars"
    steps: list[tuple[str, int, int]] = []

    delta_jars(
        folder,
        java=lambda: _java(tmp_path / "java", "content"),
        jars=(JAR,),
        progress=lambda name, done, total: steps.append((name, done, total)),
    )

    assert [path.name for path in folder.iterdir()] == ["thing-1.0.jar"]
    assert (folder / "thing-1.0.jar").read_bytes() == b"content"
    assert steps == [("thing-1.0.jar", 0, 1), ("thing-1.0.jar", 1, 1)]


def test_a_damaged_jar_is_fetched_again(tmp_path: Path) -> None:
    """A file that is not what its checksum says is replaced."""
    (tmp_path / "thing-1.0.jar").write_bytes(b"half")

    delta_jars(tmp_path, java=lambda: _java(tmp_path / "java", "content"), jars=(JAR,))

    assert (tmp_path / "thing-1.0.jar").read_bytes() == b"content"


def test_a_jar_with_another_checksum_is_refused(tmp_path: Path) -> None:
    """What a repository gives is not trusted."""
    folder = tmp_path / "jars"

    with pytest.raises(UnavailableError, match=r"thing-1\.0\.jar was fetched, but its checksum is wrong"):
        delta_jars(folder, java=lambda: _java(tmp_path / "java", "evil"), jars=(JAR,))
    assert list(folder.iterdir()) == []


def test_an_unreachable_repository_is_explained(tmp_path: Path) -> None:
    """The error says what is missing, why, and what can be done."""
    with pytest.raises(UnavailableError) as raised:
        delta_jars(tmp_path / "jars", java=lambda: _java(tmp_path / "java", None), jars=(JAR,))

    assert str(raised.value) == (
        "thing-1.0.jar could not be fetched: Server access error: java.net.UnknownHostException: repository."
        " It is needed once: let the machine reach a Maven repository, or name one in an Ivy settings file"
        " with SPARKPORT_IVY_SETTINGS"
    )


def test_the_users_repository_is_asked(tmp_path: Path) -> None:
    """An Ivy settings file reaches Ivy."""
    java = _java(tmp_path / "java", "content")

    delta_jars(tmp_path / "jars", java=lambda: java, jars=(JAR,), ivy_settings="/etc/ivy.xml")

    asked = (tmp_path / "java" / "asked").read_text()
    assert "-settings /etc/ivy.xml -dependency org.example thing 1.0 -notransitive" in asked
