"""Who is at the other end of a connection, as the kernel knows it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sparkport.toolkit.local_clients import LocalClients

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells whose a connection is")

_CLIENT = """
import mmap, socket, sys
if sys.argv[3]:
    with open(sys.argv[3], "rb") as file:
        loaded = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
connection = socket.create_connection((sys.argv[1], int(sys.argv[2])))
print(connection.getsockname()[1], flush=True)
sys.stdin.read()
"""


class Clients:
    """Processes that are connected to a listening socket."""

    def __init__(self, folder: Path) -> None:
        self.extension = folder / "airport.duckdb_extension"
        self.extension.write_bytes(b"not really")
        self._processes: list[subprocess.Popen[str]] = []
        self._sockets: list[socket.socket] = []

    def connect(self, host: str, loaded: str) -> int:
        """Return the port of a new client that has loaded a file."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, 0), family=family)
        arguments = [host, str(listener.getsockname()[1]), loaded]
        process = subprocess.Popen(
            [sys.executable, "-c", _CLIENT, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._processes.append(process)
        assert process.stdout is not None
        port = int(process.stdout.readline())
        self._sockets += (listener, listener.accept()[0])
        return port

    def close(self) -> None:
        """End all of them."""
        for process in self._processes:
            process.communicate("")
        for one in self._sockets:
            one.close()


@pytest.fixture
def clients(tmp_path: Path) -> Iterator[Clients]:
    """Return clients that are ended after the test."""
    clients = Clients(tmp_path)
    yield clients
    clients.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_process_with_the_extension_shares_the_files(clients: Clients, host: str) -> None:
    """It runs here, as the same user, and reads with DuckDB itself."""
    if host == "::1" and not Path("/proc/net/if_inet6").exists():
        pytest.skip("this machine has no IPv6")
    port = clients.connect(host, str(clients.extension))
    peer = f"ipv4:{host}:{port}" if host == "127.0.0.1" else f"ipv6:%5B{host}%5D:{port}"

    assert LocalClients().shares_files(peer)


def test_a_tunnel_does_not(clients: Clients) -> None:
    """The process here is not the one that would read the files."""
    assert not LocalClients().shares_files(f"ipv4:127.0.0.1:{clients.connect('127.0.0.1', '')}")


@pytest.mark.parametrize(
    "peer",
    ["", "unix:/tmp/x", "ipv4:10.0.0.1:80", "ipv4:127.0.0.1:1", "ipv4:nowhere:80", "ipv4:127.0.0.1:-5"],
)
def test_others_do_not(peer: str) -> None:
    """Those on other machines, and those who are not there."""
    assert not LocalClients().shares_files(peer)


def test_other_users_and_other_mounts_do_not(clients: Clients, monkeypatch: pytest.MonkeyPatch) -> None:
    """They may see other files under the same paths, or none."""
    peer = f"ipv4:127.0.0.1:{clients.connect('127.0.0.1', str(clients.extension))}"
    links = os.readlink

    with monkeypatch.context() as patch:
        patch.setattr(os, "readlink", lambda path: str(path) if "ns/mnt" in str(path) else links(path))
        assert not LocalClients().shares_files(peer)
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    monkeypatch.setattr(LocalClients, "_socket", lambda *_: ("1", 4712))
    assert not LocalClients().shares_files(peer)


def test_without_the_kernels_tables_nobody_does(tmp_path: Path, clients: Clients) -> None:
    """As on other systems than Linux."""
    peer = f"ipv4:127.0.0.1:{clients.connect('127.0.0.1', str(clients.extension))}"

    assert not LocalClients(tmp_path / "nothing").shares_files(peer)
