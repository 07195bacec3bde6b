"""The HTTP server's life: bind, serve in a thread, stop."""

from __future__ import annotations

import errno
import socket
import ssl
import threading
from collections.abc import Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING

import structlog

from sparkport.flight.context import ServerContext
from sparkport.flight.transport.auth import Authenticator
from sparkport.flight.transport.tls import TlsFiles
from sparkport.http.health import Readiness
from sparkport.http.sessions import Sessions

if TYPE_CHECKING:
    import uvicorn

_log = structlog.get_logger("sparkport")

_STOP_SECONDS = 5.0
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


class HttpServer:
    """Health, metrics and the console on a port.

    What it needs is imported on its own thread, so that it delays no start; until then requests wait.
    """

    def __init__(
        self,
        context: ServerContext,
        authenticator: Authenticator,
        host: str,
        ports: Sequence[int],
        *,
        tls: TlsFiles | None = None,
        location: str = "",
        needs_token: bool = True,
        takes_passwords: bool = False,
    ) -> None:
        """Bind to the first of the ports that is free. Raises OSError."""
        self._context = context
        self._sessions = Sessions(authenticator)
        self._tls = tls
        self._location = location
        self._needs_token = needs_token
        self._takes_passwords = takes_passwords
        self._host = host
        self.readiness = Readiness()
        self._socket = _listening(host, ports)
        self.port = int(self._socket.getsockname()[1])
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()

    @property
    def location(self) -> str:
        """Where the console is."""
        scheme = "http" if self._tls is None else "https"
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{scheme}://{host}:{self.port}"

    def start(self) -> None:
        """Begin to answer."""
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)
        self._thread.start()

    def reload_certificates(self) -> None:
        """Use the certificates as they are now for new connections; bad ones change nothing."""
        server, tls = self._server, self._tls
        if tls is None or server is None or server.config.ssl is None:
            return
        try:
            server.config.ssl.load_cert_chain(tls.certificate, tls.key)
        except OSError as error:  # what ssl raises is one too
            _log.error("the certificate of the HTTP port is not reloaded", error=str(error))

    def drain(self) -> None:
        """Say that the server is about to stop, and go on to answer."""
        self.readiness.drain()

    def stop(self) -> None:
        """Stop answering."""
        self._stopping.set()
        if self._server is not None:
            self._server.should_exit = True
            self._server.force_exit = True
        if self._thread is not None:
            self._thread.join(_STOP_SECONDS)
        self._socket.close()

    def _run(self) -> None:
        try:
            import uvicorn  # noqa: PLC0415  (it takes its time)

            from sparkport.http.application import About, make_application  # noqa: PLC0415

            tls = self._tls
            about = About(
                version("sparkport"),
                self._location,
                self._needs_token,
                self._takes_passwords,
                self._tls is not None,
                f"sparkport_{self.port}",
            )
            application = make_application(
                self._context,
                self._sessions,
                self.readiness,
                about,
                is_loopback=self._host in _LOOPBACK,
            )
            config = uvicorn.Config(
                application,
                log_config=None,
                access_log=False,
                server_header=False,
                lifespan="off",
                ws="none",
                timeout_keep_alive=30,
                h11_max_incomplete_event_size=64 << 10,
                ssl_certfile=None if tls is None else tls.certificate,
                ssl_keyfile=None if tls is None else tls.key,
                ssl_ca_certs=None if tls is None or tls.client_ca is None else str(tls.client_ca),
                ssl_cert_reqs=ssl.CERT_NONE if tls is None or tls.client_ca is None else ssl.CERT_REQUIRED,
            )
            self._server = uvicorn.Server(config)
            if not self._stopping.is_set():
                self._server.run(sockets=[self._socket])
        except Exception as error:  # noqa: BLE001 - the gRPC port goes on without this one
            _log.error("the HTTP port has failed", error=f"{type(error).__name__}: {error}")


def _listening(host: str, ports: Sequence[int]) -> socket.socket:
    """Return a socket that listens on the first of the ports that nobody else listens on."""
    for port in ports:
        listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, port))
            listener.listen(128)
        except OSError as error:
            listener.close()
            if error.errno != errno.EADDRINUSE or port == ports[-1]:
                raise OSError(f"cannot listen on {host}:{port} for HTTP: {error.strerror}") from error
        else:
            return listener
    raise ValueError("no port")
