"""The server between DuckDB and Spark."""

from typing import TYPE_CHECKING

from sparkport import errors
from sparkport.app import App, Server
from sparkport.client import connect
from sparkport.flight.transport.auth import Authenticator
from sparkport.flight.transport.limits import ServerLimits
from sparkport.toolkit import CatalogBuilder

if TYPE_CHECKING:
    from sparkport.app.lakehouse import Lakehouse

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


def __getattr__(name: str) -> object:
    """Import `Lakehouse` when it is first used: it needs PySpark, and most programs do not."""
    if name == "Lakehouse":
        from sparkport.app.lakehouse import Lakehouse  # noqa: PLC0415

        return Lakehouse
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
