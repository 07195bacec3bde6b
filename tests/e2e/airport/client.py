"""DuckDB with the Airport extension, in a process of its own, as the tests see it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

import pytest

from sparkport import Server

_DRIVER = Path(__file__).with_name("driver.py")
_SCRIPT_SECONDS = 90
_INSTALL_SECONDS = 20

Rows = list[list[Any]]


@dataclass(frozen=True, slots=True)
class Step:
    """One statement on one of several DuckDB instances."""

    sql: str
    on: str = "main"
    interrupt_after: float | None = None
    pause_before: float = 0.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a statement gave: rows, or an error with its class."""

    rows: Rows
    error: str | None
    kind: str | None
    milliseconds: float


@dataclass(frozen=True, slots=True)
class Extension:
    """How the Airport extension is loaded."""

    load: str
    directory: Path


def find_extension(directory: Path) -> Extension | str:
    """Return the extension, or the reason why there is none."""
    path = os.environ.get("SPARKPORT_AIRPORT_EXTENSION")
    if path:
        return Extension(f"LOAD '{path}'", directory)
    extension = Extension("LOAD airport", directory)
    script = _script(
        extension, directory, ["INSTALL httpfs", "INSTALL airport FROM community"], [Step("LOAD airport")]
    )
    try:
        done = subprocess.run(
            [sys.executable, str(_DRIVER)],
            input=script,
            capture_output=True,
            text=True,
            timeout=_INSTALL_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"installing it took more than {_INSTALL_SECONDS} s"
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode or lines[-1]["error"] is not None:
        return "set SPARKPORT_AIRPORT_EXTENSION to its path, or go online"
    return extension


class DuckDB:
    """Runs scripts of SQL against a server, each in a fresh process."""

    def __init__(self, extension: Extension, home: Path) -> None:
        self._extension = extension
        self._home = home

    def ask(self, server: Server, *steps: str | Step) -> list[Rows]:
        """Run statements that must all succeed; return the rows of each."""
        outcomes = self.attempt(server, *steps)
        for step, outcome in zip(steps, outcomes, strict=True):
            assert outcome.error is None, f"{_sql(step)}\n{outcome.error}"
        return [outcome.rows for outcome in outcomes]

    def attempt(self, server: Server, *steps: str | Step) -> list[Outcome]:
        """Run statements with the first catalog attached as `db`; return what each gave."""
        return self.run(attached(server), *steps)

    def run(self, setup: Sequence[str], *steps: str | Step) -> list[Outcome]:
        """Run statements after a set-up of each instance; return what each gave."""
        process = self.start(setup, *steps)
        try:
            output, errors = process.communicate(timeout=_SCRIPT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            output, errors = process.communicate()
            _report(steps, output, errors, f"hung for {_SCRIPT_SECONDS} s")
        if process.returncode:
            _report(steps, output, errors, _how_it_ended(process.returncode))
        lines = [json.loads(line) for line in output.splitlines()]
        return [Outcome(**line) for line in lines if "begun" not in line]

    def start(self, setup: Sequence[str], *steps: str | Step) -> subprocess.Popen[str]:
        """Start a script and return its process; it writes a line per statement begun and ended."""
        process = subprocess.Popen(
            [sys.executable, str(_DRIVER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        script = _script(self._extension, self._home, [self._extension.load, *setup], steps)
        assert process.stdin is not None
        process.stdin.write(script)
        process.stdin.close()
        process.stdin = None
        return process


def attached(server: Server) -> list[str]:
    """Return the statements that attach the server's first catalog as `db`."""
    name = server.catalogs.items()[0][0]
    return [secret(server), f"ATTACH '{name}' AS db (TYPE airport, LOCATION '{server.location}')"]


def secret(server: Server) -> str:
    """Return the statement that lets DuckDB in."""
    return f"CREATE SECRET (TYPE airport, auth_token '{server.token}', SCOPE '{server.location}')"


def _script(extension: Extension, home: Path, setup: Sequence[str], steps: Sequence[str | Step]) -> str:
    return json.dumps(
        {
            "home": str(home),
            "extensions": str(extension.directory),
            "setup": list(setup),
            "steps": [asdict(Step(step) if isinstance(step, str) else step) for step in steps],
        }
    )


def _sql(step: str | Step) -> str:
    return step if isinstance(step, str) else step.sql


def _how_it_ended(code: int) -> str:
    return f"died of {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"


def _report(steps: Sequence[str | Step], output: str, errors: str, what: str) -> NoReturn:
    begun = [json.loads(line)["begun"] for line in output.splitlines() if '"begun"' in line]
    place = f"at statement {_sql(steps[begun[-1]])!r}" if begun else "before the first statement"
    pytest.fail(f"DuckDB {what} {place}\n{errors[-2000:]}")
