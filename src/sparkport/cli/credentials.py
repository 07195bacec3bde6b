"""What the commands for tokens and users have in common."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer

from sparkport.app.authentication.credential_file import StoredCredential

__all__ = ["Expires", "Roles", "print_list"]

Expires = Annotated[
    str | None, typer.Option(metavar="TIME", help="For how long it is valid, such as 30d, 12h or 90m.")
]
Roles = Annotated[
    list[str] | None,
    typer.Option("--role", help="A role in the file of `serve --access`; may be repeated."),
]


def print_list(credentials: Iterable[StoredCredential]) -> None:
    """Print whose they are, when they were made, and until when they are valid."""
    for stored in credentials:
        end = "does not expire" if stored.expires is None else f"until {stored.expires:%Y-%m-%d %H:%M} UTC"
        roles = f"  roles {', '.join(stored.roles)}" if stored.roles else ""
        typer.echo(f"{stored.name}  created {stored.created:%Y-%m-%d %H:%M} UTC  {end}{roles}")
