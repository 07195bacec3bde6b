"""Clients on the same machine that see the same files as the server.

An address of the loopback interface does not tell: behind it may be a tunnel, a proxy, a container or
another user. So the process at the other end of the connection is looked up. It shares the files if it
runs as the same user (or root), with the same root folder and mounts, and has loaded DuckDB's extension
itself. Known on Linux only; elsewhere no client is taken for one.
"""

from __future__ import annotations

import ipaddress
import os
import re
import struct
import threading
import time
from pathlib import Path

__all__ = ["LocalClients", "shares_files"]

_PEER = re.compile(r"(?:ipv4:|ipv6:)\[?(?P<host>[^\]]+)\]?:(?P<port>[0-9]+)")
_EXTENSION = b"airport.duckdb_extension"
_ESTABLISHED = "01"
_MAX_PEERS = 1024
# The port of a closed connection is not used again for a minute.
_KNOWN_SECONDS = 30.0


class LocalClients:
    """Answers for each connection, and remembers it for a while."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._lock = threading.Lock()
        self._known: dict[str, tuple[float, bool]] = {}

    def shares_files(self, peer: str) -> bool:
        """Return whether the client with this address, as gRPC says it, sees the server's files."""
        now = time.monotonic()
        with self._lock:
            known = self._known.get(peer)
        if known is not None and now < known[0]:
            return known[1]
        answer = self._find(peer)
        with self._lock:
            if len(self._known) >= _MAX_PEERS:
                self._known.clear()
            self._known[peer] = now + _KNOWN_SECONDS, answer
        return answer

    def _find(self, peer: str) -> bool:
        matched = _PEER.fullmatch(peer.replace("%5B", "[").replace("%5D", "]"))
        if matched is None:
            return False
        try:
            address = ipaddress.ip_address(matched["host"])
        except ValueError:
            return False
        if not address.is_loopback:
            return False
        socket = self._socket(address, int(matched["port"]))
        return socket is not None and any(
            self._is_same_place(process) and self._has_extension(process)
            for process in self._processes(*socket)
        )

    def _socket(
        self, address: ipaddress.IPv4Address | ipaddress.IPv6Address, port: int
    ) -> tuple[str, int] | None:
        """Return inode and user of the client's socket."""
        for table in ("tcp", "tcp6"):
            end = f"{_kernel_address(address, table)}:{port:04X}"
            for row in _lines(self._proc / "net" / table):
                fields = row.split()
                if fields[1] == end and fields[3] == _ESTABLISHED:
                    return fields[9], int(fields[7])
        return None

    def _processes(self, inode: str, user: int) -> list[Path]:
        """Return the processes that have a socket open, if they are the server's user's or root's."""
        if user not in {os.geteuid(), 0}:
            return []
        target = f"socket:[{inode}]"
        numbered = (process for process in self._proc.iterdir() if process.name.isdigit())
        return [process for process in numbered if _has_open(process / "fd", target)]

    def _is_same_place(self, process: Path) -> bool:
        own = self._proc / "self"
        return all(_link(process / what) == _link(own / what) for what in ("root", "ns/mnt"))

    def _has_extension(self, process: Path) -> bool:
        try:
            return _EXTENSION in (process / "maps").read_bytes()
        except OSError:
            return False


def _kernel_address(address: ipaddress.IPv4Address | ipaddress.IPv6Address, table: str) -> str:
    """Return an address as the kernel's tables have it: words of four bytes in the machine's order."""
    packed = address.packed
    if table == "tcp6" and len(packed) == 4:  # noqa: PLR2004
        packed = ipaddress.IPv6Address(f"::ffff:{address}").packed
    return "".join(f"{word:08X}" for word in struct.unpack(f"={len(packed) // 4}I", packed))


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()[1:]
    except OSError:
        return []


def _has_open(folder: Path, target: str) -> bool:
    try:
        return any(_link(file) == target for file in folder.iterdir())
    except OSError:
        return False  # another user's, or gone


def _link(path: Path) -> str | None:
    try:
        return os.readlink(path)  # noqa: PTH115  (a socket is no path)
    except OSError:
        return None


shares_files = LocalClients().shares_files
"""Whether the client with this address sees the server's files."""
