"""`sparkport doctor` and `sparkport prefetch`: what a machine needs to serve a lakehouse."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from sparkport.cli.messages import errors_as_exit_codes

_LITTLE_BYTES = 1 << 30
_PORTS = (8815, 8816)


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check has found, and what to do about it; nothing if all is well."""

    found: str
    advice: str = ""


def doctor(
    warehouse: Annotated[str, typer.Argument(help="The folder that will be served.")] = "lakehouse",
) -> None:
    """Check Java, Delta's jars, the warehouse, ports and disk, and say what to do."""
    checks: dict[str, Callable[[], Finding]] = {
        "user": _user,
        "Java": _java,
        "Delta's jars": _jars,
        "warehouse": lambda: _warehouse(warehouse),
        "disk": lambda: _disk(warehouse),
        "ports": _ports,
    }
    is_well = True
    for name, check in checks.items():
        finding = check()
        is_well = is_well and not finding.advice
        mark = typer.style("ok", fg="green") if not finding.advice else typer.style("!!", fg="red")
        typer.echo(f"{mark}  {name}: {finding.found}")
        if finding.advice:
            typer.echo(f"    {finding.advice}")
    if not is_well:
        raise typer.Exit(1)


def prefetch() -> None:
    """Fetch Delta's jars now, so that the server starts without a network afterwards."""
    from sparkport.spark.session.delta_jars import delta_jars
    from sparkport.spark.session.settings import SparkSettings

    settings = SparkSettings("lakehouse")
    with errors_as_exit_codes():
        jars = delta_jars(settings.jars_folder, ivy_settings=settings.ivy_settings)
    for jar in jars:
        typer.echo(str(jar))


def _user() -> Finding:
    """Return who serves: in a container that may be a number without a name, which Java cannot run as."""
    number = os.getuid()
    try:
        return Finding(pwd.getpwuid(number).pw_name)
    except KeyError:
        return Finding(
            f"user id {number} has no name on this machine, and Spark's Java needs one",
            "add a line for it to /etc/passwd (useradd), or run as a user that has one",
        )


def _java() -> Finding:
    from sparkport.errors import SparkportError
    from sparkport.spark.session.java_home import find_java

    try:
        java = find_java()
    except SparkportError as error:
        return Finding(str(error), "install Java 17 or 21, or: pip install 'sparkport[jdk]'")
    return Finding(f"{java.version} in {java.path}")


def _jars() -> Finding:
    from sparkport.spark.session.settings import SparkSettings

    folder = SparkSettings("lakehouse").jars_folder
    present = sorted(path.name for path in folder.glob("*.jar"))
    if present:
        return Finding(", ".join(present))
    return Finding(f"none in {folder}", "the first start fetches them; `sparkport prefetch` does it now")


def _warehouse(folder: str) -> Finding:
    path = Path(folder)
    if "://" in folder:
        return Finding(f"{folder} is in an object store, which is not checked")
    nearest = next(one for one in (path.absolute(), *path.absolute().parents) if one.exists())
    if path.exists() and not path.is_dir():
        return Finding(f"{folder} is a file", "give a folder")
    if not os.access(nearest, os.W_OK | os.X_OK):
        return Finding(f"{nearest} cannot be written to", "give another folder, or change its permissions")
    return Finding(f"{folder} {'can be written to' if path.exists() else 'will be made'}")


def _disk(folder: str) -> Finding:
    path = Path("." if "://" in folder else folder).absolute()
    nearest = next(one for one in (path, *path.parents) if one.exists())
    free = shutil.disk_usage(nearest).free
    advice = "" if free >= _LITTLE_BYTES else "make room: writes are refused when the disk is full"
    return Finding(f"{free / (1 << 30):.1f} GiB free", advice)


def _ports() -> Finding:
    taken = [port for port in _PORTS if not _is_free(port)]
    if not taken:
        return Finding(f"{' and '.join(map(str, _PORTS))} are free")
    names = " and ".join(map(str, taken))
    advice = "another server may run: choose another with --port" if _PORTS[0] in taken else ""
    return Finding(f"{names} {'is' if len(taken) == 1 else 'are'} taken", advice)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
