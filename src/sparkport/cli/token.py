"""`sparkport token`: the tokens of several callers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sparkport.app.authentication.credential_file import parse_duration
from sparkport.app.authentication.tokens import TokenFile
from sparkport.cli.credentials import Expires, Roles, print_list
from sparkport.cli.messages import errors_as_exit_codes

token_app = typer.Typer(
    no_args_is_help=True, help="Make, list and revoke the tokens of `serve --tokens FILE`."
)
_TokensFile = Annotated[
    Path, typer.Option("--file", envvar="SPARKPORT_TOKENS", metavar="FILE", help="The list of tokens.")
]


@token_app.command("create")
def create_token(
    name: Annotated[str, typer.Argument(help="Who gets the token: the principal of its calls.")],
    file: _TokensFile,
    expires: Expires = None,
    role: Roles = None,
) -> None:
    """Add a token to the list, and print it: it is kept as a hash only."""
    with errors_as_exit_codes():
        valid = None if expires is None else parse_duration(expires)
        typer.echo(TokenFile(file).create(name, valid, role or ()))


@token_app.command("list")
def list_tokens(file: _TokensFile) -> None:
    """Print the names of the tokens, when they were made, and until when they are valid."""
    with errors_as_exit_codes():
        print_list(TokenFile(file).read())


@token_app.command("revoke")
def revoke_token(
    name: Annotated[str, typer.Argument(help="The name of the token.")], file: _TokensFile
) -> None:
    """Remove a token from the list: new calls are refused at once, running ones end within a minute."""
    with errors_as_exit_codes():
        TokenFile(file).revoke(name)
