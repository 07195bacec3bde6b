"""An archive of the classes that Spark loads, which later starts map instead of loading them one by one."""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path

from sparkport.spark.session.java_home import JavaHome
from sparkport.spark.session.settings import SparkSettings


def archive_path(settings: SparkSettings, java: JavaHome, jars: tuple[Path, ...]) -> Path:
    """Return where the archive for this Java, this Spark and these jars is kept."""
    spark = importlib.util.find_spec("pyspark")
    parts = (str(java.path), java.version, spark.origin if spark else "", *map(str, jars))
    key = hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:16]
    return settings.cache / "classes" / f"{key}.jsa"


def archive_options(settings: SparkSettings, java: JavaHome, jars: tuple[Path, ...]) -> list[str]:
    """Return the options that make Java use the archive, if there is one.

    Java itself checks that it fits the class path, and goes on without when it does not.
    """
    path = archive_path(settings, java, jars)
    # An empty file stands for a Java that cannot make one.
    if settings.is_embedded and path.is_file() and path.stat().st_size:
        return [f"-XX:SharedArchiveFile={path}", "-Xshare:auto"]
    return []
