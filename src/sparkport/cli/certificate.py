"""`sparkport certificate`: a self-signed certificate for a try of TLS."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sparkport.cli.messages import errors_as_exit_codes


def certificate(
    hosts: Annotated[
        list[str] | None,
        typer.Argument(help="Names and addresses of the server.", show_default="localhost 127.0.0.1 ::1"),
    ] = None,
    folder: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Where cert.pem and key.pem are written.")
    ] = Path(),
    days: Annotated[int, typer.Option(min=1, max=3650, help="How long the certificate is valid.")] = 30,
) -> None:
    """Make a self-signed certificate and its key, for a try of TLS."""
    # Cryptography takes its time to import.
    from sparkport.app.certificates import write_certificate

    with errors_as_exit_codes():
        pair = write_certificate(folder, hosts or ["localhost", "127.0.0.1", "::1"], days)
    typer.echo(f"sparkport serve --tls-cert {pair.certificate} --tls-key {pair.key}")
