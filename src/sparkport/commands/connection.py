"""How commands find a running server."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from sparkport.client import Client, connect
from sparkport.config import read_token
from sparkport.errors import SparkportError

__all__ = ["Ca", "Location", "Token", "TokenFile", "connected", "errors_as_exit_codes"]

Location = Annotated[
    str,
    typer.Option(
        "--server",
        "-s",
        envvar="SPARKPORT_SERVER",
        metavar="URL",
        help="Where the server is: grpc://host:port, or grpc+tls://host:port.",
        rich_help_panel="Server",
    ),
]
Token = Annotated[
    str | None,
    typer.Option(
        envvar="SPARKPORT_TOKEN", help="The token; better in the variable.", rich_help_panel="Server"
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        envvar="SPARKPORT_TOKEN_FILE",
        metavar="FILE",
        help="A file with the token in its first line.",
        rich_help_panel="Server",
    ),
]
Ca = Annotated[
    Path | None,
    typer.Option(
        envvar="SPARKPORT_TLS_CA",
        metavar="FILE",
        help="The authority (PEM) to trust, such as a self-signed certificate itself.",
        rich_help_panel="Server",
    ),
]


@contextlib.contextmanager
def connected(
    location: str, token: str | None, token_file: Path | None, ca: Path | None, catalog: str = ""
) -> Iterator[Client]:
    """Yield a client; what goes wrong ends the program with one line and exit code 2."""
    with (
        errors_as_exit_codes(),
        connect(
            location, token=read_token(token, token_file, authenticate=True), catalog=catalog, tls_ca=ca
        ) as client,
    ):
        yield client


@contextlib.contextmanager
def errors_as_exit_codes() -> Iterator[None]:
    """Print an error as one line, and end with exit code 2."""
    try:
        yield
    except (SparkportError, OSError, ValueError) as error:
        typer.echo(f"sparkport: {error}", err=True)
        raise typer.Exit(2) from error
