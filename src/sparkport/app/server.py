"""A server in one object."""

from __future__ import annotations

import contextlib
import hashlib
import secrets
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import structlog

from sparkport.access import Policies
from sparkport.app.application import App
from sparkport.app.authentication.custom import CustomAuthenticator
from sparkport.app.authentication.jwt_rules import JwtRules
from sparkport.app.authentication.token import TokenFileAuthenticator
from sparkport.app.authentication.tokens import TokenFile
from sparkport.app.greeting import greeting
from sparkport.app.process.logs import LogFormat, LogLevel, configure_logs
from sparkport.app.statement_functions import with_statement_functions
from sparkport.app.tracing import Traces, open_traces
from sparkport.catalog.actions import Action
from sparkport.catalog.principal import Principal
from sparkport.catalog.tables import Catalog
from sparkport.config import ServeConfig, is_loopback, read_ticket_key
from sparkport.errors import ConfigError
from sparkport.expressions.sandbox import SANDBOX
from sparkport.flight import routes
from sparkport.flight.audit import AuditLog
from sparkport.flight.context import ServerContext
from sparkport.flight.statement_queue import StatementQueue
from sparkport.flight.statement_registry import StatementRegistry
from sparkport.flight.transport.auth import (
    Authenticator,
    BearerTokens,
    NoAuth,
    NobodyElse,
    PasswordAuthenticator,
)
from sparkport.flight.transport.limits import ServerLimits
from sparkport.flight.transport.server import GrpcServer
from sparkport.flight.transport.tls import TlsFiles
from sparkport.http.server import HttpServer
from sparkport.protocol.ticket import TicketSigner
from sparkport.toolkit.builder import CatalogBuilder
from sparkport.toolkit.registry import Catalogs, CatalogSource

_log = structlog.get_logger("sparkport")

_PRINCIPAL = "user"

Served = Mapping[str, Catalog | CatalogSource] | Catalog | CatalogSource | CatalogBuilder


class Server:
    """Serves catalogs over Arrow Flight.

    >>> with Server({"demo": catalog}, port=0) as server:
    ...     print(server.location, server.token)

    A single catalog, a `Lakehouse` or an `App` is served under the name `default_catalog`; a
    mapping serves several. What runs behind them, such as the Spark of a `Lakehouse`, is started
    and stopped with the server. `app` adds the schemas and actions of an app to what is served.
    `catalogs` adds and drops databases while the server runs.

    Without a `token` the server makes one up. `tokens` is a file that `sparkport token` writes, with a token
    for each caller, and `users` one that `sparkport user` writes, with names and passwords. `jwt_issuer`,
    `jwt_audience` and `jwt_keys` (a file or an https address with a JWKS) admit access tokens, whose claim
    `jwt_claim` names the caller, and `jwt_roles_claim` its roles. With one of the three, only a `token` that
    is given counts beside them. An `authenticator` takes their place: an object with
    `authenticate(authorization)`, which gets the `authorization` header of each call, or None, and returns
    the name of the caller (or a `Principal` with roles) or raises `errors.UnauthenticatedError`; it is called
    from many threads. With `authenticate=False` nobody needs a token, which is allowed on loopback only.
    `tls_cert` and `tls_key`, files in PEM format, encrypt the traffic; new connections follow the files when
    they change. With `tls_client_ca` a client must have a certificate of that authority, whose common name
    says who calls if no `authorization` header does. Beyond loopback a server without TLS needs
    `insecure_network=True`.
    `access` is a file with roles, grants, row filters and masks: with it a caller may do only what the file
    grants; without it everybody may do everything. It is read again when it changes.
    `audit` is a file, or `stdout`, that gets a line of JSON for each call; with `audit_required` calls are
    refused while it cannot be written.
    `http_port` opens an HTTP port for the console, metrics and health, 0 a free one, or the first of several
    that nobody has taken; on loopback unless `http_host` says otherwise.
    `otel_endpoint` is the address of a collector of OpenTelemetry that gets a trace of each request, else the
    variables `OTEL_EXPORTER_OTLP_*` may name one.
    Servers with the same `ticket_key_file` take each other's tickets; its first line is the key. Without one,
    tickets are valid on servers with the same `token` that is given, and else on this one until it stops.
    `sql=False` switches SQL off, which Flight SQL clients could run else.
    Unless structlog is configured already, warnings and errors are logged to standard error.

    Raises `errors.ConfigError` for settings that contradict each other.
    """

    def __init__(
        self,
        catalogs: Served | App,
        *,
        app: App | None = None,
        host: str = "127.0.0.1",
        port: int = 8815,
        token: str | None = None,
        authenticate: bool = True,
        authenticator: Authenticator | None = None,
        default_catalog: str = "lakehouse",
        sql: bool = True,
        limits: ServerLimits | None = None,
        grace_seconds: float = 10.0,
        tokens: str | Path | None = None,
        users: str | Path | None = None,
        jwt_issuer: str | None = None,
        jwt_audience: str | None = None,
        jwt_keys: str | None = None,
        jwt_claim: str = "sub",
        jwt_roles_claim: str | None = None,
        access: str | Path | None = None,
        audit: str | Path | None = None,
        audit_required: bool = False,
        tls_cert: str | Path | None = None,
        tls_key: str | Path | None = None,
        tls_client_ca: str | Path | None = None,
        insecure_network: bool = False,
        http_host: str = "127.0.0.1",
        http_port: int | Sequence[int] | None = None,
        ticket_key_file: str | Path | None = None,
        otel_endpoint: str | None = None,
    ) -> None:
        if not structlog.is_configured():
            configure_logs(LogFormat.CONSOLE, LogLevel.WARNING)
        tls = _tls_files(tls_cert, tls_key, tls_client_ca)
        self.config = ServeConfig(
            host,
            port,
            default_catalog,
            token,
            authenticate,
            grace_seconds,
            encrypts=tls is not None,
            insecure_network=insecure_network,
        )
        if self.config.is_exposed:
            _log.warning("tokens and rows go over the network unencrypted", host=host)
        if authenticator is not None and (token is not None or not authenticate):
            raise ConfigError("an authenticator decides alone: give neither token nor authenticate=False")
        self.catalogs, actions = _served(catalogs, app, default_catalog)
        jwt_rules = _jwt_rules(jwt_issuer, jwt_audience, jwt_keys, jwt_claim, jwt_roles_claim)
        has_names = tokens is not None or users is not None or jwt_rules is not None
        if has_names and (authenticator is not None or not authenticate):
            raise ConfigError(
                "callers with names go neither with an authenticator nor with authenticate=False"
            )
        makes_token = authenticate and authenticator is None and not has_names
        self.token = (token or secrets.token_urlsafe(24)) if makes_token else token
        limits = limits or ServerLimits()
        self._policies = None if access is None else Policies(Path(access))
        self.statements = StatementRegistry(
            is_administrator=self._is_administrator,
            per_principal=limits.statements_per_principal,
            max_seconds=limits.statement_seconds,
        )
        for name in [self.catalogs.default] if self.catalogs.default else []:
            self.catalogs.replace(name, with_statement_functions(self.catalogs.get(name), self.statements))
        context = ServerContext(
            self.catalogs,
            TicketSigner(_ticket_key(token, ticket_key_file)),
            statements=self.statements,
            queue=StatementQueue(
                limits.concurrent_statements, waiting=limits.waiting_statements, seconds=limits.queue_seconds
            ),
            resources=limits.resources(),
            actions=actions,
            offers_sql=sql,
            policies=self._policies,
            audit=_audit_log(audit, is_required=audit_required),
        )
        own = self._own_tokens(tokens, jwt_rules)
        if users is not None:
            own = _with_users(users, ticket_key_file, own)
        chosen = own if authenticator is None else CustomAuthenticator(authenticator)
        self._grpc = GrpcServer(context, chosen, host, port, limits, tls)
        self.http = None if http_port is None else self._http(context, chosen, http_host, http_port, tls)
        self._traces = self._open_traces(otel_endpoint)

    @property
    def location(self) -> str:
        """Where clients find the server, such as `grpc://127.0.0.1:8815`."""
        return self._grpc.location

    @property
    def console(self) -> str | None:
        """Where the console is, such as `http://127.0.0.1:8816`; None without an HTTP port."""
        return None if self.http is None else self.http.location

    def reload(self) -> None:
        """Take over certificates that have changed; tokens are read again by themselves."""
        if self.http is not None:
            self.http.reload_certificates()
        _log.info("reloaded")

    def start(self) -> Self:
        """Begin to answer and return at once; Spark starts in the background."""
        self._grpc.start()
        self.catalogs.start()
        if self.http is not None:
            self.http.start()
        SANDBOX.start_ahead()
        return self

    def stop(self) -> None:
        """Let running calls finish, but no longer than the grace period; then stop what is behind them."""
        try:
            if self.http is not None:
                self.http.drain()
            self._grpc.stop(self.config.grace_seconds).wait()
        finally:
            if self.http is not None:
                self.http.stop()
            self.catalogs.stop()
            if self._traces is not None:
                self._traces.stop()

    def wait(self) -> None:
        """Return when the server has stopped."""
        self._grpc.wait()

    def serve(self) -> None:
        """Start, print how to attach, and stay until stopped from another thread or by Ctrl-C.

        The token is printed only if the server has made it up.
        """
        shown = "<your token>" if self.token and self.config.token else self.token
        with self:
            sys.stdout.write(greeting(self.location, self.catalogs.default, shown, self.console) + "\n")
            sys.stdout.flush()
            with contextlib.suppress(KeyboardInterrupt):
                self.wait()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _open_traces(self, endpoint: str | None) -> Traces | None:
        """Let requests be traced, if that is asked for. Raises ConfigError."""
        try:
            traces = open_traces(endpoint)
        except ConfigError:
            self._grpc.stop(0)
            raise
        if traces is not None:
            self.statements.trace_by(traces)
        return traces

    def _http(
        self,
        context: ServerContext,
        authenticator: Authenticator,
        host: str,
        port: int | Sequence[int],
        tls: TlsFiles | None,
    ) -> HttpServer:
        """Bind the HTTP port. Raises OSError, and ConfigError for a host that needs encryption."""
        try:
            if not is_loopback(host):
                self._check_exposed(host, tls)
            return HttpServer(
                context,
                authenticator,
                host,
                (port,) if isinstance(port, int) else port,
                tls=tls,
                location=self.location,
                needs_token=self.config.authenticate,
                takes_passwords=isinstance(authenticator, PasswordAuthenticator),
            )
        except (OSError, ConfigError):
            self._grpc.stop(0)
            raise

    def _check_exposed(self, host: str, tls: TlsFiles | None) -> None:
        if not self.config.authenticate:
            raise ConfigError(f"without authentication the HTTP port is on loopback only, not on {host}")
        if tls is None and not self.config.insecure_network:
            raise ConfigError(
                f"the HTTP port on {host} needs TLS: give --tls-cert and --tls-key, or --insecure-network"
            )

    def _is_administrator(self, principal: str) -> bool:
        """Return whether a principal may see and cancel the statements of all.

        With an access file that is who administers the default catalog, else who has the server's token.
        """
        if self._policies is not None:
            caller = principal if isinstance(principal, Principal) else Principal(principal)
            return self._policies.guard(caller).administers(self.catalogs.default)
        return self.token is not None and principal == _PRINCIPAL

    def _own_tokens(self, tokens: str | Path | None, jwt_rules: JwtRules | None) -> Authenticator:
        """Return who knows the server's token, access tokens and the list of tokens, if there are any."""
        if not self.config.authenticate:
            return NoAuth()
        known: Authenticator
        known = NobodyElse() if self.token is None else BearerTokens({self.token: _PRINCIPAL})
        if jwt_rules is not None:
            # It needs cryptography, which takes its time to import.
            from sparkport.app.authentication.jwt import JwtAuthenticator  # noqa: PLC0415
            from sparkport.app.authentication.jwt_keys import key_source  # noqa: PLC0415

            known = JwtAuthenticator(jwt_rules, key_source(jwt_rules.keys), known)
        return known if tokens is None else TokenFileAuthenticator(TokenFile(Path(tokens)), known)


def _with_users(users: str | Path, key_file: str | Path | None, other: Authenticator) -> Authenticator:
    """Return who knows the users of a file too. Servers with the same key take each other's sessions."""
    # It needs argon2, which others do not.
    from sparkport.app.authentication.password import UserFileAuthenticator  # noqa: PLC0415
    from sparkport.app.authentication.users import UserFile  # noqa: PLC0415

    key = None if key_file is None else read_ticket_key(Path(key_file))
    return UserFileAuthenticator(UserFile(Path(users)), other, key=key)


def _jwt_rules(
    issuer: str | None, audience: str | None, keys: str | None, claim: str, roles_claim: str | None
) -> JwtRules | None:
    if issuer and audience and keys:
        return JwtRules(issuer, audience, keys, claim, roles_claim)
    if issuer or audience or keys:
        raise ConfigError("access tokens need all three: --jwt-issuer, --jwt-audience and --jwt-keys")
    return None


def _audit_log(target: str | Path | None, *, is_required: bool) -> AuditLog | None:
    if target is not None:
        return AuditLog(str(target), is_required=is_required)
    if is_required:
        raise ConfigError("an audit that is required needs a place: give --audit too")
    return None


def _tls_files(
    certificate: str | Path | None, key: str | Path | None, client_ca: str | Path | None
) -> TlsFiles | None:
    if (certificate is None) != (key is None):
        raise ConfigError("a TLS certificate and its key go together: give both or neither")
    if certificate is None or key is None:
        if client_ca is not None:
            raise ConfigError("client certificates need TLS: give --tls-cert and --tls-key too")
        return None
    return TlsFiles(Path(certificate), Path(key), None if client_ca is None else Path(client_ca))


def _ticket_key(token: str | None, file: str | Path | None) -> bytes | None:
    """Return a key that stays the same after a restart, None if nothing is given to make it of."""
    if file is not None:
        return read_ticket_key(Path(file))
    if token is None:
        return None
    # Slow to compute, so that no token is guessed.
    return hashlib.scrypt(token.encode(), salt=b"sparkport tickets", n=1 << 14, r=8, p=1, dklen=32)


def _served(served: Served | App, app: App | None, default: str) -> tuple[Catalogs, Mapping[str, Action]]:
    """Return the catalogs by name, and the actions beside the server's own."""
    if isinstance(served, App):
        if app is not None:
            raise ConfigError("two apps were given: pass one of them, with what it is served over")
        return _with_app(served, {}, default)
    if isinstance(served, CatalogBuilder):
        served = served.build()
    named = served if isinstance(served, Mapping) else {default: served}
    if app is not None:
        return _with_app(app, named, default)
    return Catalogs(named, default=default if default in named else ""), {}


def _with_app(
    app: App, served: Mapping[str, Catalog | CatalogSource], default: str
) -> tuple[Catalogs, Mapping[str, Action]]:
    """Return the databases of an app, with its schemas in the default one, and its actions."""
    taken = next((name for name in app.actions if name in routes.DESCRIPTIONS), None)
    if taken is not None:
        raise ValueError(f"action {taken!r} is one of the server's own")
    engines: dict[str, Catalog] = {}
    sources = []
    for name, catalog in served.items():
        if isinstance(catalog, CatalogSource):
            engines.update(catalog.catalogs(name))
            sources.append(catalog)
        else:
            engines[name] = catalog
    app.mount(default, engines)
    for source in sources:
        app.catalogs.manage(source)
    app.catalogs.set_default(default)
    return app.catalogs, app.actions
