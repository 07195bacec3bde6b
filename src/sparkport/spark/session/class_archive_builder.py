"""Make the archive of classes: start Spark once, use it a little, and keep what it loaded.

Runs in a process of its own: `python -m sparkport.spark.session.class_archive_builder [CACHE]`.
"""

from __future__ import annotations

import fcntl
import logging
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import structlog

from sparkport.catalog import Call
from sparkport.spark.session.class_archive import archive_path
from sparkport.spark.session.delta_jars import DELTA_JARS, delta_jars
from sparkport.spark.session.host import SparkHost
from sparkport.spark.session.java_home import find_java
from sparkport.spark.session.process import child_environment
from sparkport.spark.session.settings import SparkSettings, cache_folder

_DUMP_SECONDS = 180.0
_WARM_SECONDS = 180.0


def train_in_background(settings: SparkSettings) -> subprocess.Popen[bytes] | None:
    """Start building the archive at the lowest priority, unless it exists or would not be used.

    The process goes on when the server ends before it is done.
    """
    if not settings.is_embedded or settings.brings_delta:
        return None
    jars = tuple(settings.jars_folder / jar.file_name for jar in DELTA_JARS)
    if archive_path(settings, find_java(), jars).is_file():
        return None
    command = [sys.executable, "-m", "sparkport.spark.session.class_archive_builder", str(settings.cache)]
    quiet = subprocess.DEVNULL
    return subprocess.Popen(  # noqa: S603
        command, env=child_environment(), stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True
    )


def train(cache: Path) -> None:
    """Make the archive for this machine's Java and the jars in `cache`, unless another process does.

    Some Javas have no archive of their own classes to build on: the file is empty then,
    so that the work is not tried at every start.
    """
    folder = cache / "classes"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        _train(cache)


def _train(cache: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="sparkport-training-") as folder:
        plain = SparkSettings(folder, master="local[2]", cache=cache)
        jars = delta_jars(plain.jars_folder, ivy_settings=plain.ivy_settings)
        target = archive_path(plain, find_java(), jars)
        if target.is_file():
            return
        # Java writes it at its end and not in one step; a half-written one must not be found.
        attempt = target.with_suffix(f".{os.getpid()}")
        option = f'"-XX:ArchiveClassesAtExit={attempt}"'
        host = SparkHost(replace(plain, conf={"spark.driver.extraJavaOptions": option}))
        try:
            host.session(Call())
            host.is_warm.wait(_WARM_SECONDS)
        finally:
            host.stop(_DUMP_SECONDS)
        if attempt.is_file():
            attempt.replace(target)
        else:
            target.touch()


if __name__ == "__main__":
    # Java tells of each class that it leaves out.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    if len(sys.argv) > 1:
        os.nice(19)
        train(Path(sys.argv[1]))
    else:
        train(cache_folder(os.environ))
