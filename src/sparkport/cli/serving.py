"""What `sparkport serve` does around its server: until a signal arrives."""

from __future__ import annotations

import signal
import sys
import threading
from typing import TYPE_CHECKING

import typer

from sparkport.app.process.logs import LogFormat
from sparkport.cli.messages import tell

if TYPE_CHECKING:
    from sparkport.app.lakehouse import Lakehouse
    from sparkport.app.server import Server

__all__ = ["run"]

_POLL_SECONDS = 0.5


def run(server: Server, ready: str, lakehouse: Lakehouse | None, log_format: LogFormat) -> None:
    """Serve until a signal arrives."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    reload = threading.Event()
    signal.signal(signal.SIGHUP, lambda *_: reload.set())
    server.start()
    # Python runs signal handlers on this thread, but the kernel may wake another one: so poll.
    if lakehouse is not None:
        lakehouse.start()
        while not (lakehouse.is_open.wait(_POLL_SECONDS) or stop.is_set()):
            pass
    if not stop.is_set():
        typer.echo(ready)
        sys.stdout.flush()
    while not stop.wait(_POLL_SECONDS):
        if reload.is_set():
            reload.clear()
            server.reload()
    tell(log_format, "stopping", "sparkport: stopping ...")
    server.stop()
    if lakehouse is not None:
        lakehouse.stop()
