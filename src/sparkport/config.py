"""What can be configured, checked once at the start."""

from __future__ import annotations

import enum
import ipaddress
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class Engine(enum.StrEnum):
    """Where the tables live."""

    SPARK = "spark"
    MEMORY = "memory"


class ConfigError(Exception):
    """A setting that makes no sense or is not safe."""


@dataclass(frozen=True, slots=True)
class ServeConfig:
    """How a server listens and whom it lets in.

    Without a token and with authentication on, the server makes one up.
    """

    host: str = "127.0.0.1"
    port: int = 8815
    catalog: str = "lakehouse"
    token: str | None = None
    authenticate: bool = True
    grace_seconds: float = 10.0

    def __post_init__(self) -> None:
        if not self.catalog:
            raise ConfigError("the catalog needs a name")
        if not self.authenticate and self.token is not None:
            raise ConfigError("--token and --no-auth exclude each other")
        if self.token == "":
            raise ConfigError("the token is empty")
        if not self.authenticate and not is_loopback(self.host):
            raise ConfigError(f"--no-auth is only allowed on loopback, not on {self.host}")


def is_loopback(host: str) -> bool:
    """Say whether only this machine can reach the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def read_config_file(path: Path) -> dict[str, Any]:
    """Return the settings of a TOML file, by the long names of the flags with `_` for `-`.

    A table `conf` has entries for Spark. Raises ConfigError.
    """
    try:
        settings = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from error
    conf = settings.get("conf", {})
    if not isinstance(conf, Mapping):
        raise ConfigError(f"{path}: conf is a table of Spark's settings")
    found = {key.replace("-", "_"): value for key, value in settings.items()}
    found["conf"] = [f"{key}={_text(value)}" for key, value in _flat(conf)]
    return found


def parse_conf(entries: Iterable[str]) -> dict[str, str]:
    """Return entries such as `spark.executor.memory=8g` by their keys. Raises ConfigError."""
    found = {}
    for entry in entries:
        key, equals, value = entry.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"--conf is written key=value, not {entry!r}")
        found[key.strip()] = value.strip()
    return found


def _flat(table: Mapping[str, Any], above: str = "") -> Iterable[tuple[str, Any]]:
    """Yield the entries of nested tables: in TOML, `spark.a.b = 1` is one."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
