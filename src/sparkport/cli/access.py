"""`sparkport access`: what is wrong with an access file, and what it means for a caller."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sparkport.cli.messages import errors_as_exit_codes
from sparkport.errors import ConfigError

access_app = typer.Typer(no_args_is_help=True, help="Check and explain the file of `serve --access FILE`.")


@access_app.command("check")
def check_access(
    file: Annotated[Path, typer.Argument(envvar="SPARKPORT_ACCESS", metavar="FILE", help="The access file.")],
) -> None:
    """Say what is wrong with an access file, with the lines."""
    from sparkport.access.checks import checked_rules

    with errors_as_exit_codes():
        rules = checked_rules(file)
    counts = f"{len(rules.members)} roles, {len(rules.grants)} grants"
    typer.echo(f"{file} is valid: {counts}, {len(rules.filters)} row filters, {len(rules.masks)} masks")


@access_app.command("explain")
def explain_access(
    principal: Annotated[str, typer.Argument(help="The name of the caller.")],
    table: Annotated[str, typer.Argument(help="The table: catalog.schema.table.")],
    file: Annotated[
        Path, typer.Option("--file", envvar="SPARKPORT_ACCESS", metavar="FILE", help="The access file.")
    ],
    role: Annotated[
        list[str] | None, typer.Option(help="A role that the token of the caller has; may be repeated.")
    ] = None,
) -> None:
    """Say what a caller may do with a table, and which lines of the file say so."""
    from sparkport.access.checks import checked_rules
    from sparkport.access.explain import explain
    from sparkport.access.patterns import parse_name
    from sparkport.access.rules import Kind

    with errors_as_exit_codes():
        rules = checked_rules(file)
        path = parse_name(table)
        if len(path) != Kind.TABLE.parts:
            raise ConfigError(f"the table is written catalog.schema.table, not {table!r}")
    typer.echo(explain(rules, principal, frozenset(role or ()), path))
