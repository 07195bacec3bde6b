from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.mark.timeout(200)
def test_a_killed_java_process_is_replaced(start_client: Start, empty_folder: Path) -> None:
    """The running call is told, later calls get a new process, and nothing else is said or left behind."""
    client = start_client("crash", master="local[2]")
    output, errors = client.communicate(timeout=180)

    assert client.returncode == 0, errors
    assert json.loads(output) == {
        "error": "UnavailableError: Spark stopped while it worked on this call; try again",
        "rows": 7,
        "same_process": False,
    }
    assert [line for line in errors.splitlines() if "Spark was lost and is being restarted" not in line] == []
    assert list(empty_folder.iterdir()) == []


@pytest.mark.timeout(200)
def test_the_java_process_dies_with_the_server(start_client: Start) -> None:
    """A kill -9 of the server leaves no Java behind; Ctrl-C in its terminal does not reach Java."""
    client = start_client("serve", master="local[2]")
    assert client.stdout is not None
    java = int(client.stdout.readline())
    own_session = os.getsid(java)
    client.send_signal(signal.SIGKILL)
    client.wait(30)

    assert own_session == java
    assert _gone(java, seconds=20)


def _gone(process: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False
