"""The server between DuckDB and Spark."""

import importlib
from typing import TYPE_CHECKING

from sparkport import errors

if TYPE_CHECKING:
    from sparkport.app.application import App
    from sparkport.app.lakehouse import Lakehouse
    from sparkport.app.server import Server
    from sparkport.client import connect
    from sparkport.flight.transport.auth import Authenticator
    from sparkport.flight.transport.limits import ServerLimits
    from sparkport.toolkit import CatalogBuilder

__all__ = [
    "App",
    "Authenticator",
    "CatalogBuilder",
    "Lakehouse",
    "Server",
    "ServerLimits",
    "__version__",
    "connect",
    "errors",
]

__version__ = "0.1.0"

_MODULES = {
    "App": "sparkport.app.application",
    "Authenticator": "sparkport.flight.transport.auth",
    "CatalogBuilder": "sparkport.toolkit",
    "Lakehouse": "sparkport.app.lakehouse",
    "Server": "sparkport.app.server",
    "ServerLimits": "sparkport.flight.transport.limits",
    "connect": "sparkport.client",
}


def __getattr__(name: str) -> object:
    """Import a name when it is first used: a client needs no server, and few programs need PySpark."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
