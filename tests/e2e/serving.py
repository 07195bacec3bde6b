"""A server in a process of its own, started by the command line."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self


class Process:
    """`python -m sparkport ...`, killed at the latest when the test ends.

    The engine is the one in memory unless told otherwise. `wrapper` is a command that runs it.
    """

    def __init__(
        self,
        *arguments: str,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        wrapper: Sequence[str] = (),
    ) -> None:
        own = {key: value for key, value in os.environ.items() if not key.startswith("SPARKPORT_")}
        self.process = subprocess.Popen(
            [*wrapper, sys.executable, "-m", "sparkport", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=cwd,
            env={**own, "SPARKPORT_ENGINE": "memory", "SPARKPORT_NO_HTTP": "1", **(env or {})},
        )
        self.stdout: list[str] = []
        self.stderr: list[str] = []
        self._ready = threading.Event()
        self._readers = [
            threading.Thread(target=self._read, args=(self.process.stdout, self.stdout), daemon=True),
            threading.Thread(target=self._read, args=(self.process.stderr, self.stderr), daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.finished()

    @property
    def location(self) -> str:
        """Wait until the server is ready and return where it is."""
        assert self._ready.wait(30), self.text
        found = re.search(r"^sparkport ready at (grpc(?:\+tls)?://\S+)$", "".join(self.stdout), re.MULTILINE)
        assert found is not None, self.text
        return found.group(1)

    @property
    def text(self) -> str:
        """Everything that was printed so far."""
        return "".join(self.stdout + self.stderr)

    def terminate(self) -> None:
        """Ask the server to stop, as a service manager does."""
        self.process.send_signal(signal.SIGTERM)

    def finished(self, timeout: float = 30) -> int:
        """Wait for the end and return the exit code."""
        code = self.process.wait(timeout)
        for reader in self._readers:
            reader.join(timeout)
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()
        return code

    def _read(self, pipe: object, lines: list[str]) -> None:
        assert hasattr(pipe, "readline")
        for line in iter(pipe.readline, ""):
            lines.append(line)
            if line.startswith("sparkport ready"):
                self._ready.set()
        self._ready.set()  # nothing more comes: whoever waits learns it from the text
