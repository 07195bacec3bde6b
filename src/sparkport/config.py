"""What can be configured, checked once at the start."""

from __future__ import annotations

import enum
import ipaddress
from dataclasses import dataclass


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
