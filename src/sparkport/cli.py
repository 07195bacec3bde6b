"""The command line."""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path
from typing import Annotated

import typer

from sparkport import __version__
from sparkport.app.allocation import keep_freed_memory
from sparkport.app.loading import load_app
from sparkport.app.logs import LogFormat, LogLevel, configure_logs
from sparkport.app.sample import load_sample
from sparkport.app.server import Server
from sparkport.catalog.tables import Catalog
from sparkport.config import ConfigError, Engine
from sparkport.errors import SparkportError
from sparkport.memory import MemoryCatalog

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # they would print local variables, the token among them
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="The server between DuckDB and Spark.",
)

_EXAMPLES = """
**Examples**

    sparkport serve --sample                     # a small shop in memory
    sparkport serve --port 0 --no-auth           # any free port, no token
    sparkport serve --app mymodule:catalog       # your own Python tables
"""


def _version(value: bool) -> None:
    if value:
        typer.echo(f"sparkport {__version__}")
        raise typer.Exit


@app.callback(epilog=_EXAMPLES)
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    del version


@app.command(epilog=_EXAMPLES)
def serve(
    warehouse: Annotated[
        Path | None, typer.Argument(envvar="SPARKPORT_WAREHOUSE", help="Folder of the Spark warehouse.")
    ] = None,
    engine: Annotated[Engine, typer.Option(envvar="SPARKPORT_ENGINE", help="Where the tables live.")] = (
        Engine.MEMORY
    ),
    catalog: Annotated[
        str, typer.Option(envvar="SPARKPORT_CATALOG", help="The name that DuckDB attaches.")
    ] = "lakehouse",
    host: Annotated[
        str, typer.Option(envvar="SPARKPORT_HOST", help="The address to listen on.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(envvar="SPARKPORT_PORT", min=0, max=65535, help="The port; 0 picks a free one.")
    ] = 8815,
    token: Annotated[
        str | None,
        typer.Option(envvar="SPARKPORT_TOKEN", help="The token clients need; without it one is made up."),
    ] = None,
    no_auth: Annotated[
        bool, typer.Option("--no-auth", envvar="SPARKPORT_NO_AUTH", help="Need no token (loopback only).")
    ] = False,
    app_spec: Annotated[
        str | None,
        typer.Option(
            "--app",
            envvar="SPARKPORT_APP",
            metavar="MODULE:OBJECT",
            help="Your catalog (served instead of the engine's) or catalogs by name (served beside it).",
        ),
    ] = None,
    direct_reads: Annotated[
        bool,
        typer.Option("--direct-reads", envvar="SPARKPORT_DIRECT_READS", help="Spark: let DuckDB read files."),
    ] = False,
    sample: Annotated[bool, typer.Option("--sample", help="Start with a small sample.")] = False,
    transaction_idle: Annotated[
        float,
        typer.Option(
            envvar="SPARKPORT_TRANSACTION_IDLE",
            min=1,
            metavar="SECONDS",
            help="After how long an unused transaction is aborted.",
        ),
    ] = 3600.0,
    log_format: Annotated[
        LogFormat, typer.Option(envvar="SPARKPORT_LOG_FORMAT", help="How log lines look.")
    ] = LogFormat.CONSOLE,
    log_level: Annotated[
        LogLevel,
        typer.Option(envvar="SPARKPORT_LOG_LEVEL", case_sensitive=False, help="How much is logged."),
    ] = LogLevel.INFO,
) -> None:
    """Serve tables to DuckDB and other Arrow Flight clients."""
    try:
        configure_logs(log_format, log_level)
        keep_freed_memory()
        catalogs: dict[str, Catalog] = {catalog: _engine_catalog(engine, sample, transaction_idle)}
        if warehouse is not None:
            typer.echo(f"note: the memory engine keeps nothing in {warehouse}", err=True)
        if direct_reads:
            typer.echo("note: the memory engine has no files for --direct-reads", err=True)
        if app_spec is not None:
            catalogs |= load_app(app_spec, catalog)
        server = Server(
            catalogs,
            host=host,
            port=port,
            token=token,
            authenticate=not no_auth,
            default_catalog=catalog,
        )
    except (ConfigError, SparkportError, OSError) as error:
        typer.echo(f"sparkport: {error}", err=True)
        raise typer.Exit(2) from error
    _run(server, catalog)


def _engine_catalog(engine: Engine, sample: bool, transaction_idle: float) -> Catalog:
    if engine is Engine.SPARK:
        raise ConfigError("the Spark engine is not part of this version; use --engine memory")
    catalog = MemoryCatalog(transaction_idle_seconds=transaction_idle)
    if sample:
        load_sample(catalog)
    return catalog


def _run(server: Server, catalog: str) -> None:
    """Serve until a signal comes."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    server.start()
    typer.echo(_greeting(server, catalog))
    sys.stdout.flush()
    stop.wait()
    typer.echo("sparkport: stopping ...", err=True)
    server.stop()


def _greeting(server: Server, catalog: str) -> str:
    where = server.location
    lines = [
        f"sparkport ready at {where}",
        "",
        "In DuckDB:",
        "  INSTALL airport FROM community; LOAD airport;",
    ]
    if server.token is not None:
        lines.append(f"  CREATE SECRET (TYPE airport, auth_token '{server.token}', SCOPE '{where}');")
    lines += [f"  ATTACH '{catalog}' (TYPE airport, LOCATION '{where}');", "  SHOW ALL TABLES;", ""]
    return "\n".join(lines)


def main() -> None:
    """Run the command line."""
    app()
