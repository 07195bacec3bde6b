"""The jars that teach Spark to read and write Delta: fetched once, checked, kept."""

from __future__ import annotations

import hashlib
import importlib.util
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sparkport.errors import UnavailableError
from sparkport.spark.session.java_home import JavaHome, find_java

Progress = Callable[[str, int, int], None]
"""Called with the jar being fetched, how many are present already, and how many there are in all."""


@dataclass(frozen=True, slots=True)
class Jar:
    """A file of a Maven repository."""

    organisation: str
    module: str
    revision: str
    sha256: str

    @property
    def file_name(self) -> str:
        """What the file is called in the cache."""
        return f"{self.module}-{self.revision}.jar"


# Built for Spark 4.1. The thirty jars they depend on by their descriptors are in Spark itself or not used.
DELTA_JARS = (
    Jar(
        "io.delta",
        "delta-spark_4.1_2.13",
        "4.4.0",
        "75a9400986853c061f5109f012547de2545a5759e5e752e5ef633dabe16a4f10",
    ),
    Jar(
        "io.delta",
        "delta-storage",
        "4.4.0",
        "c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc",
    ),
)

_FETCH_SECONDS = 300


def delta_jars(
    folder: Path,
    *,
    ivy_settings: str | None = None,
    progress: Progress | None = None,
    java: Callable[[], JavaHome] = find_java,
    jars: tuple[Jar, ...] = DELTA_JARS,
) -> tuple[Path, ...]:
    """Return the jars in `folder`, and fetch those that are missing or damaged.

    Once they are there, neither the network nor Java is touched. Raises
    UnavailableError when a jar cannot be had.
    """
    for done, jar in enumerate(jars):
        if _digest(folder / jar.file_name) != jar.sha256:
            if progress:
                progress(jar.file_name, done, len(jars))
            _fetch(jar, folder, java(), ivy_settings)
            if progress:
                progress(jar.file_name, done + 1, len(jars))
    return tuple(folder / jar.file_name for jar in jars)


def _fetch(jar: Jar, folder: Path, java: JavaHome, ivy_settings: str | None) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    # A folder of its own per attempt, beside the target: the last step is an atomic rename,
    # so servers that start at the same time do not see each other's half-written files.
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as attempt:
        problem = _run_ivy(jar, Path(attempt), java, ivy_settings)
        fetched = Path(attempt) / jar.file_name
        digest = _digest(fetched)
        if digest is None:
            raise UnavailableError(
                f"{jar.file_name} could not be fetched: {problem}. It is needed once: let the machine reach a"
                " Maven repository, or name one in an Ivy settings file with SPARKPORT_IVY_SETTINGS"
            )
        if digest != jar.sha256:
            raise UnavailableError(f"{jar.file_name} was fetched, but its checksum is wrong: {digest}")
        fetched.replace(folder / jar.file_name)


def _run_ivy(jar: Jar, attempt: Path, java: JavaHome, ivy_settings: str | None) -> str:
    command = [str(java.executable), "-jar", str(_ivy()), "-cache", str(attempt / "cache")]
    if ivy_settings:
        command += ["-settings", ivy_settings]
    command += ["-dependency", jar.organisation, jar.module, jar.revision]
    command += ["-notransitive", "-confs", "default", "-types", "jar"]
    command += ["-retrieve", f"{attempt}/[artifact]-[revision].[ext]"]
    try:
        ivy = subprocess.run(  # noqa: S603
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_FETCH_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {_FETCH_SECONDS} seconds"
    except OSError as error:
        return f"Java did not start ({error.strerror})"
    return _error_lines(ivy.stdout + ivy.stderr)


def _error_lines(output: str) -> str:
    """Return the line of Ivy's output that says most."""
    lines = [line.strip(" \t:*") for line in output.splitlines()]
    telling = [
        line for line in lines if any(word in line for word in ("Exception", "not found", "timed out"))
    ]
    return telling[0] if telling else "the repository did not give it"


def _ivy() -> Path:
    spark = importlib.util.find_spec("pyspark")
    assert spark is not None
    assert spark.origin is not None
    return next((Path(spark.origin).parent / "jars").glob("ivy-*.jar"))


def _digest(path: Path) -> str | None:
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
