"""Clients in processes of their own: PySpark holds one session per process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

Start = Callable[..., "subprocess.Popen[str]"]
_FAST_START = "-XX:TieredStopAtLevel=1"
_CLIENT = Path(__file__).with_name("client.py")


@pytest.fixture
def empty_folder(tmp_path: Path) -> Path:
    """Return the folder that the clients run in."""
    folder = tmp_path / "empty"
    folder.mkdir()
    return folder


@pytest.fixture
def start_client(tmp_path: Path, empty_folder: Path) -> Iterator[Start]:
    """Return a function that starts a client for one step."""
    processes: list[subprocess.Popen[str]] = []

    def start(step: str, **settings: Any) -> subprocess.Popen[str]:
        given = {
            "warehouse": str(tmp_path / "warehouse"),
            "driver_memory": "1g",
            "warm_up": False,
            **settings,
        }
        process = subprocess.Popen(
            [sys.executable, str(_CLIENT), step, json.dumps(given)],
            cwd=empty_folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()
