"""Other processes that use the same folders, some with process numbers of their own."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sparkport.spark.storage import lock_files
from tests.requirements import missing

OWN_NUMBERS = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child")


@contextmanager
def running(
    code: str, *arguments: str, wrapper: Sequence[str] = ()
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a program until the block ends; it says a line once it is ready, and then waits."""
    waiting = f"{code}\nprint(said, flush=True)\nsys.stdin.read()\n"
    command = [*wrapper, sys.executable, "-c", f"import sys\n{waiting}", *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        said = process.stdout.readline().strip()
        assert said, "the program did not come up"
        yield process, said
        process.stdin.close()


def kill(process: subprocess.Popen[str], folder: Path) -> None:
    """Kill a program, and return once the kernel has let go of its lock in a folder."""
    (lock,) = (path for path in folder.glob("*.lock") if lock_files.PROCESS not in path.name)
    process.kill()
    process.wait()
    deadline = time.monotonic() + 30
    while lock_files.is_held(lock):
        assert time.monotonic() < deadline, "the lock is still held"
        time.sleep(0.01)


def need_own_numbers() -> None:
    """Skip the test where nobody but root may have a namespace of processes."""
    tried = subprocess.run([*OWN_NUMBERS, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        missing(
            "namespaces", f"this machine gives nobody process numbers of their own: {tried.stderr.strip()}"
        )
