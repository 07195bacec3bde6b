"""`sparkport ps` and `sparkport cancel`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from sparkport.cli.connection import DEFAULT_LOCATION, Ca, Location, Token, TokenFile, connected

__all__ = ["cancel", "ps"]

_OVER = ("finished", "failed", "cancelled")
_COLOURS = {"failed": "red", "cancelled": "yellow", "finished": "dim"}


def ps(
    every: Annotated[bool, typer.Option("--all", "-a", help="Also the last ones that have ended.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, one statement per line.")] = False,
    server: Location = DEFAULT_LOCATION,
    token: Token = None,
    token_file: TokenFile = None,
    tls_ca: Ca = None,
) -> None:
    """List the statements that run on a server: your own, and those of all for an administrator."""
    with connected(server, token, token_file, tls_ca) as client:
        found = [one for one in client.statements() if every or one["state"] not in _OVER]
    if as_json:
        for statement in found:
            typer.echo(json.dumps(statement, ensure_ascii=False))
        return
    if not found:
        typer.echo("no statements run")
        return
    _print(found)


def cancel(
    statement: Annotated[str, typer.Argument(metavar="ID", help="The id that `sparkport ps` shows.")],
    server: Location = DEFAULT_LOCATION,
    token: Token = None,
    token_file: TokenFile = None,
    tls_ca: Ca = None,
) -> None:
    """Cancel a statement on a server."""
    with connected(server, token, token_file, tls_ca) as client:
        after = client.cancel(statement)
    state = after["state"]
    typer.echo(f"{statement} {'is being cancelled' if state not in _OVER else state}")


def _print(statements: Sequence[Mapping[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name in ("id", "principal", "kind", "state"):
        table.add_column(name, no_wrap=True)
    for name in ("rows", "seconds", "done"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("statement", overflow="ellipsis", no_wrap=True)
    for one in statements:
        progress = one.get("progress")
        done = f"{100 * progress['done'] // progress['total']} %" if progress and progress["total"] else ""
        what = " ".join((one["sql"] or one["table"]).split())
        row = (
            one["id"],
            one["principal"],
            one["kind"],
            one["state"],
            f"{one['rows']:,}",
            f"{one['seconds']:.1f}",
        )
        table.add_row(*row, done, what, style=_COLOURS.get(one["state"]))
    Console().print(table)
