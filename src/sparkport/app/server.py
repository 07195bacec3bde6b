"""A server in one object."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from types import TracebackType
from typing import Self

import structlog

from sparkport.app.application import App
from sparkport.app.logs import LogFormat, LogLevel, configure_logs
from sparkport.catalog.actions import Action
from sparkport.catalog.tables import Catalog
from sparkport.config import ServeConfig
from sparkport.expressions.sandbox import SANDBOX
from sparkport.flight import routes
from sparkport.flight.context import ServerContext
from sparkport.flight.transport.auth import Authenticator, BearerTokens, NoAuth
from sparkport.flight.transport.limits import ServerLimits
from sparkport.flight.transport.server import GrpcServer
from sparkport.protocol.ticket import TicketSigner
from sparkport.toolkit.builder import CatalogBuilder
from sparkport.toolkit.registry import Catalogs

_PRINCIPAL = "user"


class Server:
    """Serves catalogs over Arrow Flight.

    >>> with Server({"demo": catalog}, port=0) as server:
    ...     print(server.location, server.token)

    A single catalog, or an `App`, is served under the name `lakehouse`. `server.catalogs` adds
    and drops catalogs while the server runs. With `authenticate=False` nobody
    needs a token, which is allowed on loopback only. Unless structlog is configured
    already, warnings and errors are logged to standard error.
    """

    def __init__(
        self,
        catalogs: Mapping[str, Catalog] | Catalog | CatalogBuilder | App,
        *,
        host: str = "127.0.0.1",
        port: int = 8815,
        token: str | None = None,
        authenticate: bool = True,
        default_catalog: str = "lakehouse",
        limits: ServerLimits | None = None,
        grace_seconds: float = 10.0,
    ) -> None:
        if not structlog.is_configured():
            configure_logs(LogFormat.CONSOLE, LogLevel.WARNING)
        self.config = ServeConfig(host, port, default_catalog, token, authenticate, grace_seconds)
        self.catalogs, actions = _served(catalogs, default_catalog)
        self.token = (token or secrets.token_urlsafe(24)) if authenticate else None
        limits = limits or ServerLimits()
        context = ServerContext(
            self.catalogs,
            TicketSigner(None if token is None else _ticket_key(token)),
            resources=limits.resources(),
            actions=actions,
        )
        self._grpc = GrpcServer(context, self._authenticator(), host, port, limits)

    @property
    def location(self) -> str:
        """Where clients find the server, such as `grpc://127.0.0.1:8815`."""
        return self._grpc.location

    def start(self) -> Self:
        """Begin to answer and return at once."""
        self._grpc.start()
        SANDBOX.start_ahead()
        return self

    def stop(self) -> None:
        """Let running calls finish, but no longer than the grace period."""
        self._grpc.stop(self.config.grace_seconds).wait()

    def wait(self) -> None:
        """Return when the server has stopped."""
        self._grpc.wait()

    def serve(self) -> None:
        """Start and stay until stopped from another thread or by Ctrl-C."""
        self.start()
        try:
            self.wait()
        except KeyboardInterrupt:
            self.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _authenticator(self) -> Authenticator:
        return NoAuth() if self.token is None else BearerTokens({self.token: _PRINCIPAL})


def _ticket_key(token: str) -> bytes:
    """Return a key that stays the same after a restart; slow to compute, so that no token is guessed."""
    return hashlib.scrypt(token.encode(), salt=b"sparkport tickets", n=1 << 14, r=8, p=1, dklen=32)


def _served(
    catalogs: Mapping[str, Catalog] | Catalog | CatalogBuilder | App, default: str
) -> tuple[Catalogs, Mapping[str, Action]]:
    """Return the catalogs by name, and the actions beside the server's own."""
    if isinstance(catalogs, App):
        taken = next((name for name in catalogs.actions if name in routes.DESCRIPTIONS), None)
        if taken is not None:
            raise ValueError(f"action {taken!r} is one of the server's own")
        catalogs.mount(default)
        catalogs.catalogs.set_default(default)
        return catalogs.catalogs, catalogs.actions
    if isinstance(catalogs, CatalogBuilder):
        catalogs = catalogs.build()
    named = catalogs if isinstance(catalogs, Mapping) else {default: catalogs}
    return Catalogs(named, default=default if default in named else ""), {}
