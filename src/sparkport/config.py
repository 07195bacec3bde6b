"""Settings of the server, checked once when it starts."""

from __future__ import annotations

import difflib
import enum
import hashlib
import ipaddress
import os
import stat
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparkport.errors import ConfigError

_ON = frozenset({"1", "true", "t", "yes", "y", "on"})
_OFF = frozenset({"0", "false", "f", "no", "n", "off"})
_MAX_TOKEN_BYTES = 4096
_MIN_KEY_CHARACTERS = 32
_OF_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_WORDS: Mapping[type, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    list: "a list",
    dict: "a table",
}


class Engine(enum.StrEnum):
    """Where tables are stored."""

    SPARK = "spark"
    MEMORY = "memory"


@dataclass(frozen=True, slots=True)
class ServeConfig:
    """Where a server listens and how it authenticates clients.

    With authentication and without a token the server generates one.
    """

    host: str = "127.0.0.1"
    port: int = 8815
    catalog: str = "lakehouse"
    token: str | None = None
    authenticate: bool = True
    grace_seconds: float = 10.0
    encrypts: bool = False
    insecure_network: bool = False

    def __post_init__(self) -> None:
        if not self.catalog:
            raise ConfigError("the catalog needs a name")
        if not self.authenticate and self.token is not None:
            raise ConfigError("a token was given, but authentication is off; drop one of the two")
        if self.token == "":
            raise ConfigError("the token is empty")
        if not self.authenticate and not is_loopback(self.host):
            raise ConfigError(f"a server without authentication listens on loopback only, not on {self.host}")
        if self.is_exposed and not self.insecure_network:
            raise ConfigError(
                f"on {self.host} tokens and rows would go over the network unencrypted: give a certificate"
                " (--tls-cert and --tls-key; `sparkport certificate` makes one for a try), or accept it"
                " with --insecure-network"
            )

    @property
    def is_exposed(self) -> bool:
        """Whether others on the network could read along."""
        return not self.encrypts and not is_loopback(self.host)


def read_token(token: str | None, file: Path | None, *, authenticate: bool) -> str | None:
    """Return the token, from the setting itself or the first line of a file; None if neither is set.

    Raises ConfigError, also for an own file that other users can read, as ssh does for private keys.
    """
    if token is not None and not authenticate:
        raise ConfigError("--token and --no-auth cannot be used together")
    if file is None:
        return token
    if token is not None:
        raise ConfigError("--token and --token-file cannot be used together")
    if not authenticate:
        raise ConfigError("--token-file and --no-auth cannot be used together")
    return _secret_line(file, f"the token file '{file}'")


def read_ticket_key(file: Path) -> bytes:
    """Return the key for tickets that the first line of a file stands for. Raises ConfigError."""
    name = f"the ticket key file '{file}'"
    line = _secret_line(file, name)
    if len(line) < _MIN_KEY_CHARACTERS:
        raise ConfigError(
            f"{name} has fewer than {_MIN_KEY_CHARACTERS} characters in its first line; make one with:"
            " openssl rand -base64 32"
        )
    return hashlib.sha256(line.encode()).digest()


def _secret_line(file: Path, name: str) -> str:
    """Return the first line of a file that nobody else may read. Raises ConfigError."""
    try:
        with file.open("rb") as opened:
            status = os.fstat(opened.fileno())
            line = opened.readline(_MAX_TOKEN_BYTES + 1).decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ConfigError(f"{name} cannot be read: {reason}") from error
    if status.st_uid == os.getuid() and stat.S_ISREG(status.st_mode) and status.st_mode & _OF_OTHERS:
        raise ConfigError(f"others can read {name}; use: chmod 600 {file}")
    if not line:
        raise ConfigError(f"{name} has an empty first line")
    if len(line) > _MAX_TOKEN_BYTES:
        raise ConfigError(f"{name} has more than {_MAX_TOKEN_BYTES} bytes in its first line")
    return line


@dataclass(frozen=True, slots=True)
class Setting:
    """The parameter that a flag sets, or with `is_opposite` the switch that it turns off."""

    parameter: str
    kind: type
    is_opposite: bool = False


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def read_config_file(path: Path, known: Mapping[str, Setting]) -> dict[str, Any]:
    """Return the settings of a TOML file by their parameters.

    The keys are those of `known`, the long names of the flags; `_` may stand for `-`. A table `conf` has
    entries for Spark. Raises ConfigError.
    """
    try:
        settings = tomllib.loads(path.read_text(encoding="utf-8"))
        conf = _entries(settings.pop("conf", {}))
        return {**_by_parameter(_checked(settings, known)), "conf": conf}
    except (ConfigError, OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from error


def read_switches(variables: Mapping[str, str], known: Mapping[str, Setting]) -> dict[str, bool]:
    """Return the values of switches with two flags from environment variables. Raises ConfigError.

    `SPARKPORT_NO_ADOPT` is the opposite of `SPARKPORT_ADOPT`, and both may be given if they agree.
    """
    pairs = {setting.parameter for setting in known.values() if setting.is_opposite}
    named = {variable(name): setting for name, setting in known.items() if setting.parameter in pairs}
    return _by_parameter(
        (name, setting, _switch(name, variables[name]))
        for name, setting in named.items()
        if variables.get(name)
    )


def variable(name: str) -> str:
    """Return the environment variable of a flag."""
    return f"SPARKPORT_{name.upper().replace('-', '_')}"


def parse_conf(entries: Iterable[str]) -> dict[str, str]:
    """Return entries such as `spark.executor.memory=8g` by their keys. Raises ConfigError."""
    settings = {}
    for entry in entries:
        key, equals, value = entry.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"--conf must be key=value, not {entry!r}")
        settings[key.strip()] = value.strip()
    return settings


def _entries(conf: object) -> list[str]:
    if not isinstance(conf, Mapping):
        raise ConfigError("conf must be a table of Spark settings")
    return [f"{key}={_text(key, value)}" for key, value in _flat(conf)]


def _flat(table: Mapping[str, Any], above: str = "") -> Iterable[tuple[str, Any]]:
    """Yield the entries of nested tables: in TOML, `spark.a.b = 1` is one."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


def _text(key: str, value: object) -> str:
    if not isinstance(value, str | int | float):
        raise ConfigError(f"conf.{key} must be text, a number or true or false, not {_word(value)}")
    return str(value).lower() if isinstance(value, bool) else str(value)


def _checked(
    settings: Mapping[str, object], known: Mapping[str, Setting]
) -> Iterable[tuple[str, Setting, Any]]:
    """Yield each key with its setting and value. Raises ConfigError for an unknown key or wrong type."""
    for key, value in settings.items():
        name = key.replace("_", "-")
        setting = known.get(name)
        if setting is None:
            near = difflib.get_close_matches(name.lower(), known, n=1)
            hint = f". Did you mean '{near[0]}'?" if near else ""
            raise ConfigError(f"unknown setting {key!r}{hint}")
        # A switch is a number to Python, but not to whoever writes a file.
        if type(value) is not setting.kind and not (type(value) is int and setting.kind is float):
            raise ConfigError(f"{key} must be {_WORDS[setting.kind]}, not {_word(value)}")
        yield key, setting, value


def _by_parameter(given: Iterable[tuple[str, Setting, Any]]) -> dict[str, Any]:
    """Return the values by parameter. Raises ConfigError for names of one parameter that disagree."""
    values: dict[str, tuple[str, Any]] = {}
    for name, setting, value in given:
        meant = not value if setting.is_opposite else value
        earlier, before = values.setdefault(setting.parameter, (name, meant))
        if before != meant:
            raise ConfigError(f"{earlier} and {name} contradict each other")
    return {parameter: meant for parameter, (_, meant) in values.items()}


def _switch(name: str, text: str) -> bool:
    """Return the value of a switch, from the same words that typer accepts."""
    word = text.strip().lower()
    if word not in _ON | _OFF:
        raise ConfigError(f"{name} must be true or false, not {text!r}")
    return word in _ON


def _word(value: object) -> str:
    """Return the type of a value in words; the value itself may be a secret."""
    return (
        "a number with a point" if isinstance(value, float) else _WORDS.get(type(value), "a date or a time")
    )
