from __future__ import annotations

from pathlib import Path

from sparkport.spark.session.class_archive import archive_options, archive_path
from sparkport.spark.session.java_home import JavaHome
from sparkport.spark.session.settings import SparkSettings

JAVA = JavaHome(Path("/java"), "17.0.15")
JARS = (Path("/jars/a.jar"),)


def test_an_archive_is_used_once_it_is_there(tmp_path: Path) -> None:
    """Without one Java starts as usual."""
    settings = SparkSettings("/data", cache=tmp_path)
    before = archive_options(settings, JAVA, JARS)
    path = archive_path(settings, JAVA, JARS)
    path.parent.mkdir()
    path.write_bytes(b"classes")

    assert before == []
    assert archive_options(settings, JAVA, JARS) == [f"-XX:SharedArchiveFile={path}", "-Xshare:auto"]


def test_an_empty_archive_is_not_used(tmp_path: Path) -> None:
    """It stands for a Java that cannot make one."""
    settings = SparkSettings("/data", cache=tmp_path)
    path = archive_path(settings, JAVA, JARS)
    path.parent.mkdir()
    path.touch()

    assert archive_options(settings, JAVA, JARS) == []


def test_every_java_and_every_set_of_jars_has_its_own_archive(tmp_path: Path) -> None:
    """An archive fits only the class path and the Java that it was made with."""
    settings = SparkSettings("/data", cache=tmp_path)
    paths = {
        archive_path(settings, JAVA, JARS),
        archive_path(settings, JavaHome(Path("/java"), "21.0.4"), JARS),
        archive_path(settings, JAVA, (Path("/jars/b.jar"),)),
    }

    assert len(paths) == 3
