"""Settings of `sparkport serve` from a file and from environment variables."""

from __future__ import annotations

import inspect
import os
from pathlib import Path
from typing import get_type_hints

import typer

from sparkport.config import Setting, read_config_file, read_switches, variable
from sparkport.errors import ConfigError

CONF = "sparkport.conf"
"""The key of a context under which the settings of Spark are kept."""


def read_settings(context: typer.Context, path: Path | None) -> Path | None:
    """Set the defaults of all other flags from the file, and from the variables of negative flags."""
    try:
        known = _known(context)
        settings = {"conf": []} if path is None else read_config_file(path, known)
        # By itself a flag would hide all of the variable, and not only the entries of the same key.
        context.meta[CONF] = [*settings.pop("conf"), *os.environ.get(variable("conf"), "").split()]
        switches = read_switches(os.environ, known)
        context.default_map = {**(context.default_map or {}), **settings, **switches}
    except ConfigError as error:
        typer.echo(f"sparkport: {error}", err=True)
        raise typer.Exit(2) from error
    return path


def _known(context: typer.Context) -> dict[str, Setting]:
    """Return the settings by flag; a parameter may be named differently from its flag."""
    assert context.command.callback is not None
    hints = get_type_hints(inspect.unwrap(context.command.callback))
    return {
        flag.removeprefix("--"): Setting(one.name, _kind(hints[one.name]), flag in one.secondary_opts)
        for one in context.command.params
        if one.name != "config"
        for flag in (*one.opts, *one.secondary_opts)
    }


def _kind(hint: object) -> type:
    """Return the type of a parameter in a file: names, folders and addresses are text."""
    return next((kind for kind in (bool, int, float) if kind is hint), str)
