"""`sparkport serve`: the server."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sparkport.app.greeting import greeting
from sparkport.app.process.allocation import keep_freed_memory, look_for_garbage_rarely
from sparkport.app.process.arguments import hide_argument
from sparkport.app.process.file_limit import raise_file_limit
from sparkport.app.process.logs import LogFormat, LogLevel, configure_logs
from sparkport.cli.messages import note, tell
from sparkport.cli.serving import run
from sparkport.cli.settings import CONF, read_settings
from sparkport.config import Engine, parse_conf, read_token, variable
from sparkport.errors import SparkportError
from sparkport.flight.transport.limits import ServerLimits
from sparkport.spark.read.mode import DEFAULT_LOCAL_SCAN_BYTES, DirectReadMode, ReadMode

if TYPE_CHECKING:
    from sparkport.app.lakehouse import Lakehouse
    from sparkport.catalog.tables import Catalog

_HTTP_PORT = 8816
_LIMITS = ServerLimits()


def serve(
    context: typer.Context,
    warehouse: Annotated[
        str | None,
        typer.Argument(
            envvar="SPARKPORT_WAREHOUSE",
            help="Folder of the Spark warehouse, or its address in an object store.",
            show_default="./lakehouse",
        ),
    ] = None,
    engine: Annotated[Engine, typer.Option(envvar="SPARKPORT_ENGINE", help="Where tables are stored.")] = (
        Engine.SPARK
    ),
    catalog: Annotated[
        str, typer.Option(envvar="SPARKPORT_CATALOG", help="The database name to ATTACH in DuckDB.")
    ] = "lakehouse",
    host: Annotated[
        str, typer.Option(envvar="SPARKPORT_HOST", help="The address to listen on.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(envvar="SPARKPORT_PORT", min=0, max=65535, help="The port; 0 picks a free one.")
    ] = 8815,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="SPARKPORT_TOKEN", help="The token that clients must send; generated if not set."
        ),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            envvar="SPARKPORT_TOKEN_FILE",
            metavar="FILE",
            help="A file with the token in its first line; other users must not have access to it.",
        ),
    ] = None,
    tokens: Annotated[
        Path | None,
        typer.Option(
            envvar="SPARKPORT_TOKENS",
            metavar="FILE",
            help="The tokens of several callers, as `sparkport token` writes them; changes count at once.",
        ),
    ] = None,
    users: Annotated[
        Path | None,
        typer.Option(
            envvar="SPARKPORT_USERS",
            metavar="FILE",
            help="Users with passwords, as `sparkport user` writes them; changes count at once.",
        ),
    ] = None,
    jwt_issuer: Annotated[
        str | None,
        typer.Option(envvar="SPARKPORT_JWT_ISSUER", help="Admit access tokens (JWT) of this issuer."),
    ] = None,
    jwt_audience: Annotated[
        str | None,
        typer.Option(envvar="SPARKPORT_JWT_AUDIENCE", help="The audience that access tokens must name."),
    ] = None,
    jwt_keys: Annotated[
        str | None,
        typer.Option(
            envvar="SPARKPORT_JWT_KEYS",
            metavar="FILE|URL",
            help="The public keys of the issuer (JWKS): a file or an https address.",
        ),
    ] = None,
    jwt_claim: Annotated[
        str, typer.Option(envvar="SPARKPORT_JWT_CLAIM", help="The claim that names the caller.")
    ] = "sub",
    jwt_roles_claim: Annotated[
        str | None,
        typer.Option(
            envvar="SPARKPORT_JWT_ROLES_CLAIM",
            help="The claim with the caller's roles, such as `roles` or `realm_access.roles`.",
        ),
    ] = None,
    access: Annotated[
        Path | None,
        typer.Option(
            envvar="SPARKPORT_ACCESS",
            metavar="FILE",
            help="Who may do what (TOML): roles, grants, row filters and masks; changes count at once.",
        ),
    ] = None,
    audit: Annotated[
        str | None,
        typer.Option(
            envvar="SPARKPORT_AUDIT",
            metavar="FILE|stdout",
            help="Append a line of JSON for each call: who did what to which tables.",
        ),
    ] = None,
    audit_required: Annotated[
        bool,
        typer.Option(
            "--audit-required",
            envvar="SPARKPORT_AUDIT_REQUIRED",
            help="Refuse calls while the audit log cannot be written.",
        ),
    ] = False,
    no_auth: Annotated[
        bool, typer.Option("--no-auth", envvar="SPARKPORT_NO_AUTH", help="Require no token (loopback only).")
    ] = False,
    ticket_key_file: Annotated[
        Path | None,
        typer.Option(
            envvar="SPARKPORT_TICKET_KEY_FILE",
            metavar="FILE",
            help="Take the tickets of all servers with this key, the first line of a file.",
        ),
    ] = None,
    tls_cert: Annotated[
        Path | None,
        typer.Option(
            envvar="SPARKPORT_TLS_CERT",
            metavar="FILE",
            help="Encrypt: the server's certificate with its chain (PEM); read again when it changes.",
        ),
    ] = None,
    tls_key: Annotated[
        Path | None,
        typer.Option(envvar="SPARKPORT_TLS_KEY", metavar="FILE", help="The key of the certificate (PEM)."),
    ] = None,
    tls_client_ca: Annotated[
        Path | None,
        typer.Option(
            envvar="SPARKPORT_TLS_CLIENT_CA",
            metavar="FILE",
            help="Require client certificates that these authorities (PEM) have signed.",
        ),
    ] = None,
    insecure_network: Annotated[
        bool,
        typer.Option(
            "--insecure-network",
            envvar="SPARKPORT_INSECURE_NETWORK",
            help="Listen beyond loopback without TLS.",
        ),
    ] = False,
    app_spec: Annotated[
        str | None,
        typer.Option(
            "--app",
            envvar="SPARKPORT_APP",
            metavar="MODULE:OBJECT",
            help="Your App (its schemas beside the engine's), catalog (instead of the engine's)"
            " or catalogs by name (beside it).",
        ),
    ] = None,
    direct_reads: Annotated[
        DirectReadMode,
        typer.Option(
            envvar="SPARKPORT_DIRECT_READS",
            help="Spark: where DuckDB reads data files itself: `auto` if it runs on this machine as the same"
            " user, `always` (also if the flag has no value), or `never`.",
        ),
    ] = DirectReadMode.AUTO,
    adopt: Annotated[
        bool,
        typer.Option(
            "--adopt/--no-adopt",
            envvar="SPARKPORT_ADOPT",
            help="Spark: add row ids to tables that others created, at their first UPDATE or DELETE.",
        ),
    ] = True,
    read_mode: Annotated[
        ReadMode,
        typer.Option(
            envvar="SPARKPORT_READ_MODE",
            help="Spark: how rows are read: `auto` picks the fastest way, `sql` always uses Spark SQL.",
        ),
    ] = ReadMode.AUTO,
    local_scan_bytes: Annotated[
        int,
        typer.Option(
            min=0,
            envvar="SPARKPORT_LOCAL_SCAN_BYTES",
            help="Spark: scans of at most so many bytes of Parquet are decoded in the server instead of in"
            " Spark's tasks; 0 turns that off.",
        ),
    ] = DEFAULT_LOCAL_SCAN_BYTES,
    old_read_mode: Annotated[
        ReadMode | None,
        typer.Option("--lane", envvar="SPARKPORT_LANE", hidden=True, help="Use --read-mode."),
    ] = None,
    master: Annotated[
        str,
        typer.Option(
            envvar="SPARKPORT_MASTER", help="Spark: the master: local[N], spark://..., yarn or k8s://..."
        ),
    ] = "local[*]",
    remote: Annotated[
        str | None,
        typer.Option(
            envvar="SPARKPORT_REMOTE", help="Spark: the address sc://... of a Spark Connect server."
        ),
    ] = None,
    conf: Annotated[
        list[str] | None,
        typer.Option(
            "--conf",
            envvar="SPARKPORT_CONF",
            metavar="KEY=VALUE",
            help="Spark: a setting of Spark; may be repeated.",
        ),
    ] = None,
    functions: Annotated[
        bool,
        typer.Option(
            "--functions/--no-functions",
            envvar="SPARKPORT_FUNCTIONS",
            help="Spark: offer table functions (history, files, optimize ...) in schema sparkport.",
        ),
    ] = True,
    sql: Annotated[
        bool,
        typer.Option(
            "--sql/--no-sql",
            envvar="SPARKPORT_SQL",
            help="Let Flight SQL clients run SQL; Spark: offer the function query(sql).",
        ),
    ] = True,
    allow_query: Annotated[
        bool,
        typer.Option(
            "--allow-query",
            envvar="SPARKPORT_ALLOW_QUERY",
            hidden=True,
            help="Not needed any more: query(sql) is there unless --no-sql is given.",
        ),
    ] = False,
    query_timeout: Annotated[
        float,
        typer.Option(
            envvar="SPARKPORT_QUERY_TIMEOUT",
            min=0.1,
            metavar="SECONDS",
            help="Spark: the time limit of query(sql), until its last row is sent.",
        ),
    ] = 600.0,
    config: Annotated[
        Path | None,
        typer.Option(
            envvar="SPARKPORT_CONFIG",
            callback=read_settings,
            is_eager=True,
            help="A TOML file with any of these settings; flags and variables win over it.",
        ),
    ] = None,
    sample: Annotated[
        bool,
        typer.Option(
            "--sample",
            envvar="SPARKPORT_SAMPLE",
            help="Load sample tables if there are no tables yet.",
        ),
    ] = False,
    transaction_idle: Annotated[
        float,
        typer.Option(
            envvar="SPARKPORT_TRANSACTION_IDLE",
            min=1,
            metavar="SECONDS",
            help="After how long an unused transaction is aborted.",
        ),
    ] = 3600.0,
    trash_hours: Annotated[
        float,
        typer.Option(
            envvar="SPARKPORT_TRASH_HOURS",
            min=0,
            metavar="HOURS",
            help="Spark: how long dropped tables can be restored; 0 deletes them at once.",
        ),
    ] = 24.0,
    calls: Annotated[
        int, typer.Option(envvar="SPARKPORT_CALLS", min=1, help="The maximum number of concurrent calls.")
    ] = _LIMITS.concurrent_calls,
    connections: Annotated[
        int, typer.Option(envvar="SPARKPORT_CONNECTIONS", min=1, help="The maximum number of connections.")
    ] = _LIMITS.connections,
    connection_idle: Annotated[
        float,
        typer.Option(
            envvar="SPARKPORT_CONNECTION_IDLE",
            min=1,
            metavar="SECONDS",
            help="After how long a connection without calls is closed.",
        ),
    ] = _LIMITS.connection_idle_seconds,
    request_timeout: Annotated[
        float,
        typer.Option(
            envvar="SPARKPORT_REQUEST_TIMEOUT",
            min=1,
            metavar="SECONDS",
            help="How long a call may take to send its first message.",
        ),
    ] = _LIMITS.request_seconds,
    memory: Annotated[
        int,
        typer.Option(
            envvar="SPARKPORT_MEMORY",
            min=0,
            metavar="MIB",
            help="Memory for rows of uncommitted calls.",
            show_default="0: a quarter of the machine's",
        ),
    ] = 0,
    stream_idle: Annotated[
        float,
        typer.Option(
            "--stream-idle",
            "--idle-stream-timeout",
            envvar="SPARKPORT_STREAM_IDLE",
            min=1,
            metavar="SECONDS",
            help="After how long a stream is ended if its client neither sends nor reads.",
        ),
    ] = _LIMITS.stream_idle_seconds,
    statement_timeout: Annotated[
        float,
        typer.Option(
            envvar="SPARKPORT_STATEMENT_TIMEOUT",
            min=0,
            metavar="SECONDS",
            help="How long any statement may take, until its last row is sent; 0 is no limit.",
        ),
    ] = 0.0,
    statements_per_principal: Annotated[
        int,
        typer.Option(
            envvar="SPARKPORT_STATEMENTS_PER_PRINCIPAL",
            min=0,
            help="How many statements of one principal may run at once; 0 is no limit.",
        ),
    ] = 0,
    statements: Annotated[
        int,
        typer.Option(
            envvar="SPARKPORT_STATEMENTS", min=0, help="How many statements may run at once; 0 is no limit."
        ),
    ] = 0,
    statement_queue: Annotated[
        int,
        typer.Option(
            envvar="SPARKPORT_STATEMENT_QUEUE", min=0, help="How many more may wait for those to end."
        ),
    ] = _LIMITS.waiting_statements,
    queue_timeout: Annotated[
        float,
        typer.Option(
            envvar="SPARKPORT_QUEUE_TIMEOUT", min=0.1, metavar="SECONDS", help="How long each may wait."
        ),
    ] = _LIMITS.queue_seconds,
    http: Annotated[
        bool,
        typer.Option(
            "--http/--no-http", envvar="SPARKPORT_HTTP", help="Offer the console, metrics and health by HTTP."
        ),
    ] = True,
    http_port: Annotated[
        int,
        typer.Option(
            envvar="SPARKPORT_HTTP_PORT",
            min=0,
            max=65535,
            help="The port of the console; 0 picks a free one.",
            show_default="8816, or a free one if that is taken or --port is 0",
        ),
    ] = _HTTP_PORT,
    http_host: Annotated[
        str, typer.Option(envvar="SPARKPORT_HTTP_HOST", help="The address of the console.")
    ] = "127.0.0.1",
    drain_seconds: Annotated[
        float,
        typer.Option(
            envvar="SPARKPORT_DRAIN_SECONDS",
            min=0,
            metavar="SECONDS",
            help="After SIGTERM: how long statements that run may go on before they are cancelled.",
        ),
    ] = 10.0,
    otel_endpoint: Annotated[
        str | None,
        typer.Option(
            envvar="SPARKPORT_OTEL_ENDPOINT",
            metavar="URL",
            help="Send traces to this collector of OpenTelemetry, such as http://127.0.0.1:4318.",
        ),
    ] = None,
    log_format: Annotated[
        LogFormat, typer.Option(envvar="SPARKPORT_LOG_FORMAT", help="The format of log lines.")
    ] = LogFormat.CONSOLE,
    log_level: Annotated[
        LogLevel,
        typer.Option(
            envvar="SPARKPORT_LOG_LEVEL", case_sensitive=False, help="The lowest level that is logged."
        ),
    ] = LogLevel.INFO,
) -> None:
    """Serve tables to DuckDB and other Arrow Flight clients."""
    del config
    os.environ.pop(variable("token"), None)  # not for the processes that the server starts
    if _is_on_command_line(context, "token"):
        hide_argument(token or "")
    # Help and the other commands need none of this.
    from sparkport.app.application import App
    from sparkport.app.loading import load_app
    from sparkport.app.server import Server

    lakehouse: Lakehouse | None = None
    try:
        token = read_token(token, token_file, authenticate=not no_auth)
        configure_logs(log_format, log_level)
        keep_freed_memory()
        look_for_garbage_rarely()
        raise_file_limit()
        if allow_query:
            note(log_format, "--allow-query does nothing any more: SQL is on, and --no-sql switches it off")
        own: App | dict[str, Catalog] = {} if app_spec is None else load_app(app_spec, catalog)
        catalogs: dict[str, Catalog] = {}
        if not isinstance(own, App) and catalog in own:
            pass  # the user's catalog takes the engine's place
        elif engine is Engine.SPARK:
            from sparkport.app.lakehouse import Lakehouse

            lakehouse = Lakehouse(
                warehouse or "lakehouse",
                master=master,
                remote=remote,
                conf=parse_conf([*context.meta[CONF], *(conf or ())]),
                read_mode=_read_mode(context, read_mode, old_read_mode, log_format),
                local_scan_bytes=local_scan_bytes,
                direct_reads=direct_reads,
                adopt=adopt,
                transaction_idle=transaction_idle,
                sample=sample,
                functions=functions,
                allow_query=sql,
                query_timeout=query_timeout,
                trash_hours=trash_hours,
            )
            catalogs = lakehouse.catalogs(catalog)
        else:
            catalogs = {catalog: _memory_catalog(transaction_idle, sample=sample)}
            if warehouse is not None:
                note(log_format, f"the memory engine ignores the warehouse {warehouse}")
            if direct_reads is not DirectReadMode.AUTO:
                note(log_format, "the memory engine ignores --direct-reads")
        if isinstance(own, App):
            own.mount(catalog, catalogs)
        server = Server(
            own if isinstance(own, App) else catalogs | own,
            host=host,
            port=port,
            token=token,
            authenticate=not no_auth,
            default_catalog=catalog,
            sql=sql,
            tokens=tokens,
            users=users,
            jwt_issuer=jwt_issuer,
            jwt_audience=jwt_audience,
            jwt_keys=jwt_keys,
            jwt_claim=jwt_claim,
            jwt_roles_claim=jwt_roles_claim,
            access=access,
            audit=audit,
            audit_required=audit_required,
            tls_cert=tls_cert,
            tls_key=tls_key,
            tls_client_ca=tls_client_ca,
            insecure_network=insecure_network,
            http_host=http_host,
            http_port=_http_ports(context, port, http_port) if http else None,
            grace_seconds=drain_seconds,
            ticket_key_file=ticket_key_file,
            otel_endpoint=otel_endpoint,
            limits=ServerLimits(
                concurrent_calls=calls,
                connections=connections,
                connection_idle_seconds=connection_idle,
                request_seconds=request_timeout,
                stream_idle_seconds=stream_idle,
                memory_bytes=memory << 20 or None,
                statement_seconds=statement_timeout or None,
                statements_per_principal=statements_per_principal or None,
                concurrent_statements=statements or None,
                waiting_statements=statement_queue,
                queue_seconds=queue_timeout,
            ),
        )
    except (SparkportError, OSError, ValueError) as error:
        tell(log_format, str(error), f"sparkport: {error}", logging.ERROR)
        raise typer.Exit(2) from error
    if _is_on_command_line(context, "token"):
        note(
            log_format,
            "other users can see --token in the process list until the server has started; use --token-file",
        )
    if token_file:
        shown: str | None = f"<the token in {token_file}>"
    else:
        shown = "<your token>" if token or tokens or users or jwt_issuer else server.token
    run(server, greeting(server.location, catalog, shown, server.console), lakehouse, log_format)


def _http_ports(context: typer.Context, port: int, http_port: int) -> tuple[int, ...]:
    """Return the ports to try for the console: the one that was asked for, else the usual or a free one.

    Two servers on one machine have one usual port between them, and neither should fail for a page.
    """
    source = context.get_parameter_source("http_port")
    if source is not None and source.name != "DEFAULT":
        return (http_port,)
    return (http_port, 0) if port else (0,)


def _is_on_command_line(context: typer.Context, parameter: str) -> bool:
    source = context.get_parameter_source(parameter)
    return source is not None and source.name == "COMMANDLINE"


def _read_mode(
    context: typer.Context, read_mode: ReadMode, old_read_mode: ReadMode | None, log_format: LogFormat
) -> ReadMode:
    """Return the read mode, also from its name in version 0.1; the new name wins over the old one."""
    if old_read_mode is None:
        return read_mode
    text = "the setting 'lane' is now 'read-mode' (--read-mode, SPARKPORT_READ_MODE); 'lane' will be removed"
    tell(log_format, text, f"warning: {text}", logging.WARNING)
    source = context.get_parameter_source("read_mode")
    is_given = source is not None and source.name != "DEFAULT"
    return read_mode if is_given else old_read_mode


def _memory_catalog(transaction_idle: float, *, sample: bool) -> Catalog:
    from sparkport.app.sample import load_sample
    from sparkport.memory import MemoryCatalog

    catalog = MemoryCatalog(transaction_idle_seconds=transaction_idle)
    if sample:
        load_sample(catalog)
    return catalog
