"""The commands, put together."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from sparkport import __version__
from sparkport.cli.access import access_app
from sparkport.cli.certificate import certificate
from sparkport.cli.doctor import doctor, prefetch
from sparkport.cli.serve import serve
from sparkport.cli.sql import sql
from sparkport.cli.statements import cancel, ps
from sparkport.cli.token import token_app
from sparkport.cli.user import user_app
from sparkport.spark.read.mode import DirectReadMode

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # they would print local variables, the token among them
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="The server between DuckDB and Spark.",
)

_EXAMPLES = """
**Examples**

    sparkport serve ./lakehouse                  # Delta tables in a folder, with Spark on this machine
    sparkport serve --engine memory --sample     # a small shop in memory
    sparkport serve --port 0 --no-auth           # any free port, no token
    sparkport serve s3a://b/w --master spark://h:7077 --conf spark.executor.memory=8g
    sparkport serve --app mymodule:catalog       # your own Python tables
    sparkport serve --app mymodule:app           # functions, tables and actions beside the engine's tables
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


_USE, _SECURE, _CHECK = "Use a running server", "Say who may use it", "Look after a machine"
app.command(epilog=_EXAMPLES, rich_help_panel="Serve")(serve)
app.command(rich_help_panel=_USE)(sql)
app.command(rich_help_panel=_USE)(ps)
app.command(rich_help_panel=_USE)(cancel)
app.add_typer(token_app, name="token", rich_help_panel=_SECURE)
app.add_typer(user_app, name="user", rich_help_panel=_SECURE)
app.add_typer(access_app, name="access", rich_help_panel=_SECURE)
app.command(rich_help_panel=_SECURE)(certificate)
app.command(rich_help_panel=_CHECK)(doctor)
app.command(rich_help_panel=_CHECK)(prefetch)


def _with_values(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with a value for `--direct-reads`, which was a switch in version 0.1."""
    following = [*arguments[1:], ""]
    return [
        f"{word}=always" if word == "--direct-reads" and after not in list(DirectReadMode) else word
        for word, after in zip(arguments, following, strict=True)
    ]


def main() -> None:
    """Run the command line."""
    app(_with_values(sys.argv[1:]))
