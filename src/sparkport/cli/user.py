"""`sparkport user`: users with passwords."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from sparkport.app.authentication.credential_file import parse_duration
from sparkport.cli.credentials import Expires, Roles, print_list
from sparkport.cli.messages import errors_as_exit_codes
from sparkport.errors import ConfigError

user_app = typer.Typer(no_args_is_help=True, help="Make, list and remove the users of `serve --users FILE`.")
_UsersFile = Annotated[
    Path, typer.Option("--file", envvar="SPARKPORT_USERS", metavar="FILE", help="The list of users.")
]
_Name = Annotated[str, typer.Argument(help="The name of the user: the principal of its calls.")]
_PasswordStdin = Annotated[
    bool, typer.Option("--password-stdin", help="Read the password from the first line of standard input.")
]


@user_app.command("create")
def create_user(
    name: _Name,
    file: _UsersFile,
    expires: Expires = None,
    role: Roles = None,
    password_stdin: _PasswordStdin = False,
) -> None:
    """Add a user, and ask for the password: it is kept as a hash only."""
    from sparkport.app.authentication.users import UserFile

    with errors_as_exit_codes():
        valid = None if expires is None else parse_duration(expires)
        UserFile(file).create(name, _password(from_stdin=password_stdin), valid, role or ())


@user_app.command("list")
def list_users(file: _UsersFile) -> None:
    """Print the names of the users, when they were made, and until when they are valid."""
    from sparkport.app.authentication.users import UserFile

    with errors_as_exit_codes():
        print_list(UserFile(file).read())


@user_app.command("remove")
def remove_user(name: _Name, file: _UsersFile) -> None:
    """Remove a user: new calls are refused at once, running ones end within a minute."""
    from sparkport.app.authentication.users import UserFile

    with errors_as_exit_codes():
        UserFile(file).remove(name)


@user_app.command("password")
def change_password(name: _Name, file: _UsersFile, password_stdin: _PasswordStdin = False) -> None:
    """Give a user a new password: the old one, and sessions begun with it, end as if it were removed."""
    from sparkport.app.authentication.users import UserFile

    with errors_as_exit_codes():
        UserFile(file).set_password(name, _password(from_stdin=password_stdin))


def _password(*, from_stdin: bool) -> str:
    """Return the password: asked for twice on a terminal, or the first line of the input."""
    if from_stdin:
        return sys.stdin.readline().rstrip("\r\n")
    if not sys.stdin.isatty():
        raise ConfigError("there is no terminal to ask for the password: use --password-stdin")
    password: str = typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    return password
