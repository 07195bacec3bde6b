"""How commands find a running server."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sparkport.cli.messages import errors_as_exit_codes
from sparkport.config import read_token

if TYPE_CHECKING:
    from sparkport.client import Client

__all__ = ["DEFAULT_LOCATION", "Ca", "Location", "Token", "TokenFile", "connected"]

DEFAULT_LOCATION = "grpc://127.0.0.1:8815"

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
    # It takes its time to import, and a server does not need it.
    from sparkport.client import connect

    with (
        errors_as_exit_codes(),
        connect(
            location, token=read_token(token, token_file, authenticate=True), catalog=catalog, tls_ca=ca
        ) as client,
    ):
        yield client
